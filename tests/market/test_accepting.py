"""What a participant takes of the offers received, and what it says to them."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.market.decide import decide_answers, decide_offers
from medusa_core.market.decisions import GiveAnswer, KeepOpen, MakeOffer, ReportHeadroom
from medusa_core.market.knowledge import (
    AcceptedItems,
    MarketKnowledge,
    ReceivedOffer,
    RequestedLoad,
)
from medusa_core.market.learning import after_answering
from medusa_core.market.messages import Item, LoadHeadroom, Reason
from medusa_core.market.terms import Revision
from medusa_core.names import FragmentName
from tests.market.knowing import NONCE, an_item, an_offer, knowing, paying, providing

OWN = [an_item(number) for number in range(100)]


def theirs(count: int, load: float = 0.01) -> list[Item]:
    return [an_item(1_000 + number, load) for number in range(count)]


def answers(knowledge: MarketKnowledge) -> dict[str, GiveAnswer]:
    return {one.to: one for one in decide_answers(knowledge) if isinstance(one, GiveAnswer)}


def test_a_fragment_is_taken_while_it_adds_less_than_its_price() -> None:
    offer = an_offer("a", [an_item(1_000 + n, 0.1) for n in range(2)])
    knowledge = knowing(
        OWN[:30], as_provider=[providing("a", [10.0])], received=[offer], threshold=0.9
    )
    assert len(answers(knowledge)["a"].answer.accepted) == 2


def test_what_was_taken_before_in_the_round_counts_and_the_dearest_offer_comes_first() -> None:
    knowledge = knowing(
        OWN[:75],
        as_provider=[providing("cheap", [24.0]), providing("dear", [25.0])],
        received=[an_offer("cheap", theirs(4)), an_offer("dear", theirs(3))],
    )
    taken = {name: len(one.answer.accepted) for name, one in answers(knowledge).items()}
    # Four more would be 79, and the next unit costs 23.8; the dead band takes its share of 24.
    assert taken == {"dear": 3, "cheap": 2}


def test_nothing_is_taken_that_would_bring_an_overload_however_much_is_paid() -> None:
    knowledge = knowing(
        OWN[:78], as_provider=[providing("a", [90.0])], received=[an_offer("a", theirs(9))]
    )
    assert len(answers(knowledge)["a"].answer.accepted) == 2


def test_an_answer_reports_the_headroom_by_level() -> None:
    knowledge = knowing(
        OWN[:77],
        as_provider=[providing("a", [20.66, 22.8, 25.0])],
        received=[an_offer("a", theirs(1))],
    )
    answer = answers(knowledge)["a"].answer
    assert (len(answer.accepted), answer.reason) == (1, Reason.TAKEN)
    assert [(room.level, round(room.load, 6)) for room in answer.rooms] == [(1, 0.01), (2, 0.02)]


def test_a_name_without_a_network_means_the_fragment_of_any_network() -> None:
    item = replace(an_item(1_000), fragment=FragmentName("net.counts"))
    for named, is_covered in (("counts", True), ("net.counts", True), ("other.counts", False)):
        status = providing("a", [90.0])
        contract = replace(status.contract, fragments=frozenset({FragmentName(named)}))
        knowledge = knowing(
            OWN[:10],
            as_provider=[replace(status, contract=contract)],
            received=[an_offer("a", [item])],
        )
        answer = answers(knowledge)["a"].answer
        assert (answer.reason is Reason.TAKEN) == is_covered, named


def test_an_offer_outside_of_the_contract_in_force_is_declined_with_the_reason() -> None:
    named = frozenset({OWN[0].fragment})
    cases: list[tuple[ReceivedOffer, Reason]] = [
        (an_offer("a", theirs(1), revision=Revision("b2" * 32)), Reason.REVISION),
        (an_offer("a", theirs(1), level=7), Reason.TERMS),
        (an_offer("a", theirs(1), level=1, for_overload=False), Reason.TERMS),
        (an_offer("a", theirs(1, 0.2)), Reason.LOAD_MAX),
    ]
    for offer, reason in cases:
        status = providing("a", [20.0, 25.0], load_max=0.1)
        knowledge = knowing(OWN[:10], as_provider=[status], received=[offer])
        answer = answers(knowledge)["a"].answer
        assert (answer.accepted, answer.reason) == ((), reason)
    assert named


def test_who_was_declined_is_told_once_there_is_room() -> None:
    offer = an_offer("a", theirs(5))
    full = knowing(OWN[:80], as_provider=[providing("a")], received=[offer])
    answer = answers(full)["a"].answer
    assert (answer.accepted, answer.rooms) == ((), ())
    status = after_answering(providing("a"), offer.offer, answer)
    assert decide_offers(knowing(OWN[:80], as_provider=[status])) == []
    (told,) = decide_offers(knowing(OWN[:77], as_provider=[status]))
    assert isinstance(told, ReportHeadroom)
    assert (told.to, told.answer.nonce) == ("a", NONCE)
    assert told.answer.rooms == (LoadHeadroom(0, 0.03),)


def test_room_is_told_to_no_more_than_it_is_enough_for() -> None:
    expected = RequestedLoad(
        offer=NONCE, load=0.03, smallest=0.01, for_overload=True, reported_level=None
    )
    statuses = [providing(name, request=expected) for name in "abc"]
    told = decide_offers(knowing(OWN[:77], as_provider=statuses))
    assert len(told) == 1


def test_room_is_told_to_nobody_who_is_silent_or_knows_of_the_cheapest() -> None:
    asked = RequestedLoad(
        offer=NONCE, load=0.03, smallest=0.01, for_overload=True, reported_level=None
    )
    heard = providing("a", request=asked)
    knowledge = knowing(OWN[:77], as_provider=[heard])
    assert [one.to for one in decide_offers(knowledge)] == ["a"]
    for other in (
        replace(heard, unreachable_since_ms=1),
        replace(heard, request=replace(asked, reported_level=0)),
    ):
        assert decide_offers(knowing(OWN[:77], as_provider=[other])) == []


def test_room_is_told_first_to_who_asked_in_an_overload() -> None:
    asked = RequestedLoad(
        offer=NONCE, load=0.03, smallest=0.01, for_overload=True, reported_level=None
    )
    larger = replace(asked, load=0.2, for_overload=False)
    statuses = [providing("a", request=larger), providing("b", request=asked)]
    told = decide_offers(knowing(OWN[:77], as_provider=statuses))
    assert [one.to for one in told] == ["b"]


def test_a_full_participant_asks_on_for_less_before_it_answers() -> None:
    offer = an_offer("a", theirs(5), level=1)
    common = {
        "as_provider": [providing("a", [22.8, 25.0])],
        "as_payer": [paying("c", [22.8, 25.0])],
        "received": [offer],
    }
    knowledge = knowing(OWN[:80], **common)  # type: ignore[arg-type]
    (kept,) = decide_answers(knowledge)
    assert isinstance(kept, KeepOpen)
    (made,) = decide_offers(knowledge)
    assert isinstance(made, MakeOffer)
    assert (made.to, made.relays, made.offer.level, len(made.offer.items)) == ("c", True, 0, 5)


def test_what_is_handed_on_lets_as_much_be_taken_and_no_more() -> None:
    granted = AcceptedItems(0, tuple(OWN[:3]))
    knowledge = knowing(
        OWN[:80],
        as_provider=[providing("a", [22.8, 25.0])],
        as_payer=[paying("c", [22.8, 25.0], rooms=[], accepted=granted)],
        received=[an_offer("a", theirs(5), level=1)],
    )
    answer = answers(knowledge)["a"]
    assert len(answer.answer.accepted) == 3
    assert [len(one.leaves) for one in answer.hands_on] == [1, 1, 1]


def test_an_overloaded_participant_hands_on_nothing_for_others() -> None:
    knowledge = knowing(
        OWN[:81],
        as_provider=[providing("a", [22.8, 25.0])],
        as_payer=[paying("c", [22.8, 25.0])],
        received=[an_offer("a", theirs(5), level=1)],
    )
    assert answers(knowledge)["a"].answer.accepted == ()


def test_room_that_leads_back_to_whoever_asks_is_not_told_to_it() -> None:
    prices = [22.8, 25.0]
    expected = RequestedLoad(
        offer=NONCE, load=0.05, smallest=0.01, for_overload=True, reported_level=None
    )
    for far, told in (("a", []), ("c", ["a"])):
        knowledge = knowing(
            OWN[:80],
            as_provider=[providing("a", prices, request=expected)],
            as_payer=[paying(far, prices, rooms=[(0, 0.3)])],
        )
        words = [one for one in decide_offers(knowledge) if isinstance(one, ReportHeadroom)]
        assert [word.to for word in words] == told


def test_an_offer_is_not_handed_on_to_one_whose_own_waits_here() -> None:
    prices = [22.8, 25.0]
    knowledge = knowing(
        OWN[:80],
        as_provider=[providing("a", prices), providing("c", prices)],
        as_payer=[paying("c", prices), paying("d", prices)],
        received=[an_offer("a", theirs(5), level=1), an_offer("c", theirs(5), level=1)],
    )
    made = [one for one in decide_offers(knowledge) if isinstance(one, MakeOffer)]
    assert [one.to for one in made] == ["d"]


def test_what_can_be_handed_on_is_reckoned_with_what_was_just_taken() -> None:
    knowledge = knowing(
        OWN[:40],
        as_provider=[providing("a", [22.8, 25.0])],
        as_payer=[paying("c", [22.8, 25.0], rooms=[(0, 0.3)])],
        received=[an_offer("a", theirs(60))],
    )
    rooms = answers(knowledge)["a"].answer.rooms
    assert [(room.level, round(room.load, 6)) for room in rooms] == [(1, 0.31)]


def test_an_answer_that_takes_nothing_tells_of_room_at_higher_levels_alone() -> None:
    knowledge = knowing(
        OWN[:77], as_provider=[providing("a", [22.8, 25.0])], received=[an_offer("a", theirs(1))]
    )
    # Something came for less in this round already: it may not be the dearer of the two.
    answer = answers(replace(knowledge, taken_at=15.0))["a"].answer
    assert answer.accepted == ()
    assert [(room.level, round(room.load, 6)) for room in answer.rooms] == [(1, 0.03)]


def test_what_leaves_brings_nobody_in_at_a_price_above_the_lowest_of_the_round() -> None:
    """The next units cost 14.2, 15.4, 16.7 and 18.1: to let one leave for 19 does not pay yet."""
    granted = AcceptedItems(0, tuple(OWN[:2]))
    knowledge = knowing(
        OWN[:73],
        as_provider=[providing("a", [21.0])],
        as_payer=[paying("c", [19.0], accepted=granted)],
        received=[an_offer("a", theirs(4))],
        threshold=0.78,
    )
    for taken_at, taken in ((inf, 4), (16.0, 2)):
        answer = answers(replace(knowledge, taken_at=taken_at))["a"]
        assert len(answer.answer.accepted) == taken
        assert all(hand_on.leaves for hand_on in answer.hands_on)


def test_who_is_told_in_vain_again_and_again_is_not_told_for_ever() -> None:
    status, told = providing("a"), 0
    for _ in range(40):
        offer = an_offer("a", theirs(5))
        full = knowing(OWN[:80], as_provider=[status], received=[offer])
        status = after_answering(status, offer.offer, answers(full)["a"].answer)
        words = decide_offers(knowing(OWN[:77], as_provider=[status]))
        told += len(words)
    assert 5 < told < 40


def test_an_offer_is_not_kept_open_where_nobody_takes_less() -> None:
    knowledge = knowing(
        OWN[:80],
        as_provider=[providing("a", [22.8, 25.0])],
        as_payer=[paying("c", [25.0])],
        received=[an_offer("a", theirs(5), level=1)],
    )
    assert answers(knowledge)["a"].answer.accepted == ()


@settings(deadline=None, max_examples=60)
@given(
    background=st.floats(0.0, 0.79),
    loads=st.lists(st.lists(st.floats(0.001, 0.2), min_size=1, max_size=6), min_size=1, max_size=4),
    prices=st.lists(st.floats(1.0, 60.0), min_size=4, max_size=4),
)
def test_all_that_is_taken_in_a_round_costs_less_than_is_paid(
    background: float, loads: list[list[float]], prices: list[float]
) -> None:
    statuses = [providing(f"p{n}", [price]) for n, price in enumerate(prices)]
    received = [
        an_offer(f"p{n}", [an_item(100 * n + at, load) for at, load in enumerate(own)])
        for n, own in enumerate(loads)
    ]
    knowledge = knowing(
        [], background=background, as_provider=statuses[: len(loads)], received=received
    )
    now = knowledge.load
    given_answers = answers(knowledge)
    for status in sorted(statuses[: len(loads)], key=lambda s: -s.contract.prices[0]):
        for item in given_answers[status.contract.payer].answer.accepted:
            adds = knowledge.cost.cost(now + item.load) - knowledge.cost.cost(now)
            assert adds < status.contract.prices[0] * item.load
            now += item.load
    assert now <= knowledge.threshold * (1 + 1e-9)


def test_what_fills_a_contract_to_its_most_load_exactly_is_taken() -> None:
    offer = an_offer("a", [an_item(1_000, 0.5)])
    for load_max, accepted in ((0.5, 1), (0.4, 0)):
        status = providing("a", [90.0], load_max=load_max)
        answer = answers(knowing([], as_provider=[status], received=[offer]))["a"].answer
        assert len(answer.accepted) == accepted
        assert answer.reason is (Reason.TAKEN if accepted else Reason.LOAD_MAX)
