"""A participant at work: its loop, its driver, and what they are made of."""
