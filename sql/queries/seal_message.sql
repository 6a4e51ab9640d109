-- A message is signed as an envelope.
SELECT medusa_market.seal_message(:message_id, :nonce, :sent_at_ms, :expires_at_ms, :signature)
