"""Settlement of contracts: rows are counted, stated, and answered."""
