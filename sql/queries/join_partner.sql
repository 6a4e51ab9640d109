-- An invited participant joins with its key and its address.
SELECT medusa_market.join_partner(:secret_hash, :partner, :public_key, :url, :pin);
