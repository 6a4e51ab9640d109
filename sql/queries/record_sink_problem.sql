-- Say why a sink does not go on, or that it does.
SELECT medusa.record_sink_problem(:stream, :sink, :document, CAST(:problem AS text));
