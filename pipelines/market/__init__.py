"""Bilateral contracts: files, agreement, rounds, what-if."""
