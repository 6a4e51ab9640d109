"""Wait for a condition of the outside world instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(
    condition: Callable[[], object], what: str, seconds_max: float = 30, *, every_s: float = 0.01
) -> None:
    """Return as soon as the condition holds; fail with `what` if it does not come to hold.

    `every_s`: looks that cost much, such as a process of their own, are made less often.
    """
    give_up = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < give_up, f"waited {seconds_max} s in vain: {what}"
        time.sleep(every_s)
