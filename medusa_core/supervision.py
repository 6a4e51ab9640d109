"""Supervision: what a supervisor knows of a participant: desired jobs, jobs and leases.

A job is an intent first, then a process, and finally ended. The catalog knows it, except for the
state of its process, which only the process's own machine can observe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from medusa_core.commits import Lane


class ProcessState(Enum):
    """What is to be seen of a job's process by who looks."""

    RUNS = "runs"
    FROZEN = "stands still"
    GONE = "is gone"
    ELSEWHERE = "is on another host"
    NONE = "is not made yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredJob:
    """The last declaration for a lane; without `is_lasting` it is done once a job ended well."""

    number: int
    lane: Lane
    is_desired: bool
    is_lasting: bool
    since_ms: int
    who: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An intent and what became of it; times are the catalog's clock, None: not yet."""

    id: int
    lane: Lane
    desired: int
    intended_at_ms: int
    host: str | None = None
    pid: int | None = None
    started: str | None = None
    begun_at_ms: int | None = None
    heard_at_ms: int | None = None
    stop_requested_at_ms: int | None = None
    ended_at_ms: int | None = None
    exit_code: int | None = None
    because: str | None = None

    @property
    def holder(self) -> str:
        """How the leases of its process begin to name their holder."""
        return f"{self.host}-{self.pid}-"


@dataclass(frozen=True, slots=True)
class HeldLane:
    """Somebody holds leases of a lane until then."""

    lane: Lane
    holder: str
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What a supervisor knows of one participant; jobs are newest first.

    `reachable_since_ms`: before it, no process could be heard of (the catalog was away).
    `seen`: of the newest job of each lane, which alone may be open. `occupied`: lanes without an
    open job of which a process is there all the same, and for how long (ms) one has been.
    """

    now_ms: int
    reachable_since_ms: int
    desired: Mapping[Lane, DesiredJob]
    jobs: Sequence[Job]
    seen: Mapping[int, ProcessState]
    held: Sequence[HeldLane] = ()
    occupied: Mapping[Lane, int] = field(default_factory=dict)
