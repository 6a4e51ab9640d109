"""A participant that is full passes a partner's overload on for less than it is paid."""

from __future__ import annotations

from collections import Counter

import pytest

from medusa_core.decisions import DecisionReason
from medusa_core.errors import Conflict
from medusa_core.market.decisions import LowerLoad
from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.market.terms import PriceRange
from pipelines.catalog.round_store import AgreedMove
from pipelines.market.rounds.round_documents import request_of
from tests.rounds.building import (
    BETA,
    GAMMA,
    Trader,
    a_price,
    a_round,
    agree_on,
    parts,
    until_quiet,
)

THRESHOLD = 0.8
ROUNDS_MAX = 12


def loads(*traders: Trader) -> list[int]:
    """Fragments that each carries once what was agreed has moved."""
    counts = []
    for trader in traders:
        agreed = Counter(given for given, _, _, state in trader.moves() if state == "accepted")
        counts.append(len(trader.parts) + agreed[False] - agreed[True])
    return counts


def rounds_to(wanted: list[int], prices: PriceRange, chain: tuple[Trader, ...]) -> None:
    """A9 of the bounded-price mechanism: T + 3, T and T - 5, in units of a tenth of the threshold.

    Giving up a unit saves 17.9 a unit at the threshold and 41.7 above it; one more than half of the
    threshold costs 3.2. Rounds until what is wanted, and one more in which nothing moves.
    """
    alpha, beta, gamma = chain
    agree_on(alpha, beta, prices, "near")
    agree_on(beta, gamma, prices, "far")
    for trader, units in zip(chain, (13, 10, 5), strict=True):
        trader.declares(1.0, THRESHOLD)
        trader.carries(parts(units, THRESHOLD / 10))
    for _ in range(ROUNDS_MAX):
        a_round(*chain)
        if loads(*chain) == wanted:
            break
    assert loads(*chain) == wanted
    a_round(*chain)
    assert loads(*chain) == wanted, "it stops by itself"
    assert {partner for _, partner, _, _ in alpha.moves()} == {BETA}


@pytest.fixture
def chain(alpha: Trader, beta: Trader, gamma: Trader) -> tuple[Trader, ...]:
    """Alpha may hand load to beta, and beta to gamma."""
    return alpha, beta, gamma


@pytest.mark.long(quick=True)
def test_load_flows_over_a_full_home_to_a_third(chain: tuple[Trader, ...]) -> None:
    rounds_to([10, 9, 9], a_price("14", "28", "14"), chain)


@pytest.mark.long
def test_a_full_home_hands_on_for_a_partner_what_it_would_not_for_itself(
    chain: tuple[Trader, ...],
) -> None:
    # Who was asked in an overload makes some room for its own part and keeps it, as long as that
    # pays by itself (rule 4 of offering): of the four that beta gives for alpha's three, two are
    # handed on for alpha.
    rounds_to([10, 9, 9], a_price("2", "28", "13"), chain)
    _, beta, _ = chain
    handed_on = beta.sql(
        "SELECT g.partner, g.level, t.partner, t.level FROM medusa_market.agreed_move AS g "
        "JOIN medusa_market.agreed_move AS t ON t.move_id = g.makes_room_for"
    )
    assert handed_on == [(GAMMA, 1, "alpha", 2)] * 2


def granted_in_a_round(chain: tuple[Trader, ...]) -> list[AgreedMove]:
    """What gamma accepts of beta on behalf of alpha, as beta hears it; else the round goes on."""
    _, beta, gamma = chain
    for trader in chain:
        trader.opens()
    gamma.answers()
    beta.party.contract_sync.tick()
    for envelope in beta.party.agreements.verified(EnvelopeKind.ANSWER, 10):
        beta.rounds.take_answer(envelope.envelope_id)
    granted = [move for move in beta.rounds.read().moves if move.is_granted]
    if not granted:
        until_quiet(*chain)
    return granted


@pytest.mark.long(quick=True)
def test_what_was_granted_for_a_relay_may_leave_before_anything_is_taken_for_it(
    chain: tuple[Trader, ...],
) -> None:
    alpha, beta, gamma = chain
    prices = a_price("2", "28", "13")
    agree_on(alpha, beta, prices, "near")
    agree_on(beta, gamma, prices, "far")
    for trader, units in zip(chain, (13, 10, 5), strict=True):
        trader.declares(1.0, THRESHOLD)
        trader.carries(parts(units, THRESHOLD / 10))
    granted = next(moves for _ in range(ROUNDS_MAX) if (moves := granted_in_a_round(chain)))
    facts = beta.rounds.read()
    leaf = (granted[0].contract, granted[0].item)
    request = request_of(
        facts, None, [LowerLoad(leaves=(leaf,), because=DecisionReason("it pays", {}))]
    )
    beta.rounds.apply(request)
    states = {move.move_id: move.is_granted for move in beta.rounds.read().moves}
    assert [states[move.move_id] for move in granted] == [False] + [True] * (len(granted) - 1)
    with pytest.raises(Conflict):
        beta.rounds.apply({**request, "changes": beta.rounds.read().changes})
