-- The lineage of each stream that is imported from a partner elsewhere, as it was offered.
SELECT f.outputs[1] AS stream, CAST(n.document AS jsonb)->'lineage' AS lineage
FROM medusa.fragment AS f JOIN medusa.network AS n ON n.name = f.id;
