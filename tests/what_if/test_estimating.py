"""What a partner would do is never better than what it was seen to do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.market.estimating import (
    ObservedAnswer,
    ObservedOffer,
    PayerEstimate,
    ProviderEstimate,
)
from medusa_core.market.messages import Offer, Reason
from tests.market.knowing import NONCE, REVISION, a_contract, an_item

WIDE = ObservedAnswer(at_ms=100, low=2.0, high=6.0, price=2.0, rooms=((3.0, 0.1), (5.0, 0.3)))
LATER = ObservedAnswer(at_ms=200, low=2.0, high=2.0, price=2.0)


def test_without_an_answer_nothing_is_taken() -> None:
    assert ProviderEstimate().carries(10.0, 0) == 0.0


def test_a_price_brings_what_was_said_of_it_or_of_a_lower_one() -> None:
    estimate = ProviderEstimate([WIDE])
    carried = [estimate.carries(price, 150) for price in (1.0, 2.0, 3.0, 4.0, 5.0, 9.0)]
    assert carried == [0.0, 0.0, 0.1, 0.1, 0.3, 0.3]


def test_a_word_on_another_price_takes_nothing_back() -> None:
    estimate = ProviderEstimate([LATER, WIDE])
    assert estimate.carries(5.0, 300) == 0.3
    assert estimate.carries(2.0, 300) == 0.0


def test_the_last_word_before_counts_and_before_any_the_first() -> None:
    full = ObservedAnswer(at_ms=300, low=2.0, high=6.0, price=6.0)
    estimate = ProviderEstimate([WIDE, full])
    assert [estimate.carries(5.0, at) for at in (0, 100, 299, 300)] == [0.3, 0.3, 0.3, 0.0]


def test_what_it_takes_and_what_lay_there_counts_at_its_price() -> None:
    word = ObservedAnswer(at_ms=0, low=1.0, high=3.0, price=2.0, took=0.2, rooms=((2.0, 0.1),),
                lay=((3.0, 0.4),))  # fmt: skip
    carried = [ProviderEstimate([word]).carries(price, 0) for price in (1.0, 2.0, 3.0)]
    assert carried == [0.0, 0.2 + 0.1, 0.4 + 0.2 + 0.1]


def test_room_at_a_price_at_which_nothing_was_taken_is_not_believed() -> None:
    word = ObservedAnswer(at_ms=0, low=1.0, high=3.0, price=2.0, rooms=((1.0, 0.5),))
    assert ProviderEstimate([word]).carries(2.0, 0) == 0.0
    told = ObservedAnswer(at_ms=0, low=1.0, high=3.0, price=2.0, rooms=((1.0, 0.5),), is_more=True)
    assert ProviderEstimate([told]).carries(2.0, 0) == 0.5


def test_while_it_did_not_answer_it_takes_nothing() -> None:
    silence = ObservedAnswer(at_ms=200, low=2.0, high=6.0, price=2.0, is_silence=True)
    back = ObservedAnswer(at_ms=300, low=2.0, high=6.0, price=2.0, rooms=((5.0, 0.2),))
    estimate = ProviderEstimate([WIDE, silence, back])
    assert [estimate.carries(5.0, at) for at in (150, 250, 350)] == [0.3, 0.0, 0.2]
    assert estimate.answers == 2


def test_an_answer_takes_what_fits_and_tells_what_more_by_level() -> None:
    contract = a_contract("near", (2.0, 3.0, 4.0, 5.0), payer="home", provider="near")
    items = tuple(an_item(at, 0.06) for at in range(3))
    offer = Offer(contract=contract.name, revision=REVISION, nonce=NONCE, round=1, level=1,
                  items=items, for_overload=True)  # fmt: skip
    answer = ProviderEstimate([WIDE]).answer(offer, contract, 0.0, 0.0, 150)
    assert (answer.accepted, answer.reason) == (items[:1], Reason.FULL)
    assert [(room.level, round(room.load, 9)) for room in answer.rooms] == [(1, 0.04), (3, 0.24)]
    assert ProviderEstimate([WIDE]).answer(offer, contract, 0.1, 0.1, 150).accepted == ()


def test_a_payer_offers_what_it_offered_when_it_did() -> None:
    asked = [
        ObservedOffer(at_ms=at, price=price, items=(an_item(at),), for_overload=True)
        for at, price in ((5, 2.0), (9, 3.0), (11, 3.0), (12, 1.0))
    ]
    estimate = PayerEstimate(asked)
    assert estimate.between(0, 5) is None
    assert estimate.between(0, 10) == asked[1], "the dearest"
    assert estimate.between(5, 9) == asked[0]
    assert estimate.between(5, 99) == asked[2], "the last of the dearest"
    assert estimate.between(13, 99) is None


prices = st.integers(1, 9).map(float)
loads = st.integers(0, 9).map(lambda n: n / 10)
words = st.builds(
    lambda at_ms, low, width, level, took, rooms, is_silence: ObservedAnswer(
        at_ms=at_ms, low=low, high=low + width, price=low + min(level, width), took=took,
        rooms=tuple(sorted(rooms.items())), is_silence=is_silence,
    ),
    at_ms=st.integers(0, 20), low=prices, width=st.integers(0, 5), level=st.integers(0, 5),
    took=loads, rooms=st.dictionaries(prices, loads, max_size=3), is_silence=st.booleans(),
)  # fmt: skip


@given(st.lists(words, max_size=6), prices, st.integers(0, 25))
def test_it_is_never_better_than_the_best_that_was_said_at_that_price_or_below(
    said: list[ObservedAnswer], price: float, at_ms: int
) -> None:
    seen = [
        (w.took if w.price <= price else 0.0)
        + max((load for at, load in w.rooms if at <= price), default=0.0)
        for w in said
        if not w.is_silence and w.low <= price
    ]
    assert ProviderEstimate(said).carries(price, at_ms) <= max(seen, default=0.0)
