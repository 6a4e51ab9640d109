"""A source at work: land a batch, then promise; after a crash go on behind the last landed batch.

A batch lands under (query id, batch id), so that one that is brought again lands once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING

from medusa_core.commits import LandedBatch
from medusa_core.errors import Conflict, OutcomeUnknown, Unavailable
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from pipelines.simulation.calls import short, write
from pipelines.simulation.drivers import RETRY_MS, landing_key, write_rows
from pipelines.simulation.homes import SimulatedHome
from pipelines.simulation.processes import Process, Rest, Work
from pipelines.simulation.scenario import FeedBatch, bucket_of

if TYPE_CHECKING:
    from pipelines.simulation.world import World

QUERY = "feed"


def feed(world: World, process: Process, stream: StreamName) -> Work:
    """Bring all batches of a source, each when its time has come."""
    home = world.homes[process.participant]
    batches = world.scenario.feeds[stream]
    while True:
        try:
            landed = yield from short(lambda: home.reach().landed_batches(stream, QUERY))
            last = max(landed, default=-1)
            if last >= 0:
                # The crash may have come between landing and promising.
                yield from promise(world, process, home, stream, batches[last])
            if last == len(batches) - 1:
                return
            for batch in batches[last + 1 :]:
                yield Rest(max(0, batch.at_ms - world.now_ms), is_timer=True)
                if not (yield from land(world, process, home, stream, batch)):
                    break  # somebody else was here: take up what the catalog holds
                if world.takes_order("batch again", process.participant):
                    yield from land(world, process, home, stream, batch)
                yield from promise(world, process, home, stream, batch)
        except (Conflict, Unavailable, OutcomeUnknown) as error:
            world.emit(process.name, "feed waits", stream, str(error))
            yield Rest(RETRY_MS, is_timer=True)


def land(
    world: World, process: Process, home: SimulatedHome, stream: StreamName, batch: FeedBatch
) -> Generator[Rest, None, bool]:
    """Write a batch as a file in event-time order, and log it; False if it was logged before."""
    rows = sorted(batch.records)
    files = yield from write_rows(world, process, home, StreamName(f"{stream}/landed"), rows)
    landed = LandedBatch(
        stream=stream,
        query_id=QUERY,
        batch_id=batch.batch_id,
        file=files[0] if files else None,
        counts=dict(Counter(bucket_of(row[0]) for row in rows)),
    )
    lease = process.lease(landing_key(stream, Producer(process.participant)))
    is_new = yield from write(world, process, home, lease, lambda c: c.land(lease, landed))
    why = f"{len(rows)} records" if is_new else "landed before"
    world.emit(process.name, "land", f"{stream} batch {batch.batch_id}", why)
    return is_new


def promise(
    world: World, process: Process, home: SimulatedHome, stream: StreamName, batch: FeedBatch
) -> Work:
    """Promise what the batch's source promises behind it."""
    lease = process.lease(landing_key(stream, Producer(process.participant)))

    def call() -> None:
        catalog = home.reach()
        is_allowed = world.laws.may_write(home, lease)
        catalog.promise(
            lease,
            stream,
            origin_us=world.scenario.origin_us,
            boundary_us=batch.boundary_us,
            end_us=batch.end_us,
        )
        world.laws.after_write(home, lease, True, is_allowed)

    yield from short(call)
    world.ring(home)
    world.emit(process.name, "promise", f"{stream} through {batch.boundary_us}")
    yield Rest(1)
