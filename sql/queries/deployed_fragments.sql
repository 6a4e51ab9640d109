-- The fragments of this home: their network, what they read and write, where they start.
SELECT id, network, inputs, outputs, starts_us FROM medusa.fragment ORDER BY id;
