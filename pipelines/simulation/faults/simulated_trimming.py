"""Trimming during a schedule: buckets that no hold needs are removed, then their files.

The calls are those of `pipelines/participant/trimming.py`: the buckets that the home's own
fragments have yet to read are requested, and those past their retention are trimmed. Files are
removed only once the trim is committed; a crash in between leaves orphans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from medusa_core.errors import OutcomeUnknown, Unavailable
from pipelines.base.failpoints import reached
from pipelines.catalog.records import LineStatus
from pipelines.exchange import first_holds
from pipelines.participant import trimming
from pipelines.simulation.faults.clients import CatalogClient
from pipelines.simulation.faults.scenario import wiring
from pipelines.simulation.faults.simulated_participants import fragments_here
from pipelines.simulation.faults.simulated_processes import Process

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

REMOVE_MS = 3
RETRY_MS = 700


def keep_house(world: World, process: Process) -> NoReturn:
    """Trim every line of a home, again and again."""
    catalog = CatalogClient(world, process)
    while True:
        world.rest(world.chance.randint(*world.scenario.shape.trim_every_ms), is_timer=True)
        if not world.is_trimmed:
            continue
        try:
            needs = trimming.needs_of(catalog, fragments_here(world, catalog))
            for status in catalog.lines():
                trim(world, process, catalog, status, needs)
        except (Unavailable, OutcomeUnknown) as error:
            world.emit(process.name, "no trim", why=str(error))
            world.rest(RETRY_MS, is_timer=True)


def trim(
    world: World,
    process: Process,
    catalog: CatalogClient,
    status: LineStatus,
    needs: trimming.Needs,
) -> None:
    """Trim one line by its retention, and remove what nothing names any more."""
    home = world.homes[process.participant]
    retention_us = world.scenario.retention_us[process.participant]
    if process.participant in world.scenario.moves.providers:
        # What a move has brought is kept for a time behind what was read of it.
        retention_us = max(retention_us, catalog.retentions()[status.stream.name] * 1_000)
    before_us, kept_us = trimming.before_of(retention_us, None)(status), status.kept_from_us
    if before_us is None or kept_us is None or before_us < kept_us + status.stream.width_us:
        return
    segments_max = world.scenario.segments_per_trim_max
    has_more = True
    while has_more and world.is_trimmed:
        trimmed = trimming.trim_once(catalog, status, before_us, needs, segments_max=segments_max)
        by = trimmed.held_by
        world.emit(
            process.name,
            "trim",
            f"{status.stream.name} to {trimmed.trimmed_us}, {trimmed.segments} segments",
            f"held by {by.holder or 'the line'} ({by.purpose})" if by else "",
        )
        if trimmed.segments:
            home.between_reads.add("trim")
        reached("trim.committed")
        world.rest(REMOVE_MS)
        for file in trimmed.files:
            home.storage.remove(file.path)
        world.laws.check_removed(home, trimmed.files)
        has_more = trimmed.has_more


def hold_for_readers(world: World) -> None:
    """A partner that has not acknowledged anything yet holds everything of what it will read."""
    scenario = world.scenario
    owners = {name: scenario.all_owners(name) for name in scenario.owners}
    for writer, holds in first_holds.first_holds(wiring(scenario), owners).items():
        for hold in holds:
            world.homes[writer].catalog.place_hold(hold)
