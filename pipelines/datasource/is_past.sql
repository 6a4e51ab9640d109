-- Whether a time of this home's clock has passed.
SELECT to_timestamp(CAST(:at_ms AS bigint) / 1000.0) <= clock_timestamp() AS is_past;
