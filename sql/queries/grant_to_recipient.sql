-- Let a recipient read a stream.
SELECT medusa_api.grant_to_recipient(:stream, :recipient) AS is_new;
