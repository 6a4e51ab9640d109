"""A participant that is full takes a partner's overload and hands as much on for less."""

from __future__ import annotations

from collections import Counter

from tests.rounds.building import BETA, GAMMA, Trader, a_price, a_round, agree_on, parts

THRESHOLD = 0.8
PRICES = a_price("14", "28", "14")
"""Two levels: giving up a unit saves 17.9 a unit at the threshold and 41.7 above it."""


def loads(*traders: Trader) -> list[int]:
    """Fragments that each carries once what was agreed has moved."""
    counts = []
    for trader in traders:
        agreed = Counter(given for given, _, _, state in trader.moves() if state == "accepted")
        counts.append(len(trader.parts) + agreed[False] - agreed[True])
    return counts


def test_load_is_relayed_over_three_homes(alpha: Trader, beta: Trader, gamma: Trader) -> None:
    agree_on(alpha, beta, PRICES, "near")
    agree_on(beta, gamma, PRICES, "far")
    # A9 of the bounded-price mechanism: T + 3, T and T - 5, in units of a tenth of the threshold.
    for trader, units in ((alpha, 13), (beta, 10), (gamma, 5)):
        trader.declares(1.0, THRESHOLD)
        trader.carries(parts(units, THRESHOLD / 10))
    for _ in range(12):
        a_round(alpha, beta, gamma)
        if loads(alpha, beta, gamma) == [10, 9, 9]:
            break
    at_rest = loads(alpha, beta, gamma)
    assert at_rest == [10, 9, 9]
    relayed = beta.sql("SELECT count(*) FROM medusa_api.offers WHERE is_own AND relays")
    assert relayed[0][0] >= 1
    made_room = beta.sql(
        "SELECT g.partner, t.partner FROM medusa.agreed_move AS g "
        "JOIN medusa.agreed_move AS t ON t.move_id = g.makes_room_for"
    )
    assert set(made_room) == {(GAMMA, "alpha")}
    offers = alpha.sql("SELECT count(*) FROM medusa_api.offers")
    a_round(alpha, beta, gamma)
    assert alpha.sql("SELECT count(*) FROM medusa_api.offers") == offers, "it stops by itself"
    assert loads(alpha, beta, gamma) == at_rest
    assert {partner for _, partner, _, _ in alpha.moves()} == {BETA}
