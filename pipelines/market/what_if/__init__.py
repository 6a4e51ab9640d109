"""What if a contract were changed: recorded load, replayed under it; nothing is written or sent."""
