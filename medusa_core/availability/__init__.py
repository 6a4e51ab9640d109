"""Availability of fragments: what each method costs, what it gives, and which one to choose."""
