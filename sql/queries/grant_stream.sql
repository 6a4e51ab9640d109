-- Let a partner read a stream through the exchange server; whether it is new.
SELECT medusa_api.grant_stream(:stream, :partner);
