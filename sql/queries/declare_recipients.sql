-- Let just these recipients read a stream for the reason that its contract says so.
SELECT medusa_api.declare_recipients(:stream, CAST(:recipients AS text[]), :is_public) AS has_changed;
