-- Let final segments name one file with the same rows; the files that nothing names any more.
SELECT medusa.compact_line(:stream, :participant, :replica, CAST(:segments AS jsonb),
    CAST(:file AS jsonb)) AS released;
