"""The central optimum: the result of a scheduler with full knowledge and full control.

Least excess along contracts: a linear program over the flow of each contract and the excess of
each participant, in which nodes may pass load on. Its matrix is that of a network, so its corners
are whole numbers (HiGHS). Among the plans of least excess it takes one of the fewest moves. The
least with all connected is the total less the sum of thresholds; the least sum of costs spreads
load so that no unit would be cheaper elsewhere, in each part of the graph that contracts connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from pipelines.simulation.schemes.course import CostTable, Course, cost_tables
from pipelines.simulation.schemes.worlds import Outcome, World


class CentralOptimum:
    """Everybody tells the centre, the centre tells everybody: one round."""

    name = "optimum"

    def run(self, world: World, rounds_max: int) -> Outcome:
        """See `Scheme.run`. Only for worlds in which nothing changes."""
        if world.changes:
            raise ValueError("the optimum is that of one load, not of one that changes")
        course = Course(world, scheme=self.name)
        course.begin_round()
        flows = least_flows(world, course.units)
        while flows:
            # The cheapest plan has no cycle, so somebody always has what it is to hand over.
            left: dict[int, int] = {}
            for number, count in flows.items():
                giver, taker, _ = world.contracts[number]
                going = min(count, course.units[giver])
                for fragment in course.carried[giver][-1 : -going - 1 : -1]:
                    course.move(fragment, giver, taker, None)
                if count > going:
                    left[number] = count - going
            flows = left
        course.end_round(world.participants, world.participants)
        return course.outcome(is_at_rest=True)


def least_flows(world: World, units: Sequence[int]) -> dict[int, int]:
    """How many units go over each contract (by its number) for the least excess by fewest moves."""
    n, m = world.participants, len(world.contracts)
    payers = np.fromiter((c.payer for c in world.contracts), dtype=np.int64, count=m)
    providers = np.fromiter((c.provider for c in world.contracts), dtype=np.int64, count=m)
    over_contracts, own = np.arange(m), np.arange(n)
    # For each participant: units - given + taken - excess <= threshold, and given <= units + taken.
    rows = np.concatenate([providers, payers, own, payers + n, providers + n])
    columns = np.concatenate(
        [over_contracts, over_contracts, own + m, over_contracts, over_contracts]
    )
    values = np.concatenate([np.ones(m), -np.ones(m), -np.ones(n), np.ones(m), -np.ones(m)])
    room = np.asarray(world.thresholds) - np.asarray(units)
    # A unit of excess less is worth any number of moves: no path is longer than all participants.
    price = np.concatenate([np.ones(m), np.full(n, n + 1.0)])
    found = linprog(
        price,
        A_ub=coo_array((values, (rows, columns)), shape=(2 * n, m + n)).tocsr(),
        b_ub=np.concatenate([room, np.asarray(units)]),
        method="highs-ds",
    )
    if found.status != 0:
        raise AssertionError(f"the linear program was not solved: {found.message}")
    whole = np.rint(found.x[:m])
    if np.abs(found.x[:m] - whole).max(initial=0.0) > 1e-6:
        raise AssertionError("the linear program's corner is not whole")
    return {int(at): int(whole[at]) for at in np.flatnonzero(whole)}


def least_cost(world: World, units: Sequence[int], *, connected: bool) -> float:
    """The least sum of costs per hour: with everybody connected, or along contracts, which must
    then exist in both directions between two partners (prices aside)."""
    tables = cost_tables(world)
    parts = [list(range(world.participants))] if connected else parts_of(world)
    return sum(
        _spread([tables[one] for one in part], sum(units[one] for one in part)) for part in parts
    )


def parts_of(world: World) -> list[list[int]]:
    """The parts of the graph that contracts connect, whatever their direction."""
    leader = list(range(world.participants))

    def find(one: int) -> int:
        while leader[one] != one:
            leader[one] = one = leader[leader[one]]
        return one

    for payer, provider, _ in world.contracts:
        leader[find(payer)] = find(provider)
    parts: dict[int, list[int]] = {}
    for one in range(world.participants):
        parts.setdefault(find(one), []).append(one)
    return list(parts.values())


def _spread(tables: Iterable[CostTable], total: int) -> float:
    """The least cost of carrying `total` units with these cost functions."""
    counts: dict[int, tuple[CostTable, int]] = {}
    for table in tables:
        counts[id(table)] = (table, counts.get(id(table), (table, 0))[1] + 1)
    kinds = tuple(counts.values())
    low, high = 0.0, max(table.removing(total) for table, _ in kinds) if total else 0.0
    for _ in range(100):
        middle = (low + high) / 2
        if sum(n * _carried(table, middle, total) for table, n in kinds) > total:
            high = middle
        else:
            low = middle
    # At the price just below, what is left over are the next cheapest units.
    carried = {key: _carried(table, low, total) for key, (table, _) in counts.items()}
    left = total - sum(counts[key][1] * units for key, units in carried.items())
    cost = sum(n * table.at(carried[key]) for key, (table, n) in counts.items())
    while left:
        key = min(carried, key=lambda one: counts[one][0].adding(carried[one]))
        table, n = counts[key]
        taken = min(left, n)
        cost += taken * (table.at(carried[key] + 1) - table.at(carried[key]))
        carried[key] += 1
        left -= taken
    return cost


def _carried(table: CostTable, price: float, most: int) -> int:
    """The greatest number of units of which none costs more than the price."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if table.removing(middle) <= price:
            low = middle
        else:
            high = middle - 1
    return low
