-- Write down that a process is about to be made for what is desired; the number of its job.
SELECT medusa.intend_job(:desired, :supervisor);
