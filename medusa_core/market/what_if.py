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
    Asked,
    PayerEstimate,
    ProviderEstimate,
    level_for,
    level_up_to,
)
from medusa_core.market.knowledge import (
    ContractInForce,
    MarketKnowledge,
    PayerStanding,
    ProviderStanding,
    Received,
)
from medusa_core.market.learning import (
    after_being_answered,
    after_being_told,
    after_offering,
    lowest_taken,
)
from medusa_core.market.messages import Answer, Nonce, Offer, Reason, Room
from medusa_core.market.outcomes import Outcome, Tally
from medusa_core.market.placement import Away, Loads, Lying, Taken
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
        self._lying = Lying()
        self._standings: dict[ContractName, PayerStanding] = {}
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
        self._lying.let_go(recorded.at_ms)
        for name in self._lying.take_back(recorded.knowledge, recorded.at_ms, loads):
            self._tally.of[name].moves_back += 1
        self._tell(recorded, loads)
        self._offer(recorded, loads)
        self._answer(recorded, loads)
        if recorded.length_ms:
            self._tally.measure(
                self._lying,
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

    def _tell(self, recorded: RecordedRound, loads: Loads) -> None:
        """Providers that declined something tell of room once there is some at a lower level."""
        for name, standing in self._standings.items():
            smallest = self._smallest.get(name)
            if standing.told is None or smallest is None:
                continue
            rooms = self._rooms(standing.contract, loads, recorded.at_ms)
            rooms = tuple(room for room in rooms if room.load >= smallest)
            told = standing.told.rooms
            if rooms and (not told or rooms[0].level < told[0].level):
                said = Answer(
                    contract=name, nonce=self._nonce(), round=self._round, accepted=(),
                    rooms=rooms, reason=Reason.FULL,
                )  # fmt: skip
                self._standings[name] = after_being_told(standing, said, self._round)

    def _offer(self, recorded: RecordedRound, loads: Loads) -> None:
        """Decide what to offer; providers answer at once, and what they take is away."""
        asked: set[Participant] = set()
        made: list[Offer] = []
        for decision in decide_offers(self._knows(recorded, loads)):
            if not isinstance(decision, MakeOffer) or decision.to in asked:
                continue
            asked.add(decision.to)
            offer, contract = decision.offer, self._contracts[decision.offer.contract]
            made.append(offer)
            answer = self._provider(contract).answer(
                offer, contract, self._lying.lies(loads, to=contract.provider),
                self._lying.lies(loads, under=contract.name), recorded.at_ms,
            )  # fmt: skip
            standing = self._standing(contract)
            self._standings[contract.name] = after_being_answered(
                after_offering(standing, decision), answer, self._round
            )
            is_whole = len(answer.accepted) == len(offer.items)
            self._smallest.pop(contract.name, None)
            if not is_whole:
                self._smallest[contract.name] = min(item.load for item in offer.items)
            outcome = self._tally.of[contract.name]
            for item in answer.accepted:
                price = contract.prices[offer.level]
                self._lying.away[item.fragment, item.partition] = Away(
                    contract, price, recorded.at_ms
                )
                outcome.moves_out += 1
            outcome.note(decision.because, sum(item.load for item in answer.accepted))
        self.offers = tuple(made)

    # ------------------------------------------------------------ as a provider

    def _answer(self, recorded: RecordedRound, loads: Loads) -> None:
        """Answer what payers offer: at the lowest price first, then for an overload at the level
        that was told, up to the price that they were seen to offer."""
        at_ms = recorded.at_ms
        limits = recorded.knowledge.limits
        since_ms = at_ms if self._before_ms is None else self._before_ms
        until_ms = at_ms + max(limits.residence_ms, at_ms - since_ms, 1)
        waiting: dict[ContractName, tuple[Asked, int]] = {}
        for name, contract in self._contracts.items():
            asked = self._asked(contract, since_ms, at_ms, until_ms)
            if asked is not None:
                waiting[name] = asked, 0
        for _ in range(2):
            offers = {n: self._offered(n, asked, at) for n, (asked, at) in waiting.items()}
            if not offers:
                return
            received = tuple(Received(offer, self._round) for offer in offers.values())
            answers = decide_answers(self._knows(recorded, loads, received))
            waiting = self._take(answers, waiting, until_ms)

    def _take(
        self, answers: Iterable[MarketDecision], waiting: Mapping[ContractName, tuple[Asked, int]],
        until_ms: int,
    ) -> dict[ContractName, tuple[Asked, int]]:  # fmt: skip
        """Take what was accepted; what is left, and at which level it is offered once more."""
        rest: dict[ContractName, tuple[Asked, int]] = {}
        for decision in answers:
            if not isinstance(decision, GiveAnswer):
                continue
            name, answer = decision.answer.contract, decision.answer
            contract, (asked, level) = self._contracts[name], waiting[name]
            outcome = self._tally.of[name]
            for item in answer.accepted:
                self._lying.taken[name, (item.fragment, item.partition)] = Taken(
                    item, contract.prices[level], until_ms
                )
                outcome.moves_in += 1
            if answer.accepted:
                self._taken_at = lowest_taken((self._taken_at, contract.prices[level]))
            outcome.note(decision.because, sum(item.load for item in answer.accepted))
            left = tuple(item for item in asked.items if item not in answer.accepted)
            higher = level_for(left, answer.rooms, level, contract, asked.price)
            if left and asked.for_overload and higher is not None:
                rest[name] = replace(asked, items=left), higher
        return rest

    def _asked(
        self, contract: ContractInForce, after_ms: int, at_ms: int, until_ms: int
    ) -> Asked | None:
        """What a payer offered since the round before, and does not lie here yet; what does, stays
        for longer."""
        estimate = self._partners.payers.get(contract.name)
        asked = None if estimate is None else estimate.between(after_ms, at_ms)
        if asked is None or level_up_to(contract, asked.price) is None:
            return None
        items = []
        for item in asked.items:
            # What was offered under another contract's words is called otherwise under this one.
            if not may_name_same((item.fragment,), contract.fragments):
                continue
            key = contract.name, (item.fragment, item.partition)
            lies = self._lying.taken.get(key)
            if lies is None:
                items.append(item)
            else:
                self._lying.taken[key] = replace(lies, until_ms=max(lies.until_ms, until_ms))
        return replace(asked, items=tuple(items)) if items else None

    def _offered(self, name: ContractName, asked: Asked, level: int) -> Offer:
        return Offer(
            contract=name, revision=self._contracts[name].revision, nonce=self._nonce(),
            round=self._round, level=level, items=asked.items, for_overload=asked.for_overload,
        )  # fmt: skip

    # ------------------------------------------------------------ what is known, what it comes to

    def _knows(
        self, recorded: RecordedRound, loads: Loads,
        received: tuple[Received, ...] = (),
    ) -> MarketKnowledge:  # fmt: skip
        base = recorded.knowledge
        me = base.participant
        contracts = self._contracts.values()
        return replace(
            base,
            round=self._round,
            nonce=self._nonce(),
            load=self._lying.load(base.load, loads),
            carried=tuple(self._lying.marked(carried) for carried in base.carried),
            as_payer=tuple(
                replace(self._standing(c), load_there=self._lying.lies(loads, under=c.name))
                for c in contracts
                if c.payer == me
            ),
            as_provider=tuple(
                ProviderStanding(contract=c, load_here=self._lying.lies_here(c.name))
                for c in contracts
                if c.provider == me
            ),
            received=received,
            taken_at=self._taken_at,
            limits=replace(base.limits, relay_rounds=0),
        )

    def _standing(self, contract: ContractInForce) -> PayerStanding:
        return self._standings.get(contract.name) or PayerStanding(contract=contract)

    def _provider(self, contract: ContractInForce) -> ProviderEstimate:
        return self._partners.providers.get(contract.provider) or ProviderEstimate()

    def _rooms(self, contract: ContractInForce, loads: Loads, at_ms: int) -> tuple[Room, ...]:
        lies = self._lying.lies(loads, to=contract.provider)
        return self._provider(contract).rooms(
            contract, lies, self._lying.lies(loads, under=contract.name), at_ms
        )

    def _nonce(self) -> Nonce:
        return Nonce(f"{self._round:032x}")
