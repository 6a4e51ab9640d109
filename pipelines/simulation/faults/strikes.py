"""Faults of machines, catalogs, clocks and links: target, severity, duration.

`one way`: only one direction of a link is cut. `slow link`: every call over it takes many times
as long, and no notification arrives. `skew`: a home's clock jumps and runs at another rate.
`together`: several links, processes or catalogs are unavailable, and return at one moment.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Protocol, TypeVar

from medusa_core.commits import Lane
from medusa_core.names import Participant
from pipelines.simulation.faults.drawn_overloads import CAPACITIES, OVERLOAD_MS
from pipelines.simulation.faults.simulated_homes import SimulatedHome

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

PAUSE_MS = (200, 5_500)
SLOW_MS = (2_000, 6_000)
SLOW_FACTORS = (4, 20)
LINK_FACTORS = (10, 200)
JUMP_MS = (0, 1_000)
PACES_PER_MILLE = (993, 1_007)
Link = tuple[Participant, Participant]
T = TypeVar("T")


class Happens(Protocol):
    """Called when a fault has begun, with how long it lasts."""

    def __call__(self, kind: str, who: str, what: str = "", lasts_ms: int = 0) -> None: ...


def strike_machines_or_links(kind: str, world: World, happens: Happens) -> None:
    """Let a fault of a kind happen now."""
    strikes: dict[str, Callable[[World, Happens], None]] = {
        "pause": pause,
        "slow": slow,
        "overload": overload,
        "skew": skew,
        "second": second,
        "cut": cut,
        "one way": one_way,
        "slow link": slow_link,
        "together": together,
    }
    strikes[kind](world, happens)


# a machine, a catalog, a clock


def slow(world: World, happens: Happens) -> None:
    """Whatever a participant's machine does takes many times as long."""
    participant = world.chance.choice(world.scenario.participants)
    lasts_ms = world.chance.randint(*SLOW_MS)
    world.slow[participant] = world.chance.randint(*SLOW_FACTORS)
    world.after(lasts_ms, lambda: world.slow.pop(participant, None))
    happens("slow", participant, f"{world.slow[participant]} times", lasts_ms)


def overload(world: World, happens: Happens) -> None:
    """A participant has little time for its steps, and drops what outputs can do without."""
    participant = world.chance.choice(world.scenario.participants)
    lasts_ms = world.chance.randint(*OVERLOAD_MS)
    world.capacity[participant] = world.chance.choice(CAPACITIES)
    world.after(lasts_ms, lambda: world.capacity.pop(participant, None))
    happens("overload", participant, f"capacity {world.capacity[participant]}", lasts_ms)


def pause(world: World, happens: Happens) -> None:
    """A catalog's server is killed, and is started again."""
    home = world.homes[world.chance.choice(world.scenario.participants)]
    lasts_ms = world.chance.randint(*PAUSE_MS)
    happens("pause", home.participant, "catalog", lasts_ms)
    _pause(world, home, lasts_ms)


def _pause(world: World, home: SimulatedHome, lasts_ms: int) -> None:
    world.pause(home)

    def back() -> None:
        home.is_paused = home.participant in world.dark
        world.emit(home.participant, "back", "catalog")

    world.after(lasts_ms, back)


def skew(world: World, happens: Happens) -> None:
    """A home's clock jumps forward and runs at another pace from now on."""
    home = world.homes[world.chance.choice(world.scenario.participants)]
    by_ms = world.chance.randint(*JUMP_MS)
    pace = world.chance.randint(*PACES_PER_MILLE)
    home.clock.set_off(by_ms=by_ms, pace_per_mille=pace)
    happens("skew", home.participant, f"by {by_ms} ms, then {pace} ms a second")


def second(world: World, happens: Happens) -> None:
    """A second driver is started while the first one runs."""
    process = world.start(world.chance.choice(world.there()), Lane.LIVE)
    happens("second", process.name)


# links


def cut(world: World, happens: Happens) -> None:
    """Nothing goes between two participants."""
    one, other = world.chance.choice(links_of(world))
    lasts_ms = world.chance.randint(*world.scenario.shape.cut_ms)
    world.links.cut(one, other, world.now_ms + lasts_ms)
    happens("cut", f"{one} {other}", "link", lasts_ms)


def one_way(world: World, happens: Happens) -> None:
    """Requests arrive and answers do not, or the reverse."""
    sender, receiver = world.chance.sample(world.chance.choice(links_of(world)), 2)
    lasts_ms = world.chance.randint(*world.scenario.shape.cut_ms)
    world.links.lose(sender, receiver, world.now_ms + lasts_ms)
    happens("one way", f"{sender} {receiver}", "lost", lasts_ms)


def slow_link(world: World, happens: Happens) -> None:
    """Every call between two participants takes many times as long."""
    one, other = world.chance.choice(links_of(world))
    factor, lasts_ms = (
        world.chance.randint(*LINK_FACTORS),
        world.chance.randint(*world.scenario.shape.cut_ms),
    )
    world.links.slow_down(one, other, factor, world.now_ms + lasts_ms)
    happens("slow link", f"{one} {other}", f"{factor} times", lasts_ms)


def links_of(world: World) -> list[Link]:
    """The links over which something is read; all, where nothing is."""
    pairs = list(combinations(world.scenario.participants, 2))
    read = [
        pair
        for pair in pairs
        if any(w.participant in pair for p in pair for ws in world.imports[p].values() for w in ws)
        or world.scenario.moves.partners(pair[0]) & {pair[1]}
    ]
    return read or pairs


# several at once


def together(world: World, happens: Happens) -> None:
    """Several are away for a while and come back at one moment."""
    draws = [_links_together, _catalogs_together]
    if len(world.processes) > 1:
        draws += [_frozen_together, _killed_together]
    away = world.chance.choice(draws)
    lasts_ms = world.chance.randint(*world.scenario.shape.cut_ms)
    happens("together", *away(world, lasts_ms), lasts_ms)


def _links_together(world: World, lasts_ms: int) -> tuple[str, str]:
    links = _some(world, links_of(world))
    for one, other in links:
        world.links.cut(one, other, world.now_ms + lasts_ms)
    return ", ".join(f"{one} {other}" for one, other in links), "links are cut"


def _frozen_together(world: World, lasts_ms: int) -> tuple[str, str]:
    found = _some(world, list(world.processes))
    for process in found:
        process.frozen_until_ms = max(process.frozen_until_ms, world.now_ms + lasts_ms)
    return ", ".join(process.name for process in found), "are frozen"


def _killed_together(world: World, lasts_ms: int) -> tuple[str, str]:
    found = _some(world, list(world.processes))
    for process in found:
        world.homes[process.participant].between_reads.add("kill")
        world.end(process, back_in_ms=lasts_ms)
    return ", ".join(process.name for process in found), "are killed"


def _catalogs_together(world: World, lasts_ms: int) -> tuple[str, str]:
    homes = _some(world, list(world.homes.values()))
    for home in homes:
        _pause(world, home, lasts_ms)
    return ", ".join(home.participant for home in homes), "catalogs"


def _some(world: World, among: list[T]) -> list[T]:
    """Two at least, if there are two."""
    least = min(2, len(among))
    return world.chance.sample(among, world.chance.randint(least, len(among)))
