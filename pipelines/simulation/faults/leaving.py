"""Faults of participants with replicas: permanent death, and holds that expire.

`gone`: a participant is killed and not restarted until the liveness phase, or never where others
compute and verify all its streams. `lapse`: a reader's hold at one producer expires while it
reaches none; the reader hears from that producer first again, and another one keeps the same
buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from medusa_core.commits import Hold
from medusa_core.errors import MedusaError
from medusa_core.exchange import IMPORT_PURPOSE
from medusa_core.grid import BEGINNING_US
from medusa_core.names import Participant, StreamName
from pipelines.catalog.memory.store import Waiting
from pipelines.simulation.faults.scenario import Scenario, landing_of
from pipelines.simulation.faults.strikes import Happens

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

FOR_GOOD, DARK = 0.7, 0.5
LONGER_MS = (0, 4_000)
RETRY_MS = 300
Copied = tuple[Participant, StreamName, Participant]
"""A reader, a stream, and the producer whose line the reader copies."""


def gone(world: World, until_ms: int, happens: Happens, instead: Callable[[str], None]) -> None:
    """A participant is dead; one at a time. Where nobody can be, another fault happens."""
    participant = world.chance.choice(world.scenario.participants)
    if world.gone:
        instead("crash")
        return
    is_dark = world.chance.random() < DARK
    is_for_good = world.chance.random() < FOR_GOOD and _is_spared(world, participant)
    lasts_ms = 0 if is_for_good else max(until_ms - world.now_ms, 1)
    what = ("with its catalog" if is_dark else "its processes") + (", for good" * is_for_good)
    happens("gone", participant, what, lasts_ms)
    world.homes[participant].between_reads.add("kill")
    world.leave(participant, is_dark=is_dark)
    if is_for_good:
        world.gone_for_good.add(participant)
    else:
        world.after(lasts_ms, lambda: world.come_back(participant))


def lapse(world: World, happens: Happens, instead: Callable[[str], None]) -> None:
    """A hold of a reader runs out at one of several producers while it is cut off from all."""
    copied = [c for c in _copied(world.scenario) if _is_enough(world, c)]
    if not copied:
        instead("cut")
        return
    reader, stream, writer = found = world.chance.choice(copied)
    world.choices.lapsed.add(found)
    lasts_ms = world.chance.randint(*world.scenario.shape.cut_ms)
    world.links.cut(reader, writer, world.now_ms + lasts_ms)
    longer_ms = lasts_ms + world.chance.randint(*LONGER_MS)
    for other in world.scenario.imports(reader)[stream]:
        if other.participant != writer:
            world.links.cut(reader, other.participant, world.now_ms + longer_ms)
    happens("lapse", f"{reader} {writer}", f"hold of {stream}", longer_ms)
    _run_out(world, found)


def _run_out(world: World, found: Copied) -> None:
    reader, stream, writer = found
    home = world.homes[writer]
    try:
        mine = [h for h in home.reach().holds(stream) if h.holder == reader]
        from_us = mine[0].from_us if mine else BEGINNING_US
        hold = Hold(stream=stream, holder=reader, purpose=IMPORT_PURPOSE, from_us=from_us,
                    limit_ms=1)  # fmt: skip
        home.reach().place_hold(hold)
    except (Waiting, MedusaError):
        world.after(RETRY_MS, lambda: _run_out(world, found))


def _copied(scenario: Scenario) -> Iterator[Copied]:
    for reader in scenario.participants:
        for stream, writers in scenario.imports(reader).items():
            yield from ((reader, stream, writer.participant) for writer in writers)


def _is_spared(world: World, participant: Participant) -> bool:
    """Whether all that a participant does is done without it."""
    scenario = world.scenario
    lands = any(scenario.owners[landing_of(stream)] == participant for stream in scenario.feeds)
    return not lands and all(
        _left(world, (reader, stream, participant))
        for reader in scenario.participants
        for stream in _written(scenario, participant)
    )


def _is_enough(world: World, copied: Copied) -> bool:
    """Whether a reader has enough producers without one, whose hold has not run out."""
    return copied not in world.choices.lapsed and _left(world, copied)


def _left(world: World, copied: Copied) -> bool:
    """Whether there are enough producers for a reader without one: those whose holds have run out
    and those that are gone for good do not count."""
    reader, stream, without = copied
    lapsed, away = world.choices.lapsed, {*world.gone_for_good, without}
    left = [
        writer
        for writer in world.scenario.writers()[stream]
        if writer.participant not in away and (reader, stream, writer.participant) not in lapsed
    ]
    return len(left) >= world.scenario.replicas.verify.get(stream, 1)


def _written(scenario: Scenario, participant: Participant) -> list[StreamName]:
    return [s for s, ws in scenario.writers().items() if participant in {w.participant for w in ws}]
