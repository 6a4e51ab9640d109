"""What a participant offers, to whom, at which level."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.market.costs import PiecewiseLinear, Queue
from medusa_core.market.decide import decide_offers
from medusa_core.market.decisions import MakeOffer, explain
from medusa_core.market.knowledge import MarketKnowledge, MarketLimits, RequestedLoad
from medusa_core.market.messages import Item
from medusa_core.market.shedding import handed_over
from medusa_core.names import FragmentName
from tests.market.knowing import NONCE, an_item, an_offer, knowing, paying, providing

ITEMS = [an_item(number) for number in range(100)]


def offers(knowledge: MarketKnowledge) -> list[MakeOffer]:
    return [one for one in decide_offers(knowledge) if isinstance(one, MakeOffer)]


def offered(knowledge: MarketKnowledge) -> dict[str, int]:
    return {one.to: len(one.offer.items) for one in offers(knowledge)}


def test_what_costs_more_than_the_price_is_offered_and_no_more() -> None:
    tenths = [an_item(number, 0.1) for number in range(9)]
    knowledge = knowing(tenths, threshold=0.9, as_payer=[paying("b", [10.0])])
    # The third would save 8.3 a unit.
    assert offered(knowledge) == {"b": 2}
    assert "price 10.0" in explain(decide_offers(knowledge))[0]


def test_nothing_is_offered_where_nothing_would_be_saved() -> None:
    assert offered(knowing(ITEMS[:80], as_payer=[paying("b")])) == {}


def test_a_saving_within_the_dead_band_moves_nothing() -> None:
    cost = PiecewiseLinear(((0.0, 0.0), (1.0, 10.0)))
    tenths = [an_item(number, 0.1) for number in range(9)]
    below = knowing(tenths, cost=cost, as_payer=[paying("b", [9.99])])
    above = knowing(tenths, cost=cost, as_payer=[paying("b", [9.9])])
    assert (offered(below), offered(above)) == ({}, {"b": 9})


def test_the_cheapest_partner_with_headroom_gets_the_first_offer() -> None:
    dear, cheap = (
        paying("dear", [25.0], rooms=[(0, 1.0)]),
        paying("cheap", [24.0], rooms=[(0, 1.0)]),
    )
    assert list(offered(knowing(ITEMS[:90], as_payer=[dear, cheap]))) == ["cheap"]


def test_who_asked_in_an_overload_itself_is_asked_where_there_is_nobody_else() -> None:
    expected = RequestedLoad(
        offer=NONCE, load=0.0, smallest=0.01, for_overload=True, reported_level=None
    )
    over = providing("b", request=expected)
    alone = knowing(ITEMS[:90], as_payer=[paying("b")], as_provider=[over])
    assert list(offered(alone)) == ["b"]
    beside = knowing(ITEMS[:90], as_payer=[paying("b"), paying("c")], as_provider=[over])
    assert offered(beside) == {"c": 10}


def test_room_is_made_for_a_partner_s_overload_below_what_it_would_pay() -> None:
    prices = [20.66, 22.8, 25.0]
    expected = RequestedLoad(
        offer=NONCE, load=0.03, smallest=0.01, for_overload=True, reported_level=None
    )
    dearer = paying("c", prices, rooms=[(1, 0.3)])
    idle = knowing(ITEMS[:80], as_payer=[dearer], as_provider=[providing("a", prices)])
    assert offered(idle) == {}
    asked = knowing(
        ITEMS[:80], as_payer=[dearer], as_provider=[providing("a", prices, request=expected)]
    )
    (made,) = offers(asked)
    assert (made.to, made.offer.level, made.offer.for_overload, made.relays) == (
        "c",
        1,
        True,
        False,
    )
    at_top = knowing(
        ITEMS[:80],
        as_payer=[paying("c", prices, rooms=[(2, 0.3)])],
        as_provider=[providing("a", prices, request=expected)],
    )
    assert offered(at_top) == {}


def test_a_partner_is_offered_no_more_than_it_said_it_would_take() -> None:
    knowledge = knowing(
        ITEMS[:90], as_payer=[paying("b", rooms=[(0, 0.04)]), paying("c", rooms=[])]
    )
    assert offered(knowledge) == {"b": 4}


def test_two_partners_are_asked_at_a_time_and_a_fragment_is_in_one_offer_only() -> None:
    knowledge = knowing(ITEMS[:90], as_payer=[paying(name) for name in "bcde"])
    made = offers(knowledge)
    items = [item for one in made for item in one.offer.items]
    assert len(made) == 2
    assert len(set(items)) == len(items) == 10


def test_what_one_partner_may_not_take_stays_for_the_next_and_the_rest_is_offered_once() -> None:
    mine = [Item(FragmentName("counts" if n % 2 else "sums"), n, 0.01) for n in range(90)]
    some = paying("b", rooms=[(0, 0.03)], fragments=frozenset({FragmentName("sums")}))
    made = offers(knowing(mine, as_payer=[some, paying("c", [25.1], rooms=[(0, 1.0)])]))
    assert [one.to for one in made] == ["b", "c"]
    assert {item.fragment for item in made[0].offer.items} == {FragmentName("sums")}
    items = [item for one in made for item in one.offer.items]
    assert len(set(items)) == len(items) == 10


def test_what_was_accepted_is_handed_over_at_the_price_of_its_own_contract() -> None:
    cheap, dear = paying("b", [20.0]), paying("c", [60.0])
    knowledge = knowing(ITEMS[:80], as_payer=[dear, cheap])
    accepted = ITEMS[:2]
    assert handed_over(knowledge, an_offer("b", accepted).offer, accepted) == tuple(accepted)
    assert handed_over(knowledge, an_offer("c", accepted).offer, accepted) == ()


def test_an_offer_holds_no_more_fragments_than_one_may() -> None:
    few = MarketLimits(items_max=3)
    knowledge = knowing(ITEMS[:90], as_payer=[paying("b", rooms=[(0, 1.0)])], limits=few)
    assert offered(knowledge) == {"b": 3}


def test_a_partner_with_an_open_offer_gets_no_other_and_its_fragments_stay_in_it() -> None:
    waits = an_offer("b", ITEMS[:4]).offer
    knowledge = knowing(ITEMS[:90], as_payer=[paying("b", open=waits), paying("c"), paying("d")])
    (made,) = offers(knowledge)
    assert made.to != "b"
    assert len(made.offer.items) == 6
    assert not set(made.offer.items) & set(waits.items)


def test_an_unreachable_partner_costs_nothing_but_its_own_share() -> None:
    waits = an_offer("b", ITEMS[:4]).offer
    silent = paying("b", open=waits, unreachable_since_ms=1)
    knowledge = knowing(ITEMS[:90], as_payer=[silent, paying("c", rooms=[(0, 1.0)])])
    assert offered(knowledge) == {"c": 10}


def test_fragments_in_the_open_offer_of_a_silent_partner_may_go_to_another() -> None:
    waits = an_offer("b", ITEMS[:90]).offer
    silent = paying("b", open=waits, unreachable_since_ms=1)
    heard = paying("b", open=waits)
    other = paying("c", rooms=[(0, 1.0)])
    assert offered(knowing(ITEMS[:90], as_payer=[silent, other])) == {"c": 10}
    assert offered(knowing(ITEMS[:90], as_payer=[heard, other])) == {}


def test_a_silent_partner_is_offered_nothing() -> None:
    silent = paying("b", rooms=[(0, 1.0)], unreachable_since_ms=1)
    assert offered(knowing(ITEMS[:90], as_payer=[silent])) == {}


def test_prices_above_the_lowest_are_paid_for_an_overload_alone() -> None:
    told = [(1, 0.3)]
    over = knowing(ITEMS[:85], as_payer=[paying("b", [20.0, 25.0], rooms=told)])
    under = knowing(ITEMS[:80], as_payer=[paying("b", [20.0, 22.0], rooms=told)])
    (made,) = offers(over)
    assert (made.offer.level, len(made.offer.items), made.offer.for_overload) == (1, 5, True)
    assert offered(under) == {}


def test_the_level_falls_again_when_the_partner_has_room_at_a_lower_one() -> None:
    rooms = [(0, 0.1), (1, 0.3)]
    (made,) = offers(knowing(ITEMS[:85], as_payer=[paying("b", [20.0, 25.0], rooms=rooms)]))
    assert made.offer.level == 0


def test_only_what_the_contract_lets_move_is_offered_and_no_more_than_its_most_load() -> None:
    other = FragmentName("other")
    assert offered(knowing(ITEMS[:90], as_payer=[paying("b", fragments=frozenset({other}))])) == {}
    nearly = paying("b", load_max=0.5, load_there=0.47)
    assert offered(knowing(ITEMS[:90], as_payer=[nearly])) == {"b": 3}


def test_what_was_taken_lately_stays_for_the_least_residence() -> None:
    limits = MarketLimits(residence_ms=60_000)
    common = {"as_payer": [paying("c")], "since_ms": 100_000, "limits": limits}
    new = knowing(ITEMS[:90], taken_under="b", clock_ms=130_000, **common)  # type: ignore[arg-type]
    old = knowing(ITEMS[:90], taken_under="b", clock_ms=170_000, **common)  # type: ignore[arg-type]
    own = knowing(ITEMS[:90], clock_ms=130_000, **common)  # type: ignore[arg-type]
    assert (offered(new), offered(old), offered(own)) == ({}, {"c": 10}, {"c": 10})


def test_at_its_capacity_a_participant_offers_at_any_price() -> None:
    knowledge = knowing(ITEMS[:50], background=0.7, cost=Queue(2.0), as_payer=[paying("b", [99.0])])
    # 1.2 of a capacity of 1.0: what is above goes even at a price that it does not save.
    assert offered(knowledge) == {"b": 21}


@settings(deadline=None, max_examples=60)
@given(
    loads=st.lists(st.floats(0.001, 0.3), min_size=1, max_size=12),
    background=st.floats(0.0, 0.5),
    threshold=st.floats(0.3, 0.9),
    prices=st.lists(
        st.lists(st.floats(1.0, 60.0), min_size=1, max_size=4, unique=True).map(sorted),
        min_size=1,
        max_size=4,
    ),
    rooms=st.lists(st.one_of(st.none(), st.floats(0.01, 1.0)), min_size=4, max_size=4),
)
def test_every_offered_fragment_pays_by_difference_below_capacity(
    loads: list[float],
    background: float,
    threshold: float,
    prices: list[list[float]],
    rooms: list[float | None],
) -> None:
    items = [an_item(number, load) for number, load in enumerate(sorted(loads, reverse=True))]
    statuses = [
        paying(f"p{n}", own, rooms=None if room is None else [(len(own) - 1, room)])
        for n, (own, room) in enumerate(zip(prices, rooms, strict=False))
    ]
    knowledge = knowing(items, background=background, threshold=threshold, as_payer=statuses)
    now = knowledge.load
    for one in sorted(offers(knowledge), key=lambda made: _price(knowledge, made)):
        for item in one.offer.items:
            saves = knowledge.cost.cost(now) - knowledge.cost.cost(max(now - item.load, 0.0))
            assert saves > _price(knowledge, one) * item.load or now >= knowledge.capacity
            now -= item.load
        assert one.offer.level == 0 or one.offer.for_overload


def _price(knowledge: MarketKnowledge, made: MakeOffer) -> float:
    by_name = {status.contract.name: status.contract for status in knowledge.as_payer}
    return by_name[made.offer.contract].prices[made.offer.level]
