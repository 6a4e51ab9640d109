-- A job has ended; false if that was known.
SELECT medusa.end_job(:job_id, :exit_code, :because);
