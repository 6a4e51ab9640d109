-- Whether somebody has ever said what shall run in a lane, by the name that they gave.
SELECT EXISTS (
    SELECT FROM medusa.desired_job AS d
    WHERE d.lane = CAST(:lane AS medusa.lane) AND d.who = :who);
