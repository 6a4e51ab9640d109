"""The time of a step by phase, in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipelines.base import clock


@dataclass
class Phases:
    """Milliseconds per phase of a step, by the monotonic clock."""

    ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to the phase."""
        start = clock.monotonic_s()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0.0) + (clock.monotonic_s() - start) * 1000
