-- Open the next round if so much time has passed since the last one; its number, or none.
SELECT medusa_market.open_round(:round_ms, :because)
