"""The load of the machine during a cell, and the federation's part of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.process_tree import cpu_seconds


@dataclass(frozen=True, slots=True)
class Load:
    """Taken when a cell begins; `pids` are the processes that are there from then to its end."""

    pids: tuple[int, ...]
    before: tuple[float, float, float] = field(default_factory=os.getloadavg)
    cpu_s: float = 0.0
    began_s: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, pids: Iterable[int]) -> Load:
        """From now on."""
        known = tuple(pids)
        return cls(known, cpu_s=cpu_seconds(known))

    def document(self) -> dict[str, object]:
        """Up to now, as JSON values."""
        passed_s = time.monotonic() - self.began_s
        return {
            "load_before": self.before,
            "load_after": os.getloadavg(),
            "own_cores": round((cpu_seconds(self.pids) - self.cpu_s) / passed_s, 3),
            "seconds": round(passed_s, 1),
        }
