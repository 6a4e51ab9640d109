-- A message lies in the partner's inbox (no problem), or why it does not.
SELECT medusa_market.acknowledge_message(:message_id, :problem)
