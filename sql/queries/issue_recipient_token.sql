-- A new token for a recipient, which is returned this once.
SELECT token, token_id, expires_at
FROM medusa_api.issue_recipient_token(:recipient, :lifetime_ms * interval '1 ms');
