-- Write down what a driver spent in a period; false if this sample was there already.
SELECT medusa_market.record_load(CAST(:request AS jsonb));
