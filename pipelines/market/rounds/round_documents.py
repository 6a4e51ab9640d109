"""Decisions as the home records them: one document for all that is decided at once.

Offers to a partner with an open offer are left out: one is open at a time, and the next round
makes them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from medusa_core.decisions import DecisionReason
from medusa_core.market.decisions import (
    EndMove,
    GiveAnswer,
    HandOn,
    KeepOpen,
    LowerLoad,
    MakeOffer,
    MarketDecision,
    ReportHeadroom,
)
from medusa_core.market.knowledge import MarketKnowledge, ProviderStatus, ReceivedOffer
from medusa_core.market.learning import after_answering, after_reporting
from medusa_core.market.messages import Answer, Item, Reason, answer_bytes, offer_bytes
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant
from pipelines.catalog.round_store import MarketFacts
from pipelines.market.rounds.round_knowledge import can_be_weighed, received

LEARNING = (Reason.TAKEN, Reason.FULL, Reason.LOAD_MAX)
"""Answers after which it is known what a payer still wants."""


def request_of(
    facts: MarketFacts,
    knowledge: MarketKnowledge | None,
    decisions: Iterable[MarketDecision],
    *,
    decides: bool = False,
) -> dict[str, Any]:
    """What `Rounds.apply` takes; `decides`: these are the offers of the round."""
    writing = _Writing(facts, knowledge)
    for decision in decisions:
        writing.add(decision)
    return {
        "changes": facts.changes,
        "round": facts.round,
        "decides": decides,
        "offers": writing.offers,
        "answers": writing.answers,
        "leaves": writing.leaves,
        "ends": writing.ends,
        "wanted": list(writing.loads.values()),
    }


def declined_unweighed(facts: MarketFacts) -> list[GiveAnswer]:
    """Answers to offers that nothing is to be decided about; none is accepted."""
    in_force = {contract.name for contract in facts.contracts}
    decisions = []
    for waiting in received(facts):
        if can_be_weighed(waiting, facts):
            continue
        contract = waiting.offer.contract
        if waiting.is_stale:
            reason, why = Reason.STALE, "it lay here for longer than a round"
        elif contract not in in_force:
            reason, why = Reason.REVISION, "no revision of the contract is in force here"
        else:
            reason = Reason.UNWEIGHED
            why = "what load costs is not declared in the contract's currency"
        offer = ReceivedOffer(waiting.offer, waiting.round)
        decisions.append(_declined(waiting.partner, offer, facts.round, reason, why))
    return decisions


def declined_instead(refused: GiveAnswer) -> GiveAnswer:
    """What is answered where the home will not have an offer accepted."""
    why = "this home's catalog does not allow it"
    round_ = refused.answer.round
    return _declined(refused.to, refused.received, round_, Reason.TERMS, why)


def _declined(
    to: Participant, received: ReceivedOffer, round_: int, reason: Reason, why: str
) -> GiveAnswer:
    offer = received.offer
    answer = Answer(
        contract=offer.contract,
        nonce=offer.nonce,
        round=round_,
        accepted=(),
        rooms=(),
        reason=reason,
    )
    because = DecisionReason(why, {"offered": len(offer.items), "accepted": 0})
    return GiveAnswer(to=to, received=received, answer=answer, because=because)


class _Writing:
    """What is written down, decision by decision."""

    def __init__(self, facts: MarketFacts, knowledge: MarketKnowledge | None) -> None:
        self._facts = facts
        self._waiting = {waiting.partner for waiting in facts.open if waiting.is_own}
        as_provider = () if knowledge is None else knowledge.as_provider
        self._statuses = {status.contract.name: status for status in as_provider}
        self._granted = {
            _leaf(m.contract, m.item): m.move_id for m in facts.moves if m.is_given and m.is_granted
        }
        self.offers: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.leaves: list[int] = []
        self.ends: list[dict[str, Any]] = []
        self.loads: dict[str, dict[str, Any]] = {}

    def add(self, decision: MarketDecision) -> None:
        match decision:
            case MakeOffer():
                self._offer(decision)
            case GiveAnswer(to=to, answer=answer, because=because):
                self._say(to, answer, because, leaves=self._leaves(decision.hands_on))
                status = self._statuses.get(answer.contract)
                if status is not None and answer.reason in LEARNING:
                    self._learn(after_answering(status, decision.received.offer, answer))
            case ReportHeadroom(to=to, answer=answer, because=because):
                self._say(to, answer, because, is_more=True)
                self._learn(after_reporting(self._statuses[answer.contract], answer))
            case LowerLoad(leaves=leaves):
                self.leaves += [self._granted[_leaf(*leaf)] for leaf in leaves]
            case EndMove(moved=moved, because=because):
                self.ends.append({"move_id": moved.move_id, "because": str(because)})
            case KeepOpen():
                pass
            case _:
                assert_never(decision)

    def _offer(self, decision: MakeOffer) -> None:
        if decision.to in self._waiting:
            return
        self._waiting.add(decision.to)
        self.offers.append(
            {
                "body": offer_bytes(decision.offer).decode(),
                "relays": decision.relays,
                "because": str(decision.because),
            }
        )

    def _say(
        self,
        to: Participant,
        answer: Answer,
        because: DecisionReason,
        *,
        leaves: list[dict[str, Any]] | None = None,
        is_more: bool = False,
    ) -> None:
        self.answers.append(
            {
                "to": to,
                "body": answer_bytes(answer).decode(),
                "because": str(because),
                "leaves": leaves or [],
                "is_more": is_more,
            }
        )

    def _leaves(self, hands_on: Iterable[HandOn]) -> list[dict[str, Any]]:
        """Which granted moves make room for which items."""
        return [
            {
                "move_id": self._granted[_leaf(*leaf)],
                "fragment": hand_on.item.fragment,
                "partition": hand_on.item.partition,
            }
            for hand_on in hands_on
            for leaf in hand_on.leaves
        ]

    def _learn(self, status: ProviderStatus) -> None:
        request, contract = status.request, status.contract
        if request is None:
            return
        self.loads[contract.name] = {
            "contract": contract.name,
            "revision": contract.revision,
            "nonce": request.offer,
            "load": max(request.load, 0.0),
            "smallest": request.smallest,
            "for_overload": request.for_overload,
            "reported_level": request.reported_level,
        }


def _leaf(contract: ContractName, item: Item) -> tuple[ContractName, str, int]:
    return contract, item.fragment, item.partition
