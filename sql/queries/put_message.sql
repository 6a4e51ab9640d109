-- Tell a partner something of a kind of its own; the message's number, none if the same waits.
SELECT medusa_market.put_message(:receiver, :kind, :about, :body)
