"""What can be taken by handing on is counted with the ways that cost less than they save alone."""

from __future__ import annotations

import pytest

from medusa_core.market.costs import Queue
from medusa_core.market.knowledge import AcceptedItems
from medusa_core.market.relaying import Relay, RelayHeadroom, exchange, rooms_by_relay
from medusa_core.names import Participant
from tests.market.knowing import an_item, knowing, paying

OWN = [an_item(number) for number in range(75)]
CHEAP, DEAR = RelayHeadroom(10.0, 0.1, Participant("a")), RelayHeadroom(22.0, 0.2, Participant("b"))


def test_a_way_that_costs_more_than_handing_on_saves_is_no_room() -> None:
    """At a load of 0.78 the last hundredth costs some 20 a unit: more than 10, less than 22."""
    knowledge = knowing(OWN)
    (with_both,) = rooms_by_relay([CHEAP, DEAR], [25.0], knowledge, 0.75, [0.03], 0.01)
    (with_one,) = rooms_by_relay([CHEAP], [25.0], knowledge, 0.75, [0.03], 0.01)
    assert with_both == with_one == pytest.approx(0.13)


def test_a_way_as_dear_as_the_price_is_no_room() -> None:
    assert rooms_by_relay([DEAR], [22.0], knowing(OWN), 0.75, [0.03], 0.01) == [0.03]


def test_nothing_leaves_at_a_price_that_is_not_below_what_is_paid() -> None:
    cost = Queue(1.0)
    assert exchange(cost, 0.9, 0.9, 30.0, 0.02, [(29.9, 0.1)]) is not None
    assert exchange(cost, 0.9, 0.9, 30.0, 0.02, [(30.0, 0.1)]) is None
    assert exchange(cost, 0.9, 0.9, 30.0, 0.02, []) is None


def test_what_is_taken_first_leaves_no_more_than_pays() -> None:
    cost = Queue(1.0)
    taken = exchange(cost, 0.7, 0.9, 30.0, 0.02, [(5.0, 0.1), (5.0, 0.1)])
    assert taken is not None
    assert (taken.before, taken.after) == (0, 1)
    assert taken.load == pytest.approx(0.62)
    alone = exchange(cost, 0.7, 0.9, 30.0, 0.02, [(500.0, 0.1)])
    assert alone is not None
    assert (alone.before, alone.after, alone.load) == (0, 0, pytest.approx(0.72))


def test_at_most_64_pieces_leave_to_make_room_for_one_item() -> None:
    piece = 1 / 1024
    accepted = AcceptedItems(0, tuple(an_item(number, piece) for number in range(100)))
    knowledge = knowing(
        [an_item(0, 0.5)], threshold=0.5, as_payer=[paying("b", [1.0], accepted=accepted)]
    )
    leaving = []
    for pieces in (63, 64, 65):
        made = Relay(knowledge).make_room(0.5, an_item(1, pieces * piece), 30.0, 0.0)
        leaving.append(None if made is None else len(made[0].leaves))
    assert leaving == [63, 64, None]
