-- Let a participant join once, with a secret whose hash this is.
SELECT medusa_api.invite_partner(:partner, :secret_hash,
    clock_timestamp() + :lifetime_ms * interval '1 ms', :replaces_key);
