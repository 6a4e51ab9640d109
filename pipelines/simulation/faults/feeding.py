"""A simulated source, as the participant's loop polls it: land a batch, then promise.

After an error or a crash it continues after the last landed batch. A batch lands under (query id,
batch id), so that one that is sent again lands once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from medusa_core.commits import LandedBatch, LeaseKey
from medusa_core.fragments import landing_fragment
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from pipelines.base.failpoints import reached
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.simulation.faults.clients import CatalogClient
from pipelines.simulation.faults.engine import SimulatedEngine
from pipelines.simulation.faults.scenario import FeedBatch, Row, bucket_of
from pipelines.simulation.faults.simulated_revisions import late_records
from pipelines.sources.landing import LANDED, log_batch
from pipelines.sources.live.live_source import Polled

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

QUERY = "feed"


class SimulatedSource:
    """A `LiveSource` that brings the batches of the scenario, each when its time has come."""

    def __init__(
        self,
        world: World,
        stream: StreamName,
        catalog: CatalogClient,
        leases: LeaseRenewer,
        engine: SimulatedEngine,
    ) -> None:
        self._world = world
        self._stream = stream
        self._catalog = catalog
        self._leases = leases
        self._engine = engine
        self._batches = world.scenario.feeds[stream]
        self._key = LeaseKey(
            fragment=landing_fragment(stream), producer=Producer(catalog.participant)
        )
        self._promised = -1
        self._has_ended = False

    def poll(self, now_ms: int) -> Polled:
        """See `LiveSource.poll`."""
        if self._has_ended:
            return Polled(has_ended=True)
        last = max(self._catalog.landed_batches(self._stream, QUERY), default=-1)
        if last >= 0 and self._promised != last:
            # The crash may have come between landing and promising.
            self._promise(self._batches[last])
        self._has_ended = last == len(self._batches) - 1
        if self._has_ended or self._batches[last + 1].at_ms > self._world.now_ms:
            return Polled(has_ended=self._has_ended)
        batch = self._batches[last + 1]
        self._land(batch)
        self._promise(batch)
        return Polled(landed=len(batch.records), batches=1)

    def close(self) -> None:
        """See `LiveSource.close`."""

    def _land(self, batch: FeedBatch) -> None:
        """Write a batch as a file in event-time order, and log it."""
        rows = sorted(batch.records)
        files = self._engine.write(f"{self._stream}/{LANDED}", rows)
        reached("land.written")
        landed = LandedBatch(
            stream=self._stream,
            query_id=QUERY,
            batch_id=batch.batch_id,
            file=files[0] if files else None,
            counts=dict(Counter(bucket_of(row[0]) for row in rows)),
            quarantine=tuple(late_records(self._late(batch), self._stream)),
        )
        log_batch(self._catalog, self._leases.lease(self._key), landed)
        if self._world.takes_order("batch again", self._catalog.participant):
            log_batch(self._catalog, self._leases.lease(self._key), landed)

    def _late(self, batch: FeedBatch) -> list[tuple[int, Row]]:
        """The late records of a batch, by their numbers among those of the source."""
        late = self._world.scenario.revisions.late.get(self._stream, {})
        first = sum(len(rows) for batch_id, rows in late.items() if batch_id < batch.batch_id)
        return list(enumerate(late.get(batch.batch_id, ()), first))

    def _promise(self, batch: FeedBatch) -> None:
        """Promise what the batch's source promises behind it."""
        self._catalog.promise(
            self._leases.lease(self._key),
            self._stream,
            origin_us=self._world.scenario.origin_us,
            boundary_us=batch.boundary_us,
            end_us=batch.end_us,
        )
        self._promised = batch.batch_id
