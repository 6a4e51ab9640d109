-- Sign a revision that this home proposes; whether there was something to sign.
SELECT medusa_market.sign_contract(:revision, :signature, :public_key)
