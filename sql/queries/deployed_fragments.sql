-- The fragments of this home: their network, what they read and write, where they start. An import
-- that is stopped is missing, so that contracts deploy it again; what moves is not of contracts.
SELECT id, network, inputs, outputs, starts_us FROM medusa.fragment
WHERE (stopped_at IS NULL OR id NOT LIKE 'import/%') AND id NOT LIKE 'moved/%'
    AND NOT EXISTS (SELECT FROM medusa.fragment AS m
        WHERE m.id LIKE 'moved/%' AND fragment.id IN (
            SELECT 'import/' || o.name FROM unnest(m.outputs) AS o (name)))
ORDER BY id;
