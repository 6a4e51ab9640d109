"""Processes and their fibers: killed, frozen, slowed down and restarted.

A process dies and freezes with all of its fibers. Its leases are held by the product's own
`LeaseRenewer`, in a separate fiber that renews them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from medusa_core.commits import Lane
from medusa_core.names import Participant
from pipelines.base.failpoints import CHOICE_POINTS, LATE_POINTS, POINTS, REVISION_POINTS

if TYPE_CHECKING:
    from pipelines.homes.lease_renewer import LeaseRenewer
    from pipelines.simulation.faults.fibers import Fiber

READ, OPEN = "knowledge.read", "call.open"
"""Two gaps that no failpoint names: knowledge is read, and a transaction is open at the server."""

MOVING = "move.open"
"""The gap of moves: a transaction about one is open at the server, or one was read."""

NOT_DRIVEN = ("compact.", "orphan")
"""What failpoints begin with whose work is not simulated."""

GAPS = (READ, OPEN, *(point for point in POINTS if not point.startswith(NOT_DRIVEN)))
"""Where faults wait for a process: at every failpoint that the product names, and at those two."""

REPLICA_GAPS = (*GAPS, *CHOICE_POINTS)
"""The same where participants choose among several producers."""

REVISION_GAPS = (*GAPS, *REVISION_POINTS, *LATE_POINTS)
"""The same where sources are revised."""

MOVE_GAPS = (*GAPS, MOVING)
"""The same where fragments move."""


class Rest(NamedTuple):
    """How long a fiber rests, at which gap, and what it rests for.

    `sleeps`: until then, or until news comes; `is_timer`: no work, so no longer on a slow machine.
    """

    ms: int
    gap: str | None = None
    sleeps: bool = False
    is_timer: bool = False


class Ended(Exception):
    """The process ends by itself, with a sentence that says why."""


@dataclass(eq=False, slots=True)
class Process:
    """One process of a participant.

    `runs_again` is of a command that an operator runs: what the operator does after it was killed.
    """

    participant: Participant
    name: str
    lane: Lane
    is_alive: bool = True
    frozen_until_ms: int = 0
    threads: list[Thread] = field(default_factory=list)
    renewer: LeaseRenewer | None = None
    runs_again: Callable[[], None] | None = None


@dataclass(eq=False, slots=True)
class Thread:
    """A fiber of a process; `ticket` numbers the wake-up that counts."""

    process: Process
    fiber: Fiber
    rest: Rest = field(default_factory=lambda: Rest(0))
    ticket: int = 0
    has_ended: bool = False


class Trap:
    """A fault that waits at a gap for the next process of a participant that comes there."""

    def __init__(
        self, participant: Participant, gap: str, spring: Callable[[Process, str], None]
    ) -> None:
        self.participant = participant
        self.gap = gap
        self.spring = spring
