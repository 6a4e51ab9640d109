"""How long this machine stood still, for tests that hold answers against a bound of seconds."""

from __future__ import annotations

import threading
import time
from types import TracebackType

LOOKS_EVERY_S = 0.05
STOOD_STILL_S = 1.0
"""From this gap between looks on, lateness may be the machine's: a busy one makes far smaller."""


class Looks:
    """Looks at the clock again and again in a thread; a great gap is a pause of the machine.

    At the wall clock, by which homes tell the age of answers: it goes on where a machine is paused
    as a whole and its other clocks are not.
    """

    def __init__(self) -> None:
        self._seen_s = time.time()
        self._gaps: list[tuple[float, float]] = []
        """When each gap ended, and how long it was."""
        self._lock, self._is_over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._look_again, daemon=True)

    def __enter__(self) -> Looks:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def greatest_gap_s(self, since_s: float) -> float:
        """The greatest that ended after this time of the wall clock, with one that lasts now."""
        self._look()
        with self._lock:
            return max((gap_s for ended_s, gap_s in self._gaps if ended_s >= since_s), default=0.0)

    def _look_again(self) -> None:
        while not self._is_over.wait(LOOKS_EVERY_S):
            self._look()

    def _look(self) -> None:
        with self._lock:
            now_s = time.time()
            self._gaps.append((now_s, now_s - self._seen_s))
            self._seen_s = now_s
