-- The fragments of this home: their network, what they read and write, where they start. An import
-- that is stopped is missing, so that contracts deploy it again.
SELECT id, network, inputs, outputs, starts_us FROM medusa.fragment
WHERE stopped_at IS NULL OR id NOT LIKE 'import/%' ORDER BY id;
