CREATE OR REPLACE FUNCTION medusa.lineage_of(streams text[])
RETURNS TABLE (stream text, lineage jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE writer AS MATERIALIZED (
        SELECT o.name AS stream, f.inputs, min(a.participant) || '/' || o.name AS qualified
        FROM medusa.fragment AS f CROSS JOIN unnest(f.outputs) AS o (name)
        JOIN medusa.assignment AS a ON a.fragment = f.id
        WHERE f.id NOT SIMILAR TO '(import|moved)/%'
        GROUP BY f.id, o.name
    ), edge AS MATERIALIZED (
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
        SELECT w.stream, w.qualified FROM writer AS w WHERE w.stream = ANY (lineage_of.streams)
        UNION
        SELECT b.stream, e.reads FROM behind AS b JOIN edge AS e ON e.writes = b.qualified
    ), found AS (
        SELECT b.stream, e.reads, e.writes,
            row_number() OVER (PARTITION BY b.stream ORDER BY e.writes, e.reads) AS i
        FROM behind AS b JOIN edge AS e ON e.writes = b.qualified
    )
    SELECT f.stream, jsonb_agg(jsonb_build_array(f.reads, f.writes) ORDER BY f.i)
    FROM found AS f WHERE f.i <= 1000 GROUP BY f.stream
$$;
COMMENT ON FUNCTION medusa.lineage_of(text[]) IS
    'What streams are computed from, back to where records land, also in other homes: pairs of '
    'participant/stream, of which the second is computed from the first; 1,000 a stream at most.';
