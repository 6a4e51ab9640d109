"""The course of a run: the load of each participant, each round, and the laws of every move.

Every scheme moves fragments through here, so that figures and laws are the same for all. A scheme
calls `begin_round`, then `move` for each fragment that changes hands, then `end_round`; the order
of moves within a round does not matter where both sides decided from their knowledge at its
beginning.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

from medusa_core.market.costs import CostFunction
from pipelines.base import clock
from pipelines.simulation.schemes.worlds import HONEST, Outcome, RoundFigures, World

TOLERANCE = 1e-9
"""Of a comparison of costs, relative to the greater of both."""

VIOLATIONS_KEPT_MAX = 20


class CostTable:
    """The cost of n units, computed once for all participants that share a cost function."""

    def __init__(self, cost: CostFunction, unit: float) -> None:
        self._cost = cost
        self._unit = unit
        self._known: list[float] = [cost.cost(0.0)]

    def at(self, units: int) -> float:
        """The cost per hour of carrying so many units."""
        known = self._known
        while len(known) <= units:
            known.append(self._cost.cost(len(known) * self._unit))
        return known[units]

    def adding(self, units: int) -> float:
        """What one unit more costs per hour and unit of *load*: comparable with a price."""
        return (self.at(units + 1) - self.at(units)) / self._unit

    def removing(self, units: int) -> float:
        """What one unit less saves per hour and unit of load."""
        return (self.at(units) - self.at(units - 1)) / self._unit


def cost_tables(world: World) -> list[CostTable]:
    """A table for each participant, shared where cost functions are the same object."""
    made: dict[int, CostTable] = {}
    return [made.setdefault(id(cost), CostTable(cost, world.unit)) for cost in world.costs]


class Course:
    """A run in progress. `units[i]` and `carried[i]` (fragment ids, the one taken last at the end)
    are read by schemes and changed here alone."""

    def __init__(self, world: World, *, scheme: str) -> None:
        self.world = world
        self.units = [0] * world.participants
        self.carried: list[list[int]] = [[] for _ in range(world.participants)]
        self.tables = cost_tables(world)
        self.violations: list[str] = []
        self.round = 0
        self._scheme = scheme
        self._lies_at = array("l", [-1]) * len(world.homes)
        self._incomes = [0.0] * world.participants
        self._flows: Counter[tuple[int, int]] = Counter()
        self._payments: dict[int, list[tuple[int, int, float]]] = {}
        self._changes = {change.round: change for change in world.changes}
        for fragment in range(world.initial):
            self._put(fragment, world.homes[fragment])
        self._excess = units_over(self.units, world.thresholds)
        self._cost = sum(table.at(n) for table, n in zip(self.tables, self.units, strict=True))
        self._moves = 0
        self._cost_before = self._cost
        self._rounds = [RoundFigures(self._excess, self._cost, 0, 0, 0)]
        self._started_s = clock.process_cpu_s()

    def begin_round(self) -> tuple[int, ...]:
        """Begin the next round: what changes from outside happens; whose load that changed."""
        self.round += 1
        self._moves = 0
        change = self._changes.get(self.round)
        changed = set()
        if change is not None:
            for fragment in change.departed:
                changed.add(self._end(fragment))
            for fragment in change.arrived:
                home = self.world.homes[fragment]
                self._account(home, 1)
                self._put(fragment, home)
                changed.add(home)
        self._cost_before = self._cost
        return tuple(sorted(changed))

    def move(self, fragment: int, giver: int, taker: int, price: float | None) -> None:
        """Hand a fragment over, paid at `price` per hour and unit of load from now on.

        None is a move that nobody pays for. Both sides' gain is checked against their true costs,
        except of one that misreports: it may hurt itself, and a participant that believed it.
        """
        if self._lies_at[fragment] != giver:
            raise AssertionError(f"fragment {fragment} does not lie at {giver}")
        if price is not None:
            self._check_gains(fragment, giver, taker, price)
            self._pay(fragment, giver, taker, price)
        self._account(giver, -1)
        self._account(taker, 1)
        self._take(fragment, giver)
        self._put(fragment, taker)
        self._moves += 1
        self._flows[giver, taker] += 1
        self._payments.setdefault(fragment, [])

    def end_round(self, offers: int, answers: int) -> None:
        """End the round: `offers` were made in it, and `answers` given."""
        self._rounds.append(RoundFigures(self._excess, self._cost, offers, answers, self._moves))

    def check_fall(self) -> None:
        """Note a violation unless this round's moves lowered the sum of costs (or there were none);
        for schemes that promise it (papers: theorem 3.7.1)."""
        slack = TOLERANCE * max(self._cost_before, 1.0)
        limit = self._cost_before - (slack if self._moves else -slack)
        if self._cost > limit and not self.world.misreports:
            self.violated(
                f"3.7.1: the sum of costs went from {self._cost_before:.6f} to {self._cost:.6f}"
            )

    def violated(self, what: str) -> None:
        """Note that a law did not hold in this round."""
        if len(self.violations) < VIOLATIONS_KEPT_MAX:
            self.violations.append(f"round {self.round}: {what}")

    def outcome(self, *, is_at_rest: bool) -> Outcome:
        """The run as it ended."""
        return Outcome(
            scheme=self._scheme,
            is_at_rest=is_at_rest,
            rounds=tuple(self._rounds),
            units=tuple(self.units),
            incomes=tuple(self._incomes),
            lies_at=self._lies_at,
            moved=len(self._payments),
            flows=self._flows,
            cpu_s=clock.process_cpu_s() - self._started_s,
            violations=tuple(self.violations),
        )

    def _check_gains(self, fragment: int, giver: int, taker: int, price: float) -> None:
        lies = self.world.misreports
        adding = self.tables[taker].adding(self.units[taker])
        believed = lies.get(self.world.homes[fragment], HONEST).load_factor != 1.0
        if adding > price * (1 + TOLERANCE) and taker not in lies and not believed:
            self.violated(
                f"S4: participant {taker} takes fragment {fragment} at {price:.6f}, which costs it "
                f"{adding:.6f}"
            )
        removing = self.tables[giver].removing(self.units[giver])
        if removing < price * (1 - TOLERANCE) and giver not in lies:
            self.violated(
                f"row 74: participant {giver} pays {price:.6f} for fragment {fragment}, which "
                f"saves it {removing:.6f}"
            )

    def _pay(self, fragment: int, giver: int, taker: int, price: float) -> None:
        amount = price * self.world.unit
        self._incomes[giver] -= amount
        self._incomes[taker] += amount
        self._payments.setdefault(fragment, []).append((giver, taker, amount))

    def _end(self, fragment: int) -> int:
        """A fragment ends where it lies, and with it whatever is paid for it."""
        at = self._lies_at[fragment]
        if at < 0:
            raise AssertionError(f"fragment {fragment} ends without having begun")
        self._account(at, -1)
        self._take(fragment, at)
        self._lies_at[fragment] = -1
        for giver, taker, amount in self._payments.get(fragment, ()):
            self._incomes[giver] += amount
            self._incomes[taker] -= amount
        return at

    def _account(self, participant: int, by: int) -> None:
        n, most = self.units[participant], self.world.thresholds[participant]
        self._excess += max(n + by - most, 0) - max(n - most, 0)
        table = self.tables[participant]
        self._cost += table.at(n + by) - table.at(n)

    def _put(self, fragment: int, at: int) -> None:
        self._lies_at[fragment] = at
        self.carried[at].append(fragment)
        self.units[at] += 1

    def _take(self, fragment: int, at: int) -> None:
        there = self.carried[at]
        if there[-1] == fragment:
            there.pop()
        else:
            there.remove(fragment)
        self.units[at] -= 1


def units_over(units: Sequence[int], thresholds: Sequence[int]) -> int:
    """The excess: units above the thresholds, summed over participants."""
    return sum(max(n - most, 0) for n, most in zip(units, thresholds, strict=True))
