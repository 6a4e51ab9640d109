-- A process is this job's; false if it has to end, as the job is another's or is over.
SELECT medusa.take_up_job(:job_id, :host, :pid, :started, :begins);
