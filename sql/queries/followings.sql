-- The streams whose revisions by a partner are followed here without asking.
SELECT stream FROM medusa.stream_promise WHERE follows_revisions ORDER BY stream;
