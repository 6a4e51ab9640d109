-- Trim a line as far as nothing holds it, and remove what is trimmed.
SELECT medusa.trim_line(:stream, :participant, :replica, :before_us, CAST(:needed AS jsonb),
    :segments_max, :explain) AS trimmed;
