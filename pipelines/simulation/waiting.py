"""Sleeping until something happens: what `pipelines/exchange/bell.py` promises, on virtual time.

News wakes who sleeps; news that comes while somebody works is kept for the moment when it would
fall asleep; and the limit stands in for a bell that was not heard.
"""

from __future__ import annotations

from pipelines.simulation.processes import Rest, Thread

BELL_MS = 40
"""How long news takes; several come as one."""


def heard(thread: Thread) -> bool:
    """News has come: True if the thread sleeps and wakes now; else the news is kept."""
    if thread.rest.sleeps:
        thread.rest = Rest(0)
        return True
    thread.is_rung = True
    return False


def sleep_ms(thread: Thread, limit_ms: int) -> int:
    """How long a thread sleeps that falls asleep now."""
    if thread.is_rung:
        thread.is_rung = False
        return min(BELL_MS, limit_ms)
    return limit_ms
