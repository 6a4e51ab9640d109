-- A CHECK passes NULL: without a limit, or without a bound, suspending was let through.
ALTER TABLE medusa.stream_promise
    DROP CONSTRAINT suspending_has_a_limit,
    ADD CONSTRAINT suspending_has_a_limit CHECK (
        (failure_ms_max > 0 AND failure_ms_max <= bound_ms) IS TRUE
        OR failure_ms_max IS NULL
            AND 'suspend' NOT IN (during_failure, during_stabilization));
