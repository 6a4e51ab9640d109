"""Fragments of unequal size: what a provider said of one size says nothing of smaller ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medusa_core.market.costs import Queue
from medusa_core.market.decide import decide_offers
from medusa_core.market.decisions import MakeOffer
from medusa_core.market.headroom import above
from medusa_core.market.knowledge import LastAnswer, MarketKnowledge, PayerStatus
from medusa_core.market.learning import after_being_answered, after_offering, after_report
from medusa_core.market.messages import Answer, LoadHeadroom, Reason
from medusa_core.names import FragmentName
from tests.market.knowing import NONCE, a_contract, an_item, knowing, paying

LARGE, SMALL = an_item(1, 0.3), an_item(2, 0.1)


def test_what_is_above_a_price_is_counted_in_items_and_is_nothing_if_the_next_item_pays() -> None:
    cost = Queue(1.0)
    assert above(cost, 0.0, 2.0, 0.1) == 0.0
    # Of 0.5, the third item of 0.1 is the first whose place the next one can take below 2 a load.
    assert above(cost, 0.5, 2.0, 0.1) == pytest.approx(0.3)


def told(rooms: Sequence[tuple[int, float]], smallest: float, **contract: object) -> PayerStatus:
    return PayerStatus(
        contract=a_contract("b", provider="b", **contract),  # type: ignore[arg-type]
        last_answer=LastAnswer(tuple(LoadHeadroom(*room) for room in rooms), 0, smallest),
    )


def loads(knowledge: MarketKnowledge) -> list[float]:
    return [
        item.load
        for made in decide_offers(knowledge)
        if isinstance(made, MakeOffer)
        for item in made.offer.items
    ]


def test_who_has_no_room_for_a_large_fragment_is_asked_for_a_smaller_one() -> None:
    assert loads(knowing([LARGE, SMALL], background=0.5, as_payer=[told([], 0.3)])) == [0.1]


def test_who_has_none_for_the_smallest_is_asked_no_more() -> None:
    assert loads(knowing([LARGE, SMALL], background=0.5, as_payer=[told([], 0.1)])) == []


def test_who_told_of_less_room_than_any_fragment_needs_is_asked_for_the_smallest() -> None:
    status = told([(0, 0.05)], 0.05)
    assert loads(knowing([LARGE, SMALL], background=0.5, as_payer=[status])) == [0.1]


def test_only_fragments_that_may_move_are_asked_for_again() -> None:
    other = frozenset({FragmentName("another")})
    status = told([], 0.3, fragments=other)
    assert loads(knowing([LARGE, SMALL], background=0.5, as_payer=[status])) == []


def test_room_counted_in_small_fragments_is_offered_as_many_of_them_beside_a_large_one() -> None:
    items = [an_item(1, 0.3), *(an_item(number, 0.1) for number in range(2, 6))]
    status = told([(0, 0.3)], 0.1, prices=[2.0])
    knowledge = knowing(items, background=0.25, as_payer=[status])
    assert loads(knowledge) == [0.3, 0.1, 0.1, 0.1]


def test_at_a_dearer_level_a_large_one_does_not_hide_one_as_small_as_the_room_was_counted_in() -> (
    None
):
    # Either would do: it carries 0.05 more than its threshold.
    status = told([(1, 0.4)], 0.1, prices=[1.0, 2.0])
    knowledge = knowing([LARGE, SMALL], background=0.45, as_payer=[status])
    assert loads(knowledge) == [0.1]


def test_at_a_dearer_level_larger_ones_go_beside_what_is_too_little_to_end_an_overload() -> None:
    status = told([(1, 0.4)], 0.1, prices=[1.0, 2.0])
    knowledge = knowing([LARGE, SMALL], background=0.55, as_payer=[status])
    assert loads(knowledge) == [0.3, 0.1]


def test_what_was_said_is_remembered_with_the_size_that_it_was_said_of() -> None:
    status = paying("b")
    knowledge = knowing([LARGE, SMALL], background=0.55, as_payer=[status])
    (made,) = [one for one in decide_offers(knowledge) if isinstance(one, MakeOffer)]
    smallest = min(item.load for item in made.offer.items)
    answer = Answer(
        contract=made.offer.contract, nonce=NONCE, round=1, accepted=(), rooms=(),
        reason=Reason.FULL,
    )  # fmt: skip
    answered = after_being_answered(after_offering(status, made), answer, 2)
    assert answered.last_answer == LastAnswer((), 2, smallest)
    assert after_report(answered, answer, 3).last_answer == LastAnswer((), 3, smallest)
