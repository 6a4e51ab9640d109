-- Ask a job's process to end; false if it was asked before or has ended.
SELECT medusa.stop_job(:job_id, :because);
