"""Rounds for people and programs: decisions with their reasons, and the market's status here.

The report is for the owner: reasons hold marginal costs and loads, which no partner sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from medusa_core.market.decisions import (
    EndMove,
    GiveAnswer,
    KeepOpen,
    LowerLoad,
    MakeOffer,
    MarketDecision,
    ReportHeadroom,
    explain,
)
from medusa_core.market.knowledge import ContractInForce
from medusa_core.market.messages import Item
from medusa_core.market.moves import MoveState
from medusa_core.names import Participant
from pipelines.catalog.move_store import MoveStatus
from pipelines.catalog.round_store import AnswerRecord, MarketFacts, Rounds


def decision_documents(decisions: Iterable[MarketDecision]) -> list[dict[str, Any]]:
    """Decisions with their reasons, as data."""
    return [_decision(decision) for decision in decisions]


def decision_lines(decisions: Iterable[MarketDecision]) -> list[str]:
    """Decisions with their reasons, a line each, and under it what they are about."""
    lines = []
    for decision in decisions:
        because = decision.because
        numbers = ", ".join(f"{name} {value:.6g}" for name, value in because.numbers.items())
        lines.append(f"{_what(decision)}: {because.reason}" + (f" ({numbers})" if numbers else ""))
        lines += [f"  {_item(item)}" for item in _items(decision)]
    return lines


def market_facts(rounds: Rounds, moves: Iterable[MoveStatus] = ()) -> Mapping[str, Any] | None:
    """The round, what is open, agreed moves, moves that have not ended, and how each contract
    stands; None where there is neither a contract nor anything open."""
    facts = rounds.read()
    if not (facts.contracts or facts.open or facts.moves):
        return None
    answers = rounds.last_answers()
    opened_ms = facts.opened_at_ms
    return {
        "round": facts.round,
        "opened_ago_ms": None if opened_ms is None else facts.clock_ms - opened_ms,
        "round_ms": facts.trading.round_ms,
        "offers_open": [
            {
                "is_own": waiting.is_own,
                "partner": waiting.partner,
                "contract": waiting.offer.contract,
                "level": waiting.offer.level,
                "items": len(waiting.offer.items),
                "load": waiting.offer.load,
                "expires_in_ms": waiting.expires_at_ms - facts.clock_ms,
            }
            for waiting in facts.open
        ],
        "agreed_moves": [
            {
                "is_given": move.is_given,
                "partner": move.partner,
                "contract": move.contract,
                "fragment": move.item.fragment,
                "partition": move.item.partition,
                "load": move.item.load,
                "level": move.level,
                "is_granted": move.is_granted,
                "expires_in_ms": move.expires_at_ms - facts.clock_ms,
            }
            for move in facts.moves
        ],
        "moves": [
            {
                "number": move.number,
                "is_given": move.is_given,
                "partner": move.partner,
                "contract": move.contract,
                "fragment": move.fragment,
                "state": move.state.value,
                "because": move.reason,
                "changed_ago_ms": facts.clock_ms - move.changed_at_ms,
            }
            for move in moves
            if move.state is not MoveState.ENDED
        ],
        "contracts": [_contract(contract, facts, answers) for contract in facts.contracts],
    }


def _contract(
    contract: ContractInForce, facts: MarketFacts, answers: Iterable[AnswerRecord]
) -> dict[str, Any]:
    pays = contract.payer == facts.participant
    partner: Participant = contract.provider if pays else contract.payer
    last = next((s for s in answers if s.contract == contract.name and s.is_own != pays), None)
    silence = facts.silent.get(partner)
    return {
        "contract": contract.name,
        "pays": pays,
        "partner": partner,
        "prices": list(contract.prices),
        "currency": facts.currencies[contract.name],
        "level": None if last is None else last.level,
        "price": None if last is None else last.price,
        "last_answer": None if last is None else last.reason,
        "accepted": None if last is None else last.accepted,
        "answered_ago_ms": None if last is None else facts.clock_ms - last.made_at_ms,
        "silent_ms": None if silence is None else facts.clock_ms - silence.since_ms,
    }


def _decision(decision: MarketDecision) -> dict[str, Any]:
    return {
        "what": _what(decision),
        "because": decision.because.reason,
        "numbers": dict(decision.because.numbers),
        "items": [
            {"fragment": item.fragment, "partition": item.partition, "load": item.load}
            for item in _items(decision)
        ],
    }


def _what(decision: MarketDecision) -> str:
    (line,) = explain([decision])
    return line.split(":", 1)[0]


def _items(decision: MarketDecision) -> tuple[Item, ...]:
    match decision:
        case MakeOffer():
            return decision.offer.items
        case GiveAnswer():
            return decision.answer.accepted
        case KeepOpen():
            return decision.received.offer.items
        case LowerLoad():
            return tuple(item for _, item in decision.leaves)
        case EndMove():
            return (decision.moved.item,)
        case ReportHeadroom():
            return ()


def _item(item: Item) -> str:
    partition = f", partition {item.partition}" if item.partition else ""
    return f"{item.fragment}{partition}: load {item.load:g}"
