-- How many declarations of desired jobs there were, and how many jobs have ended.
SELECT (SELECT coalesce(max(d.number), 0) FROM medusa.desired_job AS d) AS desired,
    (SELECT count(*) FROM medusa.job AS j WHERE j.ended_at IS NOT NULL) AS ended;
