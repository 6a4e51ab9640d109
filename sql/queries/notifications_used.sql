-- How much of the server's queue of notifications is in use, from 0 to 1: commits that notify fail at 1.
SELECT pg_notification_queue_usage();
