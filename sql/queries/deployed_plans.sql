-- All plans that were ever deployed here, by fingerprint.
SELECT id, network, document FROM medusa.plan ORDER BY id;
