-- The segments of a shared stream that were live at a version and end after an event time.
SELECT medusa.shared_segments(:token_id, :stream, :as_of, :from_us) AS segments;
