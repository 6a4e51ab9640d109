-- Housekeeping of what partners send and are sent: how much went.
SELECT medusa.tidy_partners(:open_ms)
