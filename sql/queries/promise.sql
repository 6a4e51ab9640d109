-- A source promises that no later record lies before a boundary.
SELECT medusa.promise(:fragment, :partition, :participant, :replica, CAST(:lane AS medusa.lane),
    :epoch, :holder, :stream, :origin_us, :boundary_us, :end_us);
