-- Request that a job's process ends; false if that was requested before or it has ended.
SELECT medusa.stop_job(:job_id, :because);
