"""A reader with a durable cursor: its hold. It reads the stable prefix, range after range.

It holds before it looks, lists segments, and reads their files a little later; the result must
equal the oracle's, whatever was trimmed, killed and corrected meanwhile. A reader that dies
leaves its hold, from which the next one continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from medusa_core.commits import Hold
from medusa_core.errors import Unavailable
from medusa_core.grid import BEGINNING_US, Range
from medusa_core.names import StreamName
from medusa_core.segments import Producer, Segment
from pipelines.catalog.records import LineStatus
from pipelines.simulation.faults.clients import short
from pipelines.simulation.faults.scenario import Row
from pipelines.simulation.faults.simulated_homes import SimulatedHome
from pipelines.simulation.faults.simulated_processes import Process

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

READ_MS = (2, 400)
RETRY_MS = 700
CURSOR = "cursor"


def read_on(world: World, process: Process, stream: StreamName, producer: Producer) -> None:
    """Read a stream to its end."""
    home = world.homes[process.participant]
    width_us = world.scenario.widths_us[stream]
    buckets = world.scenario.shape.buckets_per_read
    at_us: int | None = None
    while True:
        try:
            if at_us is None:
                short(world, lambda: hold(home, stream))
            status = short(world, lambda: status_of(home, stream, producer))
            through_us, kept_us = status.stable_through_us, status.kept_from_us
            if through_us is None or kept_us is None:
                world.rest(world.scenario.shape.look_ms, is_timer=True)
                continue
            if at_us is None:
                at_us = max(kept_us, held_from_us(home, stream))
            if at_us >= through_us:
                if status.has_ended and status.tentative_us is None:
                    return
                world.rest(world.scenario.shape.look_ms, is_timer=True)
                continue
            part = Range(at_us, min(through_us, at_us + buckets * width_us))
            segments, rows = rows_of_part(world, home, stream, producer, part)
            if held_from_us(home, stream) > at_us:
                at_us = None  # another process has gone on with the cursor meanwhile
                continue
            world.laws.check_read(home, stream, part, segments, rows)
            world.count_read(home)
            at_us = part.to_us
            short(world, partial(hold, home, stream, at_us))
            world.emit(process.name, "reader", f"{stream} {part}", f"{len(rows)} rows")
        except Unavailable as error:
            world.emit(process.name, "reader", stream, str(error))
            at_us = None
            world.rest(RETRY_MS, is_timer=True)


def hold(home: SimulatedHome, stream: StreamName, from_us: int | None = None) -> None:
    """Place the cursor's hold; without a place: where it is, or before everything."""
    if from_us is None:
        from_us = held_from_us(home, stream)
    holder = holder_of(home)
    home.reach().place_hold(Hold(stream=stream, holder=holder, purpose=CURSOR, from_us=from_us))


def held_from_us(home: SimulatedHome, stream: StreamName) -> int:
    """Where the cursor's hold is."""
    mine = [h for h in home.reach().holds(stream) if h.holder == holder_of(home)]
    return mine[0].from_us if mine else BEGINNING_US


def holder_of(home: SimulatedHome) -> str:
    """The name of the reader in a home."""
    return f"reader_{home.participant}"


def status_of(home: SimulatedHome, stream: StreamName, producer: Producer) -> LineStatus:
    """How the line stands."""
    return next(s for s in home.reach().lines(stream) if s.producer == producer)


def rows_of_part(
    world: World, home: SimulatedHome, stream: StreamName, producer: Producer, part: Range
) -> tuple[Sequence[Segment], list[Row]]:
    """List the segments of a range, and read their files a little later."""
    segments = short(world, lambda: home.reach().segments(stream, part, producer=producer))
    world.rest(world.chance.randint(*READ_MS))
    return segments, [
        row
        for segment in segments
        for file in segment.files
        for row in home.storage.read(file)
        if part.holds(row[0]) and segment.range.holds(row[0])
    ]
