"""What a participant makes of an answer: whom it believes to have room, and whom it asks again."""

from __future__ import annotations

from math import inf

from medusa_core.market.learning import (
    PASSED_ROUNDS,
    is_passed_over,
    lowest_taken,
    told_by,
)
from medusa_core.market.messages import Answer, Reason, Room
from medusa_core.market.terms import ContractName
from tests.market.knowing import NONCE, an_item

ROOMS = (Room(0, 0.5), Room(2, 1.5))


def an_answer(reason: Reason = Reason.FULL, *, accepts: bool = False) -> Answer:
    return Answer(
        contract=ContractName("b"),
        nonce=NONCE,
        round=3,
        accepted=(an_item(1),) if accepts else (),
        rooms=ROOMS,
        reason=reason,
    )


def rooms(answer: Answer, level: int | None) -> tuple[Room, ...]:
    told = told_by(answer, 3, level, 0.1)
    assert told is not None
    return told.rooms


def test_who_takes_nothing_at_a_price_is_not_believed_to_have_room_at_it() -> None:
    assert rooms(an_answer(), 0) == ROOMS[1:]
    assert rooms(an_answer(), 2) == ()
    assert rooms(an_answer(accepts=True), 0) == ROOMS
    assert rooms(an_answer(), None) == ROOMS, "word of room answers no offer"


def test_an_answer_that_was_not_weighed_says_nothing_of_room() -> None:
    for reason in (Reason.UNWEIGHED, Reason.REVISION, Reason.STALE):
        assert told_by(an_answer(reason), 3, 0, 0.1) is None
    passed = an_answer(Reason.UNWEIGHED)
    assert is_passed_over(passed, 3, 3 + PASSED_ROUNDS - 1)
    assert not is_passed_over(passed, 3, 3 + PASSED_ROUNDS)
    assert not is_passed_over(an_answer(), 3, 4)


def test_the_lowest_price_of_a_round_bounds_what_comes_on_top() -> None:
    assert lowest_taken([]) == inf
    assert lowest_taken([inf, 3.0, 2.0]) == 2.0
