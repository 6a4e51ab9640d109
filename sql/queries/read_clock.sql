-- The catalog's clock in milliseconds: of now, not of the transaction's start.
SELECT medusa.to_ms(clock_timestamp()) AS now_ms;
