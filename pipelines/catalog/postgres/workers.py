"""Workers and placements in Postgres."""

from __future__ import annotations

import json
from collections.abc import Sequence

from medusa_core.partitions.placing import PlacePartition
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.worker_records import PlacementRecord, Placements, WorkerRecord


class PostgresWorkers(HomeDatabase, Placements):
    """Workers of a home, and where partitions are placed."""

    def report_worker(
        self, name: str, holder: str, *, busy: float, pace: float, ttl_ms: int
    ) -> None:
        """See `Placements.report_worker`."""
        self._value(
            "report_worker", worker=name, holder=holder, busy=busy, pace=pace, ttl_ms=ttl_ms
        )

    def end_worker(self, name: str, holder: str) -> None:
        """See `Placements.end_worker`."""
        self._value("end_worker", worker=name, holder=holder)

    def workers(self) -> tuple[WorkerRecord, ...]:
        """See `Placements.workers`."""
        return tuple(WorkerRecord(**row) for row in self._rows("workers"))

    def placements(self) -> tuple[PlacementRecord, ...]:
        """See `Placements.placements`."""
        return tuple(PlacementRecord(**row) for row in self._rows("placements"))

    def place(self, decisions: Sequence[PlacePartition], after: int) -> bool:
        """See `Placements.place`."""
        placed = [
            {"fragment": one.fragment, "worker": one.to_worker, "because": str(one.because)}
            for one in decisions
        ]
        return bool(self._value("place_fragments", placed=json.dumps(placed), after=after))
