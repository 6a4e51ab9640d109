-- Deliver a stream to one of its sinks no more.
SELECT medusa.withdraw_sink(:stream, :sink);
