-- Note that a fragment came into another state; the same again is nothing.
SELECT medusa.record_transition(:fragment, :partition, :participant, :replica, :state, :because);
