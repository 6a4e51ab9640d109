"""Rounds of the production decisions (`medusa_core/market/decide.py`) for all participants.

A round: participants with new knowledge make offers; those with waiting offers answer,
first those that wait for no answer themselves; agreed load moves at the end. Decisions are pure,
so a participant without new knowledge since its last decision is not asked again, and rest costs
nothing.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from medusa_core.market.costs import CostFunction, Queue
from medusa_core.market.decide import decide_answers, decide_offers
from medusa_core.market.decisions import GiveAnswer, LowerLoad, MakeOffer, ReportHeadroom
from medusa_core.market.knowledge import (
    CarriedLoad,
    ContractInForce,
    MarketKnowledge,
    MarketLimits,
    PayerStatus,
    ProviderStatus,
    ReceivedOffer,
)
from medusa_core.market.learning import (
    after_answering,
    after_being_answered,
    after_handing_on,
    after_offering,
    after_report,
    after_reporting,
    after_round,
    lowest_taken,
)
from medusa_core.market.messages import Item, Nonce
from medusa_core.market.shedding import handed_over
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import FragmentName, Participant
from pipelines.simulation.schemes.course import Course
from pipelines.simulation.schemes.handing import Agreed, HandingOver
from pipelines.simulation.schemes.worlds import HONEST, Outcome, World

ROUND_MS = 10_000
UNTIL_ANSWERED = 10**9
SIMULATED_ITEMS_MAX = 1_000


class BoundedPrice:
    """The scheme: everybody decides as it would in production."""

    name = "bounded price"

    def __init__(self, limits: MarketLimits | None = None) -> None:
        # No message is lost here, so an answer holds until something else is, and none travels
        # in an envelope, which an offer of so many items would not fit into.
        self._limits = limits or MarketLimits(
            answer_rounds=UNTIL_ANSWERED, items_max=SIMULATED_ITEMS_MAX
        )

    def run(self, world: World, rounds_max: int) -> Outcome:
        """See `Scheme.run`."""
        rounds = _Rounds(world, self._limits, self.name)
        while rounds.course.round < rounds_max and not rounds.is_at_rest:
            rounds.play()
        return rounds.course.outcome(is_at_rest=rounds.is_at_rest)


class _Scaled(NamedTuple):
    """The costs that one who misreports decides by."""

    true: CostFunction
    factor: float

    def cost(self, load: float) -> float:
        return self.factor * self.true.cost(load)

    def slope(self, load: float) -> float:
        return self.factor * self.true.slope(load)


class _Home:
    """What one participant keeps; knowledge is made of it."""

    __slots__ = (
        "as_payer",
        "as_provider",
        "capacity",
        "carried",
        "coming",
        "cost",
        "name",
        "received",
        "taken_at",
        "threshold",
    )

    def __init__(self, number: int, world: World) -> None:
        deceit = world.misreports.get(number, HONEST)
        cost = world.costs[number]
        self.name = Participant(f"p{number}")
        self.capacity = cost.capacity if isinstance(cost, Queue) else inf
        self.cost = _Scaled(cost, deceit.cost_factor) if deceit.cost_factor != 1.0 else cost
        self.threshold = world.thresholds[number] * world.unit
        self.carried: list[CarriedLoad] = []
        self.as_payer: dict[ContractName, PayerStatus] = {}
        self.as_provider: dict[ContractName, ProviderStatus] = {}
        self.received: dict[ContractName, ReceivedOffer] = {}
        self.coming = 0.0
        self.taken_at = inf

    def knows(self, round_: int, load: float, limits: MarketLimits) -> MarketKnowledge:
        """What it knows now."""
        return MarketKnowledge(
            participant=self.name,
            round=round_,
            nonce=Nonce(f"{round_:032x}"),
            clock_ms=round_ * ROUND_MS,
            cost=self.cost,
            threshold=self.threshold,
            capacity=self.capacity,
            load=load + self.coming,
            carried=tuple(self.carried),
            as_payer=tuple(self.as_payer.values()),
            as_provider=tuple(self.as_provider.values()),
            received=tuple(self.received.values()),
            taken_at=self.taken_at,
            limits=limits,
        )

    def has_relayed(self) -> bool:
        """Whether an offer of its own waits that is on behalf of others."""
        return any(s.relays for s in self.as_payer.values())


class _Rounds:
    """A run in progress."""

    def __init__(self, world: World, limits: MarketLimits, scheme: str) -> None:
        self.world = world
        self.course = Course(world, scheme=scheme)
        self._limits = limits
        self._homes = [_Home(number, world) for number in range(world.participants)]
        self._of = {
            ContractName(f"c{n}"): (c.payer, c.provider) for n, c in enumerate(world.contracts)
        }
        prices: dict[int, tuple[float, ...]] = {}
        for number, contract in enumerate(world.contracts):
            levels = prices.get(id(contract.prices))
            if levels is None:
                of = contract.prices
                levels = tuple(float(of.at(level)) for level in range(of.top + 1))
                prices[id(contract.prices)] = levels
            payer, provider = self._homes[contract.payer], self._homes[contract.provider]
            in_force = ContractInForce(
                name=ContractName(f"c{number}"),
                revision=Revision(f"{number:064x}"),
                payer=payer.name,
                provider=provider.name,
                prices=levels,
            )
            payer.as_payer[in_force.name] = PayerStatus(contract=in_force)
            provider.as_provider[in_force.name] = ProviderStatus(contract=in_force)
        for fragment in range(world.initial):
            home = world.homes[fragment]
            self._homes[home].carried.append(self._new(fragment))
        self._asks = set(range(world.participants))
        self._lowered: set[int] = set()
        self._offers = 0
        self._answers = 0

    @property
    def is_at_rest(self) -> bool:
        """Whether nobody knows anything new, and nothing changes any more."""
        return not self._asks and self.course.round >= self.world.changes_until

    def play(self) -> None:
        """One round."""
        self._change(self.course.begin_round())
        self._offers = self._answers = 0
        offered, self._asks = sorted(self._asks), set()
        answering = self._offer(offered)
        answering.update(number for number in offered if self._homes[number].received)
        self._move(self._answer(answering))
        self.course.end_round(self._offers, self._answers)
        self.course.check_fall()

    def _new(self, fragment: int) -> CarriedLoad:
        home = self.world.homes[fragment]
        name = FragmentName(self._homes[home].name)
        return CarriedLoad(Item(name, fragment, self.world.stated_load(fragment)))

    def _change(self, changed: tuple[int, ...]) -> None:
        """Load that began or ended outside of the market."""
        for number in changed:
            home = self._homes[number]
            there = set(self.course.carried[number])
            home.carried = [c for c in home.carried if c.item.partition in there]
            there.difference_update(c.item.partition for c in home.carried)
            home.carried.extend(self._new(fragment) for fragment in sorted(there))
        self._asks.update(changed)

    def _knows(self, number: int) -> MarketKnowledge:
        load = self.course.units[number] * self.world.unit
        return self._homes[number].knows(self.course.round, load, self._limits)

    def _offer(self, offered: list[int]) -> set[int]:
        """Everybody's offers; who has got any."""
        made: list[tuple[int, MakeOffer]] = []
        reports: list[ReportHeadroom] = []
        for number in offered:
            for decision in decide_offers(self._knows(number)):
                if isinstance(decision, MakeOffer):
                    made.append((number, decision))
                elif isinstance(decision, ReportHeadroom):
                    reports.append(decision)
        got = set()
        for number, decision in made:
            name = decision.offer.contract
            home = self._homes[number]
            home.as_payer[name] = after_offering(home.as_payer[name], decision)
            provider = self._of[name][1]
            self._homes[provider].received[name] = ReceivedOffer(decision.offer, self.course.round)
            got.add(provider)
        for word in reports:
            name = word.answer.contract
            payer, provider = self._of[name]
            of, to = self._homes[provider].as_provider, self._homes[payer].as_payer
            of[name] = after_reporting(of[name], word.answer)
            to[name] = after_report(to[name], word.answer, self.course.round)
            self._asks.update((payer, provider))
        self._offers += len(made)
        self._answers += len(reports)
        return got

    def _answer(self, waiting: set[int]) -> tuple[list[int], dict[int, Agreed]]:
        """Everybody's answers: fragments that are handed over, and all that was agreed."""
        firm: list[int] = []
        lowered: list[int] = []
        agreed: dict[int, Agreed] = {}
        granted: set[int] = set()
        later = {number for number in waiting if self._homes[number].has_relayed()}
        now = sorted(waiting - later)
        while now or later:
            if not now:
                now, later = sorted(later), set()
            heard: set[int] = set()
            for number in now:
                for decision in decide_answers(self._knows(number)):
                    if isinstance(decision, GiveAnswer):
                        heard.update(self._say(decision, firm, agreed))
                    elif isinstance(decision, LowerLoad):
                        lowered.extend(item.partition for _, item in decision.leaves)
                        self._hands_on(number, decision.leaves)
            granted.update(heard)
            later -= heard
            now = sorted(number for number in heard if self._homes[number].received)
        for number in granted:
            statuses = self._homes[number].as_payer
            for name, status in statuses.items():
                if status.accepted is not None:
                    statuses[name] = after_round(status)
        self._asks.update(number for number in waiting if self._homes[number].received)
        self._lowered = set(lowered)
        return firm + lowered, agreed

    def _hands_on(self, number: int, leaves: tuple[tuple[ContractName, Item], ...]) -> None:
        statuses = self._homes[number].as_payer
        for name, item in leaves:
            statuses[name] = after_handing_on(statuses[name], (item,))

    def _say(
        self, decision: GiveAnswer, firm: list[int], agreed: dict[int, Agreed]
    ) -> tuple[int, ...]:
        """Pass an answer on; the payer, if it had offered on behalf of others."""
        answer, offer = decision.answer, decision.received.offer
        payer, provider = self._of[answer.contract]
        homes = self._homes
        status = homes[payer].as_payer[answer.contract]
        leaves = {
            hand_on.item.partition: tuple(item.partition for _, item in hand_on.leaves)
            for hand_on in decision.hands_on
        }
        name_, price = answer.contract, status.contract.prices[offer.level]
        for item in answer.accepted:
            agreed[item.partition] = Agreed(
                payer, provider, name_, price, leaves.get(item.partition, ())
            )
            homes[provider].coming += item.load
            homes[provider].taken_at = lowest_taken((homes[provider].taken_at, price))
        if not status.relays:
            over = answer.accepted
            # An answer in the same round finds the load that the offer was made with.
            if offer.round < self.course.round:
                over = handed_over(self._knows(payer), offer, over)
            firm.extend(item.partition for item in over)
        for hand_on in decision.hands_on:
            self._hands_on(provider, hand_on.leaves)
            leaving = sum(item.load for _, item in hand_on.leaves)
            homes[provider].coming -= min(leaving, hand_on.item.load)
        at_round = self.course.round
        homes[payer].as_payer[answer.contract] = after_being_answered(status, answer, at_round)
        of = homes[provider].as_provider
        of[answer.contract] = after_answering(of[answer.contract], offer, answer)
        del homes[provider].received[answer.contract]
        self._answers += 1
        self._asks.update((payer, provider))
        return (payer,) if status.relays else ()

    def _move(self, firm_and_agreed: tuple[list[int], dict[int, Agreed]]) -> None:
        """Hand over what is firm, and before each fragment whatever makes room for it."""
        firm, agreed = firm_and_agreed
        for taking in {agreement.provider for agreement in agreed.values()}:
            self._homes[taking].coming = 0.0
            self._homes[taking].taken_at = inf
        handing = HandingOver(self.course, self._homes, agreed, self._limits.dead_band)
        for fragment in firm:
            if fragment not in self._lowered or handing.still_pays(fragment):
                handing.hand_over(fragment)
        gone: dict[int, set[int]] = {}
        came: dict[int, list[CarriedLoad]] = {}
        for fragment, of in handing.moved:
            gone.setdefault(of.payer, set()).add(fragment)
            name = FragmentName(self._homes[self.world.homes[fragment]].name)
            item = Item(name, fragment, self.world.unit)
            taken = CarriedLoad(item, of.contract, self.course.round * ROUND_MS)
            came.setdefault(of.provider, []).append(taken)
        for number, fragments in gone.items():
            home = self._homes[number]
            home.carried = [c for c in home.carried if c.item.partition not in fragments]
        for number, carried in came.items():
            self._homes[number].carried.extend(carried)
        self._asks.update(gone)
        self._asks.update(came)
