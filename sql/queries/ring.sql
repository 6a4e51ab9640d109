-- Notify the listeners of a channel, for a trial whether they hear it.
SELECT pg_notify(:channel, :token);
