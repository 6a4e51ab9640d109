-- The database's clock in seconds since the epoch, as exactly as it has it.
SELECT extract(epoch FROM clock_timestamp());
