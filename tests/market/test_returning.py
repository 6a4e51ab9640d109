"""Moves end where they do not pay any more, and nowhere else: nothing moves to and fro."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.market.costs import Queue
from medusa_core.market.decide import decide_offers
from medusa_core.market.decisions import EndMove
from medusa_core.market.knowledge import MarketKnowledge, MarketLimits, MovedLoad
from medusa_core.market.messages import Item
from medusa_core.market.returning import decide_returns
from medusa_core.market.terms import ContractName
from medusa_core.names import FragmentName
from tests.market.knowing import an_item, an_offer, knowing, paying
from tests.sweeps import examples

RESIDENCE_MS = 1_000
LIMITS = MarketLimits(dead_band=0.01, residence_ms=RESIDENCE_MS)


def moved(
    load: float, price: float, *, is_given: bool, name: str = "f", since_ms: int = 0
) -> MovedLoad:
    item = Item(FragmentName(name), 0, load)
    return MovedLoad(7, is_given, ContractName("loan"), item, price, since_ms)


def carrying(load: float, *moves: MovedLoad, clock_ms: int = RESIDENCE_MS) -> MarketKnowledge:
    known = knowing([], background=load, clock_ms=clock_ms, limits=LIMITS)
    return replace(known, moved=moves)


def ended(decisions: list[EndMove]) -> list[str]:
    return [decision.moved.item.fragment for decision in decisions]


def test_a_payer_takes_back_what_costs_less_at_home_than_its_price() -> None:
    # From load 0.2 to 0.3 the cost 0.25 rises to 0.4286: 1.786 a unit.
    assert ended(decide_returns(carrying(0.2, moved(0.1, 1.82, is_given=True)))) == ["f"]
    assert decide_returns(carrying(0.2, moved(0.1, 1.79, is_given=True))) == []
    (ends,) = decide_returns(carrying(0.2, moved(0.1, 2.0, is_given=True)))
    assert ends.because.numbers == pytest.approx(
        {"load": 0.2, "threshold": 0.8, "of_it": 0.1, "cost": 0.178571, "price": 0.2}, rel=1e-4
    )
    assert str(ends.because).startswith("it costs less here than its price")


def test_a_payer_takes_the_dearest_back_first_and_never_over_its_threshold() -> None:
    moves = [moved(0.3, price, is_given=True, name=f"f{price:g}") for price in (50, 100, 75)]
    assert ended(decide_returns(carrying(0.25, *moves))) == ["f100"]
    assert ended(decide_returns(carrying(0.1, *moves))) == ["f100", "f75"]
    assert decide_returns(carrying(0.6, *moves)) == []


def test_a_provider_gives_back_what_costs_a_tenth_more_than_its_price() -> None:
    # From load 0.4 to 0.5 the cost 0.6667 rises to 1: 3.333 a unit.
    assert ended(decide_returns(carrying(0.5, moved(0.1, 3.0, is_given=False)))) == ["f"]
    assert decide_returns(carrying(0.5, moved(0.1, 3.04, is_given=False))) == []


def test_an_overloaded_provider_gives_back_until_it_is_not_whatever_is_paid() -> None:
    moves = [moved(0.1, 1e9 + at, is_given=False, name=f"f{at}") for at in range(4)]
    (first, second) = decide_returns(carrying(1.05, *moves))
    assert ended([first, second]) == ["f0", "f1"]
    assert first.because.reason == "this participant is overloaded"
    assert decide_returns(carrying(0.87, *moves)) == [], "it is metered with some noise"


def test_what_has_no_load_relieves_nobody_and_stays() -> None:
    quiet = moved(0.0, 0.0, is_given=False, name="quiet")
    busy = moved(0.3, 5.0, is_given=False, name="busy")
    assert ended(decide_returns(carrying(0.95, quiet, busy))) == ["busy"]


def test_what_is_given_back_is_not_taken_back_in_the_same_round() -> None:
    both = [moved(0.1, 9, is_given=True, name="mine"), moved(0.3, 0.1, is_given=False)]
    assert ended(decide_returns(carrying(0.5, *both))) == ["f"]


def test_nothing_returns_before_the_residence_is_over() -> None:
    for is_given, price in ((True, 1e6), (False, 0.0)):
        known = carrying(0.3, moved(0.1, price, is_given=is_given), clock_ms=RESIDENCE_MS - 1)
        assert decide_returns(known) == []
        assert ended(decide_returns(replace(known, clock_ms=RESIDENCE_MS))) == ["f"]


def test_no_move_ends_in_a_round_in_which_load_is_offered() -> None:
    give = moved(0.1, 0.1, is_given=False)
    items = [an_item(at, 0.1) for at in range(7)]
    offering = replace(
        knowing(items, as_payer=[paying("cheap", (1.0,))], clock_ms=RESIDENCE_MS, limits=LIMITS),
        moved=(give,),
    )
    assert not any(isinstance(one, EndMove) for one in decide_offers(offering))
    take = moved(0.1, 1e6, is_given=True, name="mine")
    waiting = replace(carrying(0.5, take), received=(an_offer("loan", items),))
    assert not any(isinstance(one, EndMove) for one in decide_offers(waiting))
    # However many offers a partner makes, what costs too much is given back.
    waiting = replace(carrying(0.5, give), received=(an_offer("loan", items),))
    assert ended([one for one in decide_offers(waiting) if isinstance(one, EndMove)]) == ["f"]
    alone = replace(offering, as_payer=())
    assert ended([one for one in decide_offers(alone) if isinstance(one, EndMove)]) == ["f"]


@settings(max_examples=examples(200, 5_000), deadline=None)
@given(
    load=st.floats(0.01, 0.95), own=st.floats(0.001, 0.5), price=st.floats(0.01, 100),
    band=st.floats(0, 0.2), threshold=st.floats(0.1, 0.95),
)  # fmt: skip
def test_what_has_just_paid_to_hand_over_or_to_take_does_not_return(
    load: float, own: float, price: float, band: float, threshold: float
) -> None:
    limits = MarketLimits(dead_band=band, residence_ms=0)
    cost = Queue(1.0).cost
    saved = cost(load + own) - cost(load)
    if saved > price * (1 + band) * own:  # a payer hands it over for that
        given_ = knowing([], background=load, threshold=threshold, limits=limits)
        known = replace(given_, moved=(moved(own, price, is_given=True),))
        assert decide_returns(known) == []
    if saved < price * (1 - band) * own and load + own <= threshold:  # a provider takes it so
        taken = knowing([], background=load + own, threshold=threshold, limits=limits)
        known = replace(taken, moved=(moved(own, price, is_given=False),))
        assert decide_returns(known) == []
