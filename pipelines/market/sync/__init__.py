"""What a participant does about contracts: keys, signatures, and what it tells its partners."""
