-- What a check found of a window is written down, once and for good.
SELECT medusa.record_certificate(CAST(:request AS jsonb));
