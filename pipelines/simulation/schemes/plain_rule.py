"""The plain rule: one offer per participant and round, to one partner (papers: 3.4-3.6).

A participant chooses a partner in the engine's order (partners that refused last come last, then
the cheapest first) and offers every unit that pays at the price. The partner takes the offers of
the highest price first, counting what it has taken in this round. A partner that takes nothing is
offered one level more, as long as that pays; one that took all is offered one level less the next
time, and no partner is offered a level at which nothing pays any more.

Left out: that a participant beyond its capacity offers everything, whether it pays or not, which
would break the theorem that every move lowers the sum of costs; and answers that a movement is on
its way, for a move takes one round here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from pipelines.simulation.schemes.course import Course
from pipelines.simulation.schemes.limits import Limits
from pipelines.simulation.schemes.worlds import HONEST, Outcome, World


@dataclass(slots=True)
class _ContractStatus:
    """Where the payer of a contract stands with its partner."""

    provider: int
    prices: tuple[float, ...]
    level: int = 0
    has_refused: bool = False

    @property
    def price(self) -> float:
        return self.prices[self.level]


class PlainRule:
    """See the module."""

    name = "plain"

    def run(self, world: World, rounds_max: int) -> Outcome:
        """See `Scheme.run`. At rest once nothing moved while all made offers to all partners."""
        return _Run(world).play(rounds_max)


class _Run:
    def __init__(self, world: World) -> None:
        self._world = world
        self._course = Course(world, scheme=PlainRule.name)
        self._limits = Limits(len(world.homes) + 1)
        self._statuses: list[list[_ContractStatus]] = [[] for _ in range(world.participants)]
        known: dict[int, tuple[float, ...]] = {}
        for payer, provider, prices in world.contracts:
            if id(prices) not in known:
                known[id(prices)] = tuple(float(prices.at(x)) for x in range(prices.top + 1))
            self._statuses[payer].append(_ContractStatus(provider, known[id(prices)]))
        self._factors = [
            world.misreports.get(i, HONEST).cost_factor for i in range(world.participants)
        ]
        self._cheapest = [
            min((s.prices[0] for s in statuses), default=None) for statuses in self._statuses
        ]
        most = max((sum(len(s.prices) for s in own) for own in self._statuses), default=0)
        # Each makes offers to one partner after another, at worst at every level, and once more.
        self._quiet_rounds = 2 * most + 2

    def play(self, rounds_max: int) -> Outcome:
        course = self._course
        payers = {i for i in range(self._world.participants) if self._wants(i)}
        quiet = 0
        while course.round < rounds_max:
            changed = set(course.begin_round())
            quiet = 0 if changed else quiet + 1
            for participant in changed:
                self._look(participant, payers)
            offers, answers, moved = self._round(sorted(payers))
            course.check_fall()
            course.end_round(offers, answers)
            for participant in moved:
                self._look(participant, payers)
            quiet = 0 if moved else quiet
            is_over = course.round >= self._world.changes_until
            if is_over and (quiet > self._quiet_rounds or not payers):
                return course.outcome(is_at_rest=True)
        return course.outcome(is_at_rest=False)

    def _look(self, participant: int, payers: set[int]) -> None:
        if self._wants(participant):
            payers.add(participant)
        else:
            payers.discard(participant)
            for status in self._statuses[participant]:
                status.has_refused = False

    def _wants(self, participant: int) -> bool:
        cheapest = self._cheapest[participant]
        return cheapest is not None and self._offered(participant, cheapest) > 0

    def _offered(self, participant: int, price: float) -> int:
        """How many units pay to be given away at the price."""
        table, factor = self._course.tables[participant], self._factors[participant]
        return self._course.units[participant] - self._limits.kept(table, price, factor)

    def _round(self, asking: list[int]) -> tuple[int, int, set[int]]:
        received: dict[int, list[tuple[float, int, _ContractStatus, list[int]]]] = defaultdict(list)
        offers = 0
        for participant in asking:
            status = self._next(participant)
            count = self._offered(participant, status.price)
            if count <= 0:
                for one in self._statuses[participant]:
                    one.has_refused = False
                continue
            offers += 1
            offered = self._course.carried[participant][-1 : -count - 1 : -1]
            received[status.provider].append((-status.price, participant, status, offered))
        agreed: list[tuple[int, int, float, list[int]]] = []
        for taker in sorted(received):
            for price, giver, status, count, accepted in self._answer(taker, received[taker]):
                agreed.append((giver, taker, price, accepted))
                self._learn(giver, status, count, len(accepted))
        for giver, taker, price, accepted in agreed:
            for fragment in accepted:
                self._course.move(fragment, giver, taker, price)
        moved = {p for giver, taker, _, accepted in agreed if accepted for p in (giver, taker)}
        return offers, offers, moved

    def _next(self, participant: int) -> _ContractStatus:
        own = self._statuses[participant]
        for one in own:
            while one.level and self._offered(participant, one.price) <= 0:
                one.level -= 1
        best = min(own, key=lambda one: (one.has_refused, one.price))
        if best.has_refused:
            for one in own:
                one.has_refused = False
            best = min(own, key=lambda one: one.price)
        return best

    def _answer(
        self, taker: int, offers: list[tuple[float, int, _ContractStatus, list[int]]]
    ) -> list[tuple[float, int, _ContractStatus, int, list[int]]]:
        """What is taken of each offer, dearest first, by the loads as they were stated."""
        table, factor = self._course.tables[taker], self._factors[taker]
        answers = []
        carried = float(self._course.units[taker])
        for below_zero, giver, status, offered in sorted(offers, key=lambda one: one[:2]):
            price = -below_zero
            limit = self._limits.taken(table, price, factor) + 1e-9
            accepted = []
            for fragment in offered:
                stated = self._world.stated_load(fragment) / self._world.unit
                if carried + stated > limit:
                    break
                carried += stated
                accepted.append(fragment)
            answers.append((price, giver, status, len(offered), accepted))
        return answers

    def _learn(self, giver: int, status: _ContractStatus, offered: int, accepted: int) -> None:
        if accepted == offered:
            status.level = max(status.level - 1, 0)
        elif not accepted:
            dearer = status.level + 1
            if dearer < len(status.prices) and self._offered(giver, status.prices[dearer]) > 0:
                status.level = dearer
            else:
                status.has_refused = True
