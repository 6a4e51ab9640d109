-- Compute a moved fragment no more.
SELECT medusa.stop_fragment(:fragment);
