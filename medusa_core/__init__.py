"""Decisions as pure values: no I/O, no clock, no chance, no logging.

Time and chance are arguments; decisions are data with a reason in numbers.
"""
