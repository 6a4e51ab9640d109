"""Bilateral contracts: files, agreement between partners, rounds, what-if."""
