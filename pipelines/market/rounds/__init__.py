"""Rounds: a participant offers load to its partners, answers theirs, and says why."""
