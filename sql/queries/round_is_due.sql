-- Whether a round is to be opened now.
SELECT medusa_market.round_is_due()
