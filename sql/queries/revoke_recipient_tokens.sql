-- End one token of a recipient now, or all of them.
SELECT medusa_api.revoke_recipient_tokens(:recipient, :token_id) AS revoked;
