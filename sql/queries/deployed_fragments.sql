-- The fragments of this home: their network, what they read and write.
SELECT id, network, inputs, outputs FROM medusa.fragment ORDER BY id;
