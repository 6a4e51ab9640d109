"""What-if: recorded load, replayed round by round as if given contracts had been in force.

In each round the participant decides as its loop does (`decide_offers`, `decide_answers`), from
the load of that time and the estimated messages of partners (`estimating.py`). Accepted load
moves at once. It stays at its provider for the minimum residence at least, then until carrying it
at home costs less than its price, less the dead band; it is paid at the price at which it was
accepted, for the load that it has meanwhile. Load that a payer handed over stays for the
residence, a round at least, unless it is offered again.

Limits: nothing is relayed, moves cost nothing by themselves, and partners do not react to each
other. Load that was really placed elsewhere, or here for others, counts as recorded: as load or
as none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from medusa_core.frozen import freeze
from medusa_core.market.decide import decide_answers, decide_offers
from medusa_core.market.decisions import GiveAnswer, MakeOffer, MarketDecision
from medusa_core.market.estimating import (
    ObservedOffer,
    PayerEstimate,
    ProviderEstimate,
    level_for,
    level_up_to,
)
from medusa_core.market.knowledge import (
    ContractInForce,
    MarketKnowledge,
    PayerStatus,
    ProviderStatus,
    ReceivedOffer,
)
from medusa_core.market.learning import (
    after_being_answered,
    after_offering,
    after_report,
    lowest_taken,
)
from medusa_core.market.messages import Answer, LoadHeadroom, Nonce, Offer, Reason
from medusa_core.market.outcomes import Outcome, Tally
from medusa_core.market.placement import AcceptedLoad, Loads, LoadStatus, PlacedLoad
from medusa_core.market.terms import ContractName, may_name_same
from medusa_core.names import Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRound:
    """A round at `at_ms`: `knowledge` of own load then as the loop would have it, but for contracts
    and moves; and what was recorded until the next one, over `length_ms` of it (0: nothing):
    `load` in all, of which `parts` may move (loads in CPU seconds per second)."""

    at_ms: int
    knowledge: MarketKnowledge
    length_ms: int
    load: float
    parts: Loads = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "parts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partners:
    """What partners are estimated to do: providers by name, payers by contract."""

    providers: Mapping[Participant, ProviderEstimate] = field(default_factory=dict)
    payers: Mapping[ContractName, PayerEstimate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "providers")
        freeze(self, "payers")


def replay_both(
    rounds: Iterable[RecordedRound],
    before: Sequence[ContractInForce],
    after: Sequence[ContractInForce],
    partners: Partners,
) -> tuple[Outcome, Outcome]:
    """The same load under the contracts as they are and as they would be."""
    replays = Replay(before, partners), Replay(after, partners)
    for recorded in rounds:
        for each in replays:
            each.step(recorded)
    return replays[0].outcome(), replays[1].outcome()


class Replay:
    """Rounds of one participant under given contracts, one after the other."""

    def __init__(self, contracts: Sequence[ContractInForce], partners: Partners) -> None:
        self._contracts = {contract.name: contract for contract in contracts}
        self._partners = partners
        self._load_status = LoadStatus()
        self._statuses: dict[ContractName, PayerStatus] = {}
        self._smallest: dict[ContractName, float] = {}
        self._before_ms: int | None = None
        self._round = 0
        self._taken_at = inf
        self._tally = Tally(self._contracts)
        self.offers: tuple[Offer, ...] = ()
        """What was offered in the last round."""

    def step(self, recorded: RecordedRound) -> None:
        """One round, and the time until the next."""
        self._round += 1
        self._taken_at = inf
        loads = {
            (c.item.fragment, c.item.partition): c.item.load for c in recorded.knowledge.carried
        }
        self._load_status.let_go(recorded.at_ms)
        for name in self._load_status.take_back(recorded.knowledge, recorded.at_ms, loads):
            self._tally.of[name].moves_back += 1
        self._report_headroom(recorded, loads)
        self._offer(recorded, loads)
        self._answer(recorded, loads)
        if recorded.length_ms:
            self._tally.measure(
                self._load_status,
                recorded.knowledge,
                recorded.length_ms,
                recorded.load,
                recorded.parts,
            )
        self._before_ms = recorded.at_ms

    def outcome(self) -> Outcome:
        """What it came to so far."""
        return self._tally.outcome()

    # ------------------------------------------------------------ as a payer

    def _report_headroom(self, recorded: RecordedRound, loads: Loads) -> None:
        """Providers that declined something report headroom once there is some at a lower level."""
        for name, status in self._statuses.items():
            smallest = self._smallest.get(name)
            if status.last_answer is None or smallest is None:
                continue
            rooms = self._rooms(status.contract, loads, recorded.at_ms)
            rooms = tuple(room for room in rooms if room.load >= smallest)
            headroom = status.last_answer.rooms
            if rooms and (not headroom or rooms[0].level < headroom[0].level):
                answer = Answer(
                    contract=name, nonce=self._nonce(), round=self._round, accepted=(),
                    rooms=rooms, reason=Reason.FULL,
                )  # fmt: skip
                self._statuses[name] = after_report(status, answer, self._round)

    def _offer(self, recorded: RecordedRound, loads: Loads) -> None:
        """Decide what to offer; providers answer at once, and what they take is away."""
        offered_to: set[Participant] = set()
        made: list[Offer] = []
        for decision in decide_offers(self._knows(recorded, loads)):
            if not isinstance(decision, MakeOffer) or decision.to in offered_to:
                continue
            offered_to.add(decision.to)
            offer, contract = decision.offer, self._contracts[decision.offer.contract]
            made.append(offer)
            answer = self._provider(contract).answer(
                offer, contract, self._load_status.away_load(loads, to=contract.provider),
                self._load_status.away_load(loads, under=contract.name), recorded.at_ms,
            )  # fmt: skip
            status = self._payer_status(contract)
            self._statuses[contract.name] = after_being_answered(
                after_offering(status, decision), answer, self._round
            )
            is_whole = len(answer.accepted) == len(offer.items)
            self._smallest.pop(contract.name, None)
            if not is_whole:
                self._smallest[contract.name] = min(item.load for item in offer.items)
            outcome = self._tally.of[contract.name]
            for item in answer.accepted:
                price = contract.prices[offer.level]
                self._load_status.away[item.fragment, item.partition] = PlacedLoad(
                    contract, price, recorded.at_ms
                )
                outcome.moves_out += 1
            outcome.note(decision.because, sum(item.load for item in answer.accepted))
        self.offers = tuple(made)

    # ------------------------------------------------------------ as a provider

    def _answer(self, recorded: RecordedRound, loads: Loads) -> None:
        """Answer what payers offer: at the lowest price first, then for an overload at the level
        that was reported, up to the price that they were seen to offer."""
        at_ms = recorded.at_ms
        limits = recorded.knowledge.limits
        since_ms = at_ms if self._before_ms is None else self._before_ms
        until_ms = at_ms + max(limits.residence_ms, at_ms - since_ms, 1)
        waiting: dict[ContractName, tuple[ObservedOffer, int]] = {}
        for name, contract in self._contracts.items():
            observed = self._observed_offer(contract, since_ms, at_ms, until_ms)
            if observed is not None:
                waiting[name] = observed, 0
        for _ in range(2):
            offers = {n: self._offered(n, observed, at) for n, (observed, at) in waiting.items()}
            if not offers:
                return
            received = tuple(ReceivedOffer(offer, self._round) for offer in offers.values())
            answers = decide_answers(self._knows(recorded, loads, received))
            waiting = self._take(answers, waiting, until_ms)

    def _take(
        self,
        answers: Iterable[MarketDecision],
        waiting: Mapping[ContractName, tuple[ObservedOffer, int]],
        until_ms: int,
    ) -> dict[ContractName, tuple[ObservedOffer, int]]:
        """Take what was accepted; what is left, and at which level it is offered once more."""
        rest: dict[ContractName, tuple[ObservedOffer, int]] = {}
        for decision in answers:
            if not isinstance(decision, GiveAnswer):
                continue
            name, answer = decision.answer.contract, decision.answer
            contract, (observed, level) = self._contracts[name], waiting[name]
            outcome = self._tally.of[name]
            for item in answer.accepted:
                self._load_status.taken[name, (item.fragment, item.partition)] = AcceptedLoad(
                    item, contract.prices[level], until_ms
                )
                outcome.moves_in += 1
            if answer.accepted:
                self._taken_at = lowest_taken((self._taken_at, contract.prices[level]))
            outcome.note(decision.because, sum(item.load for item in answer.accepted))
            left = tuple(item for item in observed.items if item not in answer.accepted)
            higher = level_for(left, answer.rooms, level, contract, observed.price)
            if left and observed.for_overload and higher is not None:
                rest[name] = replace(observed, items=left), higher
        return rest

    def _observed_offer(
        self, contract: ContractInForce, after_ms: int, at_ms: int, until_ms: int
    ) -> ObservedOffer | None:
        """What a payer offered since the round before, and does not lie here yet; what does, stays
        for longer."""
        estimate = self._partners.payers.get(contract.name)
        observed = None if estimate is None else estimate.between(after_ms, at_ms)
        if observed is None or level_up_to(contract, observed.price) is None:
            return None
        items = []
        for item in observed.items:
            # What was offered under another contract's words is called otherwise under this one.
            if not may_name_same((item.fragment,), contract.fragments):
                continue
            key = contract.name, (item.fragment, item.partition)
            taken = self._load_status.taken.get(key)
            if taken is None:
                items.append(item)
            else:
                ends_ms = max(taken.until_ms, until_ms)
                self._load_status.taken[key] = replace(taken, until_ms=ends_ms)
        return replace(observed, items=tuple(items)) if items else None

    def _offered(self, name: ContractName, observed: ObservedOffer, level: int) -> Offer:
        return Offer(
            contract=name,
            revision=self._contracts[name].revision,
            nonce=self._nonce(),
            round=self._round,
            level=level,
            items=observed.items,
            for_overload=observed.for_overload,
        )

    # ------------------------------------------------------------ what is known, what it comes to

    def _knows(
        self, recorded: RecordedRound, loads: Loads,
        received: tuple[ReceivedOffer, ...] = (),
    ) -> MarketKnowledge:  # fmt: skip
        base = recorded.knowledge
        me = base.participant
        contracts = self._contracts.values()
        return replace(
            base,
            round=self._round,
            nonce=self._nonce(),
            load=self._load_status.load(base.load, loads),
            carried=tuple(self._load_status.marked(carried) for carried in base.carried),
            as_payer=tuple(
                replace(
                    self._payer_status(c),
                    load_there=self._load_status.away_load(loads, under=c.name),
                )
                for c in contracts
                if c.payer == me and c.relieves
            ),
            as_provider=tuple(
                ProviderStatus(contract=c, load_here=self._load_status.taken_load(c.name))
                for c in contracts
                if c.provider == me
            ),
            received=received,
            taken_at=self._taken_at,
            limits=replace(base.limits, relay_rounds=0),
        )

    def _payer_status(self, contract: ContractInForce) -> PayerStatus:
        return self._statuses.get(contract.name) or PayerStatus(contract=contract)

    def _provider(self, contract: ContractInForce) -> ProviderEstimate:
        return self._partners.providers.get(contract.provider) or ProviderEstimate()

    def _rooms(
        self, contract: ContractInForce, loads: Loads, at_ms: int
    ) -> tuple[LoadHeadroom, ...]:
        away = self._load_status.away_load(loads, to=contract.provider)
        return self._provider(contract).rooms(
            contract, away, self._load_status.away_load(loads, under=contract.name), at_ms
        )

    def _nonce(self) -> Nonce:
        return Nonce(f"{self._round:032x}")
