"""Processes and their threads: what can be killed, frozen, slowed down and started anew.

A thread is a generator that does one thing and then says how long it rests and at which gap between
the numbered steps it stands. A process dies and freezes with all of its threads. Its leases are
held as `pipelines/leases.py` holds them: taken once, renewed at every third of their time by a
thread that does nothing else, lost when a renewal is refused.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from medusa_core.commits import Lane, Lease, LeaseKey
from medusa_core.errors import Conflict
from medusa_core.names import Participant

GAPS = ("1-2", "2-3", "3-4", "4-5", "in 5", "5-6")
"""The gaps between the numbers of docs/architecture.md, and the one inside of the commit."""


@dataclass(frozen=True, slots=True)
class Rest:
    """How long a thread rests, at which gap it stands, and what it rests for.

    `sleeps`: until then, or until news comes; `is_timer`: no work, so no longer on a slow machine.
    """

    ms: int
    gap: str | None = None
    sleeps: bool = False
    is_timer: bool = False


Work = Generator[Rest, None, None]


class Ended(Exception):
    """The process ends by itself, with a sentence that says why."""


@dataclass(eq=False, slots=True)
class Process:
    """One process of a participant; `is_double` if it was started although another one runs."""

    participant: Participant
    name: str
    lane: Lane
    is_double: bool = False
    is_alive: bool = True
    frozen_until_ms: int = 0
    threads: list[Thread] = field(default_factory=list)
    leases: dict[LeaseKey, Lease] = field(default_factory=dict)
    lost: dict[LeaseKey, str] = field(default_factory=dict)
    waits_since_ms: dict[str, tuple[int, int]] = field(default_factory=dict)

    def lease(self, key: LeaseKey) -> Lease:
        """The lease as last renewed; raises Conflict if it was lost or never taken."""
        if key in self.lost:
            raise Conflict(self.lost[key])
        if key not in self.leases:
            raise Conflict(f"the lease of {key} was not taken")
        return self.leases[key]


@dataclass(eq=False, slots=True)
class Thread:
    """One thread; news of the home of `listens_to` wake it.

    `ticket` numbers the wake-up that counts; `is_rung` keeps news that came while it worked.
    """

    process: Process
    listens_to: Participant | None
    work: Work
    rest: Rest = field(default_factory=lambda: Rest(0))
    ticket: int = 0
    is_rung: bool = False
    has_ended: bool = False
