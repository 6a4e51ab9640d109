-- Store another key or address of a partner that it has signed; whether anything is new.
SELECT medusa_market.note_introduction(:partner, :known_key, :public_key, :url, :pin);
