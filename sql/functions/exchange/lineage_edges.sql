CREATE OR REPLACE FUNCTION medusa.lineage_edges(stream text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE writer AS (
        SELECT o.name AS stream, f.inputs, min(a.participant) || '/' || o.name AS qualified
        FROM medusa.fragment AS f CROSS JOIN unnest(f.outputs) AS o (name)
        JOIN medusa.assignment AS a ON a.fragment = f.id
        WHERE f.id NOT LIKE 'import/%'
        GROUP BY f.id, o.name
    ), edge AS (
        SELECT r.qualified AS reads, w.qualified AS writes
        FROM writer AS w CROSS JOIN unnest(w.inputs) AS i (name)
        JOIN writer AS r ON r.stream = i.name
        UNION
        -- Only a network that the owner deployed: a partner's news bring documents of their own.
        SELECT e.edge->>0, e.edge->>1
        FROM medusa.network AS n CROSS JOIN jsonb_array_elements(
            CASE WHEN EXISTS (SELECT FROM medusa.fragment AS f WHERE f.id = n.name)
                THEN CAST(n.document AS jsonb)->'lineage' END) AS e (edge)
    ), behind AS (
        SELECT w.qualified FROM writer AS w WHERE w.stream = lineage_edges.stream
        UNION
        SELECT e.reads FROM behind AS b JOIN edge AS e ON e.writes = b.qualified
    )
    SELECT coalesce(jsonb_agg(jsonb_build_array(n.reads, n.writes) ORDER BY n.writes, n.reads), '[]')
    FROM (
        SELECT e.reads, e.writes FROM edge AS e JOIN behind AS b ON b.qualified = e.writes
        LIMIT 1000
    ) AS n
$$;
COMMENT ON FUNCTION medusa.lineage_edges(text) IS
    'What a stream is computed from, back to where records land, also in other homes: pairs of '
    'participant/stream, of which the second is computed from the first; 1,000 at most.';
