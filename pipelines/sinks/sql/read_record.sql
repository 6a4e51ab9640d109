-- What a table's record says.
SELECT home, participant, stream, sink, through_us, version, rows, lost_us, deliveries,
    last_from_us, last_to_us, last_digest, overlay
FROM {record} WHERE target = %(target)s;
