"""Misreporting by one participant (experiment B8): its gain, and the evidence of it.

The same world is played twice, once with all participants honest. A gain is the difference of
what it is paid less what it pays less its true costs. No report changes a price by more than the
range is wide, so its gain is bounded by that width for each unit that it moved or received. A
false statement of fragments' load is detected by metering: the participant that runs one measures
another load than was stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipelines.simulation.schemes.course import cost_tables
from pipelines.simulation.schemes.drawn_worlds import Sizes, make_world
from pipelines.simulation.schemes.worlds import Misreport, Outcome, Scheme, World

DECEITS = {
    "says its costs are half": Misreport(cost_factor=0.5),
    "says its costs are 0.9": Misreport(cost_factor=0.9),
    "says its costs are 1.1": Misreport(cost_factor=1.1),
    "says its costs are double": Misreport(cost_factor=2.0),
    "says its load is half": Misreport(load_factor=0.5),
    "says its load is double": Misreport(load_factor=2.0),
}


def measure_misreporting(
    sizes: Sizes, seed: int, scheme: Scheme, rounds_max: int
) -> list[dict[str, object]]:
    """For each deceit by the most loaded participant, and by one with the most room: its gain per
    hour, the bound, and how many of its fragments were metered otherwise than stated."""
    world = make_world(sizes, seed)
    honest = scheme.run(world, rounds_max)
    measured = []
    for role, deceiver in zip(("overloaded", "with room"), _deceivers(world), strict=True):
        for what, deceit in DECEITS.items():
            outcome = scheme.run(replace(world, misreports={deceiver: deceit}), rounds_max)
            gain = utility(world, outcome, deceiver) - utility(world, honest, deceiver)
            dealt = max(outcome.dealt(deceiver), honest.dealt(deceiver))
            measured.append(
                {
                    "role": role,
                    "deceit": what,
                    "gain": gain,
                    "bound": range_width(world, deceiver) * world.unit * dealt,
                    "units_dealt": dealt,
                    "found_out": _found_out(world, outcome, deceiver, deceit),
                }
            )
    return measured


def utility(world: World, outcome: Outcome, participant: int) -> float:
    """What a participant is paid less what it pays less what its load costs, per hour."""
    table = cost_tables(world)[participant]
    return outcome.incomes[participant] - table.at(outcome.units[participant])


def range_width(world: World, participant: int) -> float:
    """The widest price range of its contracts."""
    return max(
        float(prices.high - prices.low)
        for payer, provider, prices in world.contracts
        if participant in (payer, provider)
    )


def _deceivers(world: World) -> Sequence[int]:
    units = [0] * world.participants
    for home in world.homes:
        units[home] += 1
    return units.index(max(units)), units.index(min(units))


def _found_out(world: World, outcome: Outcome, deceiver: int, deceit: Misreport) -> int:
    if deceit.load_factor == 1.0:
        return 0
    placed = zip(world.homes, outcome.lies_at, strict=True)
    return sum(home == deceiver and at not in (deceiver, -1) for home, at in placed)
