-- Whether a transaction that says nothing of it may only read, for the login of this connection.
SHOW default_transaction_read_only;
