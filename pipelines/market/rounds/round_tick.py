"""A participant's market tick, run in the background of its loop: open a round, offer, answer.

Numbered, and the same numbers are in the code:

1. expire lapsed offers and moves, so that they are not sent any more
2. synchronise contracts: documents are exchanged, envelopes received and verified, waiting ones
   sent; then definitions of buyers are begun, and ended with their contracts, fragments move as
   rounds have agreed, and what streams are sold for is counted, stated and answered
3. open the round, if `round_ms` have passed since the last one of this home
4. process partners' messages: answers, then offers; a wrong one is refused with the reason
5. in a round that has not been decided yet: decide what to offer and which moves end, record it
6. decide the answer to each waiting offer, and what to relay for it; record it
7. send

A round is this home's own and waits for no partner's. All state is stored in the home, so that a
tick may be cut short anywhere; a decision made by two processes at once is recorded once, and the
other process decides again from the new state. A refusal of the home is reported, and holds up
nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from medusa_core.errors import Conflict, Refused
from medusa_core.market.decide import decide_answers, decide_offers
from medusa_core.market.decisions import GiveAnswer, KeepOpen, MarketDecision
from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.market.knowledge import MarketKnowledge
from medusa_core.market.messages import Answer, Item, Nonce, answer_from, offer_from
from medusa_core.market.relaying import offers_on
from medusa_core.market.shedding import handed_over
from medusa_core.market.terms import OriginStream
from pipelines.base.failpoints import reached
from pipelines.catalog.agreement_store import Received, RoundEnvelopes
from pipelines.catalog.round_store import MarketFacts, Rounds
from pipelines.market.rounds.fragment_names import Naming, naming_of
from pipelines.market.rounds.round_documents import declined_instead, declined_unweighed, request_of
from pipelines.market.rounds.round_knowledge import (
    knowledge_of,
    metered_fragments,
    own_offer,
    received,
)
from pipelines.market.sync.contract_sync import SyncResult

ENVELOPES_MAX = 128
TRIES = 4
"""How often a decision that others have overtaken is made again."""

DUE = "the time has passed"


@dataclass(frozen=True, slots=True)
class MarketTick:
    """What a tick did; `opened` is the number of the round that it opened, if any."""

    opened: int | None = None
    taken: int = 0
    refused: int = 0
    decisions: tuple[MarketDecision, ...] = ()
    agreements: SyncResult = field(default_factory=SyncResult)

    @property
    def is_idle(self) -> bool:
        """Whether nothing moved."""
        has_decided = any(not isinstance(decision, KeepOpen) for decision in self.decisions)
        return self.agreements.is_idle and not (
            self.opened or self.taken or self.refused or has_decided
        )

    @property
    def waiting(self) -> int:
        """How much could not be sent yet."""
        return self.agreements.waiting


Movable = Callable[[Iterable[str]], Mapping[str, frozenset[OriginStream]]]
"""Fragment -> the streams of other participants that it reads."""


class ContractSyncPort(Protocol):
    """Takes partners' messages about contracts, and delivers this home's: `ContractSync`."""

    def tick(self) -> SyncResult: ...


class MarketWorker:
    """Trades for a participant; `on_error` receives refusals.

    `settles` definitions of buyers, moves and bills, and returns how many changed. `movable`
    returns those of some fragments that can be handed over, and what they read of other
    participants: others are not offered, nor are they under a contract that does not let that be
    read.
    """

    def __init__(
        self,
        contract_sync: ContractSyncPort,
        agreements: RoundEnvelopes,
        rounds: Rounds,
        on_error: Callable[[Exception], None] = lambda error: None,
        *,
        draw_nonce: Callable[[], str] = lambda: secrets.token_hex(16),
        settles: Callable[[], int] = lambda: 0,
        movable: Movable = lambda fragments: dict.fromkeys(fragments, frozenset()),
    ) -> None:
        self._contract_sync = contract_sync
        self._settles = settles
        self._agreements = agreements
        self._rounds = rounds
        self._on_error = on_error
        self._draw_nonce = draw_nonce
        self._movable = movable
        self._naming: tuple[object, Naming] | None = None
        self._kept: tuple[int, int] | None = None

    def tick(self, *, opens: str | None = None) -> MarketTick:
        """Do what is to be done now; `opens`: why a round is opened in any case.

        Raises Unavailable if this home is away, Conflict if others were faster again and again.
        """
        waits = self._rounds.waits()
        if waits:
            self._rounds.expire()  # 1
        agreements = self._contract_sync.tick()  # 2
        if self._settles():
            agreements = _both(agreements, self._contract_sync.tick())
        if not (waits or opens) and (agreements.is_idle or not self._rounds.waits()):
            return MarketTick(agreements=agreements)
        opened = self._open(opens)  # 3
        if opened is not None:
            self._rounds.expire()  # what was granted in the round before has lapsed
        reached("round.opened")
        taken, refused = self._take()  # 4
        decisions = [*self._offer(), *self._answer()]  # 5, 6
        if decisions:
            sent = self._contract_sync.tick()  # 7
            agreements = _both(agreements, sent)
            reached("round.sent")
        return MarketTick(opened, taken, refused, tuple(decisions), agreements)

    def explain(self) -> tuple[MarketFacts, list[MarketDecision]]:
        """What would be offered in a round that began now, and answered to what waits; nothing is
        changed."""
        facts, knowledge = self._read()
        if knowledge is None:
            return facts, [*declined_unweighed(facts)]
        return facts, [
            *decide_offers(knowledge),
            *declined_unweighed(facts),
            *decide_answers(knowledge),
        ]

    def facts(self) -> MarketFacts:
        """What the home knows of the market now."""
        return self._rounds.read()

    def _open(self, opens: str | None) -> int | None:
        if opens is not None:
            return self._agreements.open_round(0, opens)
        if not self._rounds.is_due():
            return None  # also where nothing is agreed: a round would be a row a minute for nothing
        return self._agreements.open_round(self._rounds.read().trading.round_ms, DUE)

    # ------------------------------------------------------------ partners' messages

    def _take(self) -> tuple[int, int]:
        taken = refused = 0
        for kind in (EnvelopeKind.ANSWER, EnvelopeKind.OFFER):
            for envelope in self._agreements.verified(kind, ENVELOPES_MAX):
                try:
                    self._take_one(envelope)
                    taken += 1
                except Refused as error:
                    self._agreements.refuse(envelope.envelope_id, str(error))
                    sender = envelope.envelope.sender
                    self._on_error(Refused(f"an {kind.value} of {sender} is refused: {error}"))
                    refused += 1
                except Conflict:
                    # Another process has taken it, or the market has changed: the next tick
                    # looks again.
                    continue
                reached("round.taken")
        return taken, refused

    def _take_one(self, envelope: Received) -> None:
        body = envelope.envelope.body
        if envelope.envelope.kind is EnvelopeKind.ANSWER:
            keeps, judged_at = self._kept_of(answer_from(body))
            self._rounds.take_answer(envelope.envelope_id, keeps, judged_at)
        else:
            offer_from(body)
            self._rounds.take_offer(envelope.envelope_id)

    def _kept_of(self, answer: Answer) -> tuple[tuple[Item, ...] | None, int | None]:
        """What is given of what a provider accepts, judged from which changes: all of an offer of
        this round or on behalf of others, of an older one what still pays."""
        if not answer.accepted:
            return None, None
        facts, knowledge = self._read()
        made = own_offer(facts, answer)
        if made is None or made.relays or made.offer.round >= facts.round or knowledge is None:
            return None, None
        if all(status.contract.name != answer.contract for status in knowledge.as_payer):
            return None, None
        return handed_over(knowledge, made.offer, answer.accepted), facts.changes

    # ------------------------------------------------------------ deciding

    def _offer(self) -> list[MarketDecision]:
        """The offers of a round, once."""

        def decide(facts: MarketFacts, knowledge: MarketKnowledge | None) -> list[MarketDecision]:
            return [] if knowledge is None else decide_offers(knowledge)

        return self._decided(lambda facts: facts.decided_round < facts.round, decide, decides=True)

    def _answer(self) -> list[MarketDecision]:
        """Answer each offer that waits, or offer its load to others first."""

        def waits(facts: MarketFacts) -> bool:
            return bool(received(facts)) and self._kept != (facts.changes, facts.round)

        def decide(facts: MarketFacts, knowledge: MarketKnowledge | None) -> list[MarketDecision]:
            answers: list[MarketDecision] = [*declined_unweighed(facts)]
            return answers if knowledge is None else [*answers, *decide_answers(knowledge)]

        def ask_on(facts: MarketFacts, knowledge: MarketKnowledge | None) -> list[MarketDecision]:
            return [] if knowledge is None else [*offers_on(knowledge)]

        answers = self._decided(waits, decide)
        if not any(isinstance(decision, KeepOpen) for decision in answers):
            return answers
        # Who keeps an offer open asks on at once: its payer waits for no more than a round.
        reports = self._decided(lambda facts: bool(received(facts)), ask_on)
        facts = self._rounds.read()
        self._kept = (facts.changes, facts.round)
        return [*answers, *reports]

    def _decided(
        self,
        is_due: Callable[[MarketFacts], bool],
        decide: Callable[[MarketFacts, MarketKnowledge | None], list[MarketDecision]],
        *,
        decides: bool = False,
    ) -> list[MarketDecision]:
        """Read, decide and write down; again, if others wrote something meanwhile."""
        for tried in range(TRIES):
            facts, knowledge = self._read()
            if not is_due(facts):
                return []
            decisions = decide(facts, knowledge)
            reached("round.decided")
            request = request_of(facts, knowledge, decisions, decides=decides)
            writes = ("offers", "answers", "leaves", "ends")
            if not (decides or any(request[of] for of in writes)):
                return decisions
            try:
                try:
                    self._rounds.apply(request)
                except Refused:
                    decisions = self._each_alone(facts, knowledge, decisions, decides=decides)
            except Conflict:
                if tried + 1 == TRIES:
                    raise
                continue
            reached("round.applied")
            return decisions
        raise AssertionError("unreachable")

    def _each_alone(
        self,
        facts: MarketFacts,
        knowledge: MarketKnowledge | None,
        decisions: Iterable[MarketDecision],
        *,
        decides: bool,
    ) -> list[MarketDecision]:
        """Write down one by one what the home has refused as a whole: one offer that it will not
        have must not keep the others unanswered. What was written."""
        made: list[MarketDecision] = []

        def is_written(one: MarketDecision) -> bool:
            try:
                self._apply_at(facts.changes + len(made), facts, knowledge, [one], decides=False)
            except Refused as error:
                self._on_error(error)
                return False
            made.append(one)
            return True

        for decision in decisions:
            if isinstance(decision, KeepOpen) or is_written(decision):
                continue
            if isinstance(decision, GiveAnswer) and decision.answer.accepted:
                is_written(declined_instead(decision))
        if decides:
            self._apply_at(facts.changes + len(made), facts, knowledge, [], decides=True)
        return made

    def _apply_at(
        self,
        changes: int,
        facts: MarketFacts,
        knowledge: MarketKnowledge | None,
        decisions: Iterable[MarketDecision],
        *,
        decides: bool,
    ) -> None:
        """Write down some of what was decided, if nothing but the rest of it was since."""
        request = request_of(facts, knowledge, decisions, decides=decides)
        self._rounds.apply(request | {"changes": changes})

    def _read(self) -> tuple[MarketFacts, MarketKnowledge | None]:
        facts = self._rounds.read()
        naming = self._naming_of(facts)
        return facts, knowledge_of(facts, Nonce(self._draw_nonce()), naming)

    def _naming_of(self, facts: MarketFacts) -> Naming:
        """The names of fragments that may be offered; found once in a round for the same ones."""
        parts = frozenset(metered_fragments(facts))
        known = facts.round, parts, facts.contracts
        if self._naming is None or self._naming[0] != known:
            naming = naming_of(parts, facts.contracts, facts.participant)
            self._naming = known, naming.of_movable(self._movable(naming.names))
        return self._naming[1]


def _both(first: SyncResult, second: SyncResult) -> SyncResult:
    """Two results as one; what waits is what waits after the second tick."""
    return SyncResult(
        expired=first.expired + second.expired,
        taken=first.taken + second.taken,
        refused=first.refused + second.refused,
        signed=first.signed + second.signed,
        sent=first.sent + second.sent,
        waiting=second.waiting,
    )
