-- How a participant's stream stands: how many live rows are tentative, how far it is final, and how
-- many commits made what is live.
SELECT count(*) FILTER (WHERE s.stability = 'tentative') AS tentative,
    coalesce(max(s.to_us) FILTER (WHERE s.stability <> 'tentative'), 0) AS final_us,
    count(DISTINCT s.commit_id) AS commits
FROM medusa.segment AS s JOIN medusa.stream_producer AS p USING (line_id)
WHERE p.stream = %(stream)s AND p.participant = %(participant)s AND s.end_version IS NULL;
