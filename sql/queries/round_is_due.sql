-- Whether a round is to be opened now.
SELECT medusa.round_is_due()
