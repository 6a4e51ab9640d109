-- Say how many producers of a stream must agree before its rows are final here.
SELECT medusa.declare_verify(:stream, CAST(:verify_count AS integer));
