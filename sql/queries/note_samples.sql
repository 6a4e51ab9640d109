-- Keep what was found of drawn buckets, and up to which bucket all are recomputed.
SELECT medusa_market.note_samples(:move_id, :stream, :through_us, :samples);
