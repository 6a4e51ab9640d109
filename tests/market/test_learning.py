"""What a participant makes of an answer: whom it believes to have room, and whom it asks again."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from medusa_core.market.learning import (
    PASSED_ROUNDS,
    after_answering,
    is_passed_over,
    last_answer_from,
    lowest_taken,
)
from medusa_core.market.messages import Answer, LoadHeadroom, Reason
from medusa_core.market.terms import ContractName
from tests.market.knowing import NONCE, an_item, an_offer, providing

ROOMS = (LoadHeadroom(0, 0.5), LoadHeadroom(2, 1.5))


def an_answer(reason: Reason = Reason.FULL, *, accepts: bool = False) -> Answer:
    return Answer(
        contract=ContractName("b"),
        nonce=NONCE,
        round=3,
        accepted=(an_item(1),) if accepts else (),
        rooms=ROOMS,
        reason=reason,
    )


def rooms(answer: Answer, level: int | None) -> tuple[LoadHeadroom, ...]:
    told = last_answer_from(answer, 3, level, 0.1)
    assert told is not None
    return told.rooms


def test_who_takes_nothing_at_a_price_is_not_believed_to_have_room_at_it() -> None:
    assert rooms(an_answer(), 0) == ROOMS[1:]
    assert rooms(an_answer(), 2) == ()
    assert rooms(an_answer(accepts=True), 0) == ROOMS
    assert rooms(an_answer(), None) == ROOMS, "word of room answers no offer"


def test_an_answer_that_was_not_weighed_says_nothing_of_room() -> None:
    for reason in (Reason.UNWEIGHED, Reason.REVISION, Reason.STALE):
        assert last_answer_from(an_answer(reason), 3, 0, 0.1) is None
    passed = an_answer(Reason.UNWEIGHED)
    assert is_passed_over(passed, 3, 3 + PASSED_ROUNDS - 1)
    assert not is_passed_over(passed, 3, 3 + PASSED_ROUNDS)
    assert not is_passed_over(an_answer(), 3, 4)


def test_the_lowest_price_of_a_round_bounds_what_comes_on_top() -> None:
    assert lowest_taken([]) == inf
    assert lowest_taken([inf, 3.0, 2.0]) == 2.0


def test_what_a_payer_still_wants_is_halved_only_when_it_was_told_of_room_in_vain() -> None:
    offer = an_offer("b", [an_item(number, 0.1) for number in range(4)]).offer
    declined, taken = an_answer(), an_answer(accepts=True)
    first = after_answering(providing("b"), offer, declined).request
    assert first is not None
    assert (first.load, first.smallest) == (pytest.approx(0.4), pytest.approx(0.1))
    again = replace(providing("b"), request=first)
    in_vain = after_answering(again, offer, declined).request
    assert in_vain is not None
    assert in_vain.load == pytest.approx(0.2)
    some = after_answering(again, offer, taken).request
    assert some is not None
    assert some.load == pytest.approx(0.4 - 0.01), "one of 0.01 was taken"
    everything = replace(taken, accepted=offer.items)
    nothing = after_answering(again, offer, everything).request
    assert nothing is not None
    assert nothing.load == 0.0
