"""Wait for a condition of the outside world instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_AGAIN_S = 0.01
PAUSE_PER_LOOK, PAUSE_S_MAX = 5, 8.0
"""The pause behind a look in times of the look, and its most: who logs in to look, looks
rarely, and who starts a process to look leaves the CPU to what is waited for."""

SECONDS_MAX = 120
"""A process starts in seconds; on a busy machine in many."""


def until(condition: Callable[[], object], what: str, seconds_max: float = SECONDS_MAX) -> None:
    """Return as soon as the condition holds; fail with `what` if it does not come to hold.

    The last look begins when the time is over: what came true while the machine stood still counts.
    """
    looks_at = time.monotonic()
    give_up = looks_at + seconds_max
    while not condition():
        assert looks_at < give_up, f"waited {seconds_max} s in vain: {what}"
        seen_at = time.monotonic()
        pause_s = max(LOOK_AGAIN_S, min(PAUSE_PER_LOOK * (seen_at - looks_at), PAUSE_S_MAX))
        time.sleep(max(0.0, min(pause_s, give_up - seen_at)))
        looks_at = time.monotonic()
