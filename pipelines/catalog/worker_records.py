"""Workers of a home and the placements of partitions, as the catalog has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from medusa_core.partitions.placing import PlacePartition

WORKER_HOLDER = "worker/"
"""How the leases of a worker that is not the main one begin to name their holder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """A worker as it reported last; `holder` is how its leases name it, `is_alive` whether its
    report is still valid, `busy` the share of time in which it had something to do, and `pace` how
    long it is busy per CPU second."""

    name: str
    holder: str
    is_alive: bool
    busy: float
    pace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRecord:
    """Where a partition is placed, for how long it has been and why, and who holds its lease now.

    `number` is that of the decision.
    """

    fragment: str
    worker: str
    number: int
    placed_ms: int
    because: str
    holder: str | None


class Placements(Protocol):
    """The workers of a home, and the worker of each partition."""

    def report_worker(
        self, name: str, holder: str, *, busy: float, pace: float, ttl_ms: int
    ) -> None:
        """The worker is alive for `ttl_ms`; Conflict while another process has its name."""

    def end_worker(self, name: str, holder: str) -> None:
        """The worker is gone; nothing if another process has its name."""

    def workers(self) -> tuple[WorkerRecord, ...]:
        """All workers that have ever run, by name."""

    def placements(self) -> tuple[PlacementRecord, ...]:
        """Where partitions are placed, by fragment."""

    def place(self, decisions: Sequence[PlacePartition], after: int) -> bool:
        """Place partitions; False if the newest decision is not number `after` any more."""
