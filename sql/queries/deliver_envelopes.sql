-- Put envelopes that a partner has sent itself into this home's inbox; an answer to each.
SELECT medusa_market.deliver_envelopes(:partner, :envelopes) AS answers;
