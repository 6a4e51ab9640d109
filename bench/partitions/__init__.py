"""Key partitions and workers: balance, moves, a killed worker, and CPU per record."""

from bench.partitions.command import main

__all__ = ["main"]
