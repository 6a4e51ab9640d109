-- Put envelopes into this home's inbox, as a partner; an answer to each.
SELECT medusa_market.take_envelopes(:envelopes)
