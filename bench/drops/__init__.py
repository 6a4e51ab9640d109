"""Overload: what drops by QoS are worth, against equal drops and against none."""

from bench.drops.command import main

__all__ = ["main"]
