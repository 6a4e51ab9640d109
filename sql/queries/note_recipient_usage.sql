-- Add what recipients used since the last call.
SELECT medusa_market.note_recipient_usage(CAST(:used AS jsonb));
