"""Drops: which records an overloaded participant leaves out on purpose, and what that costs."""
