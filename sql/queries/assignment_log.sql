-- The whole log of assignments of a partition, by fragment, oldest first.
SELECT fragment, epoch, participant, replica, plan, from_us
FROM medusa.assignment WHERE partition = :partition ORDER BY fragment, epoch;
