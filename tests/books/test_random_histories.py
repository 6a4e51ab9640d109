"""Random histories of a seller and a buyer: rows, revisions, lost time; both owe the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal

import pytest

from medusa_core.names import Participant
from tests.agreements.building import ALPHA, BETA
from tests.books.test_guards import TRIM
from tests.books.trade import A_DAY, Trade, at_us
from tests.sweeps import examples

QUARTER = A_DAY // 4
QUARTERS = 8
PRICE = Decimal("0.002")

Event = tuple[str, int, dict[int, int]]


def history(chance: random.Random) -> Iterator[Event]:
    """What the seller's stream becomes: quarters of days, and revisions of earlier ones."""
    for quarter in range(QUARTERS):
        yield "rows", quarter, some_rows(chance, quarter)
        while chance.random() < 0.3:
            revised = chance.randrange(max(0, quarter - 3), quarter + 1)
            yield "revise", revised, some_rows(chance, revised)


def some_rows(chance: random.Random, quarter: int) -> dict[int, int]:
    begins = quarter * QUARTER
    buckets = chance.sample(range(begins, begins + QUARTER), chance.randrange(4))
    return {bucket: chance.randrange(1, 1_000) for bucket in buckets}


def happen(trade: Trade, home: Participant, event: Event) -> None:
    kind, quarter, rows = event
    part = (quarter * QUARTER, (quarter + 1) * QUARTER)
    if kind == "rows":
        trade.rows(*part, rows, homes=(home,))
    else:
        trade.revise(*part, rows, homes=(home,))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(examples(2, 40)))
def test_both_homes_owe_the_price_of_what_is_final_in_the_end(trade: Trade, seed: int) -> None:
    chance = random.Random(seed)
    trade.agree()
    events = [*history(chance)]
    at = {ALPHA: 0, BETA: 0}
    while min(at.values()) < len(events):
        # The buyer imports in the seller's order, and later than the seller.
        home = chance.choice((ALPHA, BETA))
        if at[home] < (len(events) if home == BETA else at[BETA]):
            happen(trade, home, events[at[home]])
            at[home] += 1
        party = trade.alpha if chance.random() < 0.5 else trade.beta
        if chance.random() < 0.3:
            trade.look(party)
        if chance.random() < 0.2:
            trade.exchange()
        trade.check_books()
    trade.rows(QUARTERS * QUARTER, QUARTERS * QUARTER + A_DAY, {})
    trade.settle()
    trade.settle()
    final = {quarter: rows for _, quarter, rows in events}
    owed = sum(sum(rows.values()) for rows in final.values()) * PRICE
    states = [(bill[0], bill[2]) for bill in trade.bills(trade.beta)]
    assert not [one for one in states if one[1] not in ("settled", "nothing owed")], states
    assert trade.accounts(trade.beta).get("partner", 0) == owed
    assert trade.accounts(trade.alpha).get("partner", 0) == -owed
    trade.check_books()
    for party in (trade.alpha, trade.beta):
        ((answer,),) = party.sql(TRIM, at_us(QUARTERS * QUARTER), role="job")
        assert answer["trimmed_us"] == at_us(QUARTERS * QUARTER)
        assert not party.told
