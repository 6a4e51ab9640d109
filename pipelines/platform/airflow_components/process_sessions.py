"""The processes of a component: the remains of the session in which it was started. Pure.

Of a component that was started, the remains of its session may be ended, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Started:
    """What is written down of a process that leads a session of its own.

    `since` is `BOOT TICKS`: the name of the machine's boot, and when in it the process began.
    """

    name: str
    pid: int
    since: str


@dataclass(frozen=True, slots=True)
class Process:
    """A process as the machine shows it; `user` is the number of its owner."""

    pid: int
    session: int
    since: str
    user: int


def leftovers(started: Started, processes: Iterable[Process], *, user: int) -> tuple[Process, ...]:
    """What lives of the session of a process that was started, itself included.

    A session keeps its number as long as anything lives in it. If its leader's number belongs to a
    process that began at another time, the number was given anew, and nothing of ours is left.
    """
    seen = tuple(processes)
    if any(one.pid == started.pid and one.since != started.since for one in seen):
        return ()
    return tuple(
        one
        for one in seen
        if one.session == started.pid
        and one.user == user
        and _is_not_before(one.since, started.since)
    )


def _is_not_before(since: str, other: str) -> bool:
    """Whether it began in the same boot and not earlier; what cannot be compared must be equal."""
    (boot, _, ticks), (other_boot, _, other_ticks) = since.partition(" "), other.partition(" ")
    if ticks.isdecimal() and other_ticks.isdecimal():
        return boot == other_boot and int(ticks) >= int(other_ticks)
    return since == other
