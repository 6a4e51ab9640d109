-- Let just these partners read a stream for a reason that the contracts give.
SELECT medusa_api.declare_readers(:stream, :reason, CAST(:partners AS text[]));
