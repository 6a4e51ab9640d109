"""Acceptable allocations, and the promises of papers 3.7 about one at rest.

What is acceptable is `medusa_core.market.allocation`. Nearly acceptable within k: none is over, or
none is more than k units under (3.2, row 67).
"""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.market.allocation import allocation_of
from pipelines.simulation.schemes.course import cost_tables
from pipelines.simulation.schemes.limits import Limits
from pipelines.simulation.schemes.worlds import World

ACCEPTABLE, NEARLY, NOT = "acceptable", "nearly", "not"


def acceptance_of(world: World, units: Sequence[int], levels: int) -> str:
    """`acceptable`, `nearly(k)` with the least k, or `not` where k is more than the levels."""
    found = allocation_of(units, world.thresholds)
    if found.is_acceptable:
        return ACCEPTABLE
    within = round(found.within)
    return f"{NEARLY}({within})" if within <= levels else NOT


def is_uniform(world: World, levels: int) -> bool:
    """Whether all participants and prices are alike and each level is worth one unit, as theorems
    3.7.3 and 3.7.5 ask for: at l levels below the top who has T-l+1 gives and who has T-l-1 takes.
    """
    if not world.contracts or len(set(world.thresholds)) > 1 or world.misreports:
        return False
    prices = world.contracts[0].prices
    if any(contract.prices != prices for contract in world.contracts) or prices.top != levels:
        return False
    if any(cost != world.costs[0] for cost in world.costs):
        return False
    threshold, table = world.thresholds[0], cost_tables(world)[0]
    limits = Limits(threshold + 1)
    return all(
        limits.kept(table, float(prices.at(levels - below))) == threshold - below
        and limits.taken(table, float(prices.at(levels - below))) == threshold - below
        for below in range(levels + 1)
    )


def moves_bound(excess: int, participants: int, levels: int) -> int:
    """The most moves under constant load, uniform prices and k levels (theorem 3.7.3)."""
    return (levels + 1) * excess + participants * levels * (levels + 1) // 2


def lemma_violations(world: World, units: Sequence[int], levels: int) -> list[str]:
    """Sentences where lemma 3.7.5 does not hold in a state at rest: whoever is h <= k+1 contracts
    away from one over its threshold T carries T - h + 1 units at least."""
    providers: list[list[int]] = [[] for _ in range(world.participants)]
    for payer, provider, _ in world.contracts:
        providers[payer].append(provider)
    near = [one for one, n in enumerate(units) if n > world.thresholds[one]]
    seen = set(near)
    violations = []
    for distance in range(1, levels + 2):
        near = sorted({other for one in near for other in providers[one]} - seen)
        seen |= set(near)
        for one in near:
            least = world.thresholds[one] - distance + 1
            if units[one] < least:
                violations.append(
                    f"3.7.5: participant {one}, {distance} contracts from one over its threshold, "
                    f"carries {units[one]} units, not {least} at least"
                )
    return violations
