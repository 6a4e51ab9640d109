"""Supervision: what shall run of a participant, against what does (medusa_core/supervising.py)."""
