-- How often what shall run was said, and how many jobs have ended: for who waits for either.
SELECT (SELECT coalesce(max(d.number), 0) FROM medusa.desired_job AS d) AS desired,
    (SELECT count(*) FROM medusa.job AS j WHERE j.ended_at IS NOT NULL) AS ended;
