-- The partners of this home, also those that were removed, are invited or not yet confirmed.
SELECT participant, state, url, pin, public_key, key_since, changed_at, changed_by, confirmed_at,
    heard_at, invited_until
FROM medusa_api.partners ORDER BY participant
