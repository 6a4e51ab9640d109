-- End a definition of this home; whether it was there and had not ended.
SELECT medusa_market.withdraw_definition(:definition);
