-- What a partner may do, of every partner the same: see what the exchange publishes of streams and
-- put envelopes into the inbox. Columns that are not named say something of this home's own.
GRANT USAGE ON SCHEMA medusa, medusa_market, medusa_api TO :"role";

GRANT EXECUTE ON FUNCTION medusa.acknowledge, medusa.line_news TO :"role";
GRANT SELECT (file_id, path, rows, sha256, size_bytes, stream) ON medusa.file TO :"role";
GRANT SELECT (age_ms, begin_version, bucket_rows, bucket_us, end_version, file_ids, from_us,
    generation, line_id, missing, plan, stability, sum_a, sum_b, to_us, version) ON medusa.segment
    TO :"role";
GRANT SELECT (boundary_us, end_us, last_version, line_id, origin_us, participant, replica, stream,
    trimmed_us) ON medusa.stream_producer TO :"role";

GRANT EXECUTE ON FUNCTION medusa_market.take_envelopes TO :"role";

GRANT SELECT ON medusa_api.published_boundaries, medusa_api.published_files,
    medusa_api.published_segments TO :"role";
