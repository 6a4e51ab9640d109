-- Say within which bound a stream answers, and how.
SELECT medusa.declare_bound(:stream, :bound_ms, :during_failure, :during_stabilization,
    :failure_ms_max, :lag_ms);
