"""Moves of fragments between a payer and a provider."""
