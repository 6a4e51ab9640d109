"""Trimming while everything else goes on: what no hold needs goes, and its files after it.

The calls are those of `pipelines/trimming.py`: what the home's own fragments have yet to read is
asked, and what is older than its retention goes. Files are removed only once the trim is committed;
a crash in between leaves orphans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from medusa_core.commits import Hold
from medusa_core.errors import OutcomeUnknown, Unavailable
from medusa_core.grid import BEGINNING_US
from pipelines import trimming
from pipelines.catalog.interface import StreamStatus
from pipelines.simulation.calls import short, transaction
from pipelines.simulation.drivers import RETRY_MS
from pipelines.simulation.homes import SimulatedHome
from pipelines.simulation.processes import Process, Rest, Work

if TYPE_CHECKING:
    from pipelines.simulation.world import World

TRIM_EVERY_MS = (1_200, 3_500)
REMOVE_MS = 3


def keep_house(world: World, process: Process) -> Work:
    """Trim every line of a home, again and again."""
    home = world.homes[process.participant]
    fragments = world.scenario.fragments
    while True:
        yield Rest(world.chance.randint(*TRIM_EVERY_MS), is_timer=True)
        try:
            needs = yield from short(lambda: trimming.needs_of(home.reach(), fragments))
            statuses = yield from short(lambda: home.reach().streams())
            for status in statuses:
                yield from trim(world, process, home, status, needs)
        except (Unavailable, OutcomeUnknown) as error:
            world.emit(process.name, "no trim", why=str(error))
            yield Rest(RETRY_MS, is_timer=True)


def trim(
    world: World,
    process: Process,
    home: SimulatedHome,
    status: StreamStatus,
    needs: trimming.Needs,
) -> Work:
    """Trim one line by its retention, and remove what nothing names any more."""
    retention_us = world.scenario.retention_us[process.participant]
    before_us, kept_us = trimming.before_of(retention_us, None)(status), status.kept_from_us
    if before_us is None or kept_us is None or before_us < kept_us + status.stream.width_us:
        return
    segments_max = world.scenario.segments_per_trim_max
    has_more = True
    while has_more:
        trimmed = yield from transaction(
            world,
            process,
            home,
            lambda catalog: trimming.trim_once(
                catalog, status, before_us, needs, segments_max=segments_max
            ),
            notifies=False,
        )
        by = trimmed.held_by
        world.emit(
            process.name,
            "trim",
            f"{status.stream.name} to {trimmed.trimmed_us}, {trimmed.segments} segments",
            f"held by {by.holder or 'the line'} ({by.purpose})" if by else "",
        )
        yield Rest(REMOVE_MS)
        for file in trimmed.files:
            home.storage.remove(file.path)
        world.laws.check_removed(home, trimmed.files)
        has_more = trimmed.has_more


def hold_for_readers(world: World) -> None:
    """A partner that has not acknowledged anything yet holds everything of what it will read."""
    for reader, streams in world.imports.items():
        for stream, writer in streams.items():
            hold = Hold(stream=stream, holder=reader, purpose="import", from_us=BEGINNING_US)
            world.homes[writer.participant].catalog.place_hold(hold)
