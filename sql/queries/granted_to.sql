-- The streams of this home that a partner may read now, whatever the reason.
SELECT DISTINCT g.stream FROM medusa_api.stream_grants AS g WHERE g.partner = :partner
ORDER BY g.stream;
