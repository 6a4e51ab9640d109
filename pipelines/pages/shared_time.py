"""Time that several things take at once, divided among them: what each would take alone, about.

While n things run, each is charged 1/n of the time. One that only waits is left out.
"""

from __future__ import annotations


class SharedTime:
    """Not safe for threads: its user holds a lock, and says what time it is (monotonic seconds)."""

    def __init__(self) -> None:
        self._running = 0
        self._at_s = 0.0
        self._each_s = 0.0

    def begin(self, now_s: float) -> float:
        """Something begins; the mark is given back to `end`."""
        self._advance(now_s)
        self._running += 1
        return self._each_s

    def end(self, mark_s: float, now_s: float) -> float:
        """It has ended, or only waits; how much it is charged."""
        self._advance(now_s)
        assert self._running > 0, "nothing ends that has not begun"
        self._running -= 1
        return self._each_s - mark_s

    def _advance(self, now_s: float) -> None:
        if self._running:
            self._each_s += max(now_s - self._at_s, 0.0) / self._running
        self._at_s = now_s
