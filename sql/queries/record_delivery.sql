-- Copy how far a sink's target says it has come, and move its hold.
SELECT medusa.record_delivery(:stream, :sink, :document, :through_us, :version, :rows, :lost_us,
    :limit_ms);
