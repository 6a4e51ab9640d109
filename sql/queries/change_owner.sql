-- Who owns a fragment's buckets from one on.
SELECT medusa.change_owner(:fragment, :partition, :epoch, :participant, :replica, :from_us,
    :timeout_ms, :because);
