"""A replay: load is conserved, payments lie within the contract, and moves pay."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.market.estimating import (
    ObservedAnswer,
    ObservedOffer,
    PayerEstimate,
    ProviderEstimate,
)
from medusa_core.market.knowledge import ContractInForce, MarketLimits
from medusa_core.market.messages import Item
from medusa_core.market.outcomes import HOUR_MS, Outcome, largest_change
from medusa_core.market.terms import ContractName
from medusa_core.market.what_if import Partners, RecordedRound, replay_both
from medusa_core.names import FragmentName, Participant
from tests.market.knowing import a_contract, an_item, knowing
from tests.sweeps import examples

MINUTE_MS = 60_000
NEAR, FAR = Participant("near"), Participant("far")
FROM_FAR = ContractName("from_far")


def a_recording(
    minutes: Sequence[Sequence[float]], *, residence_ms: int = 0, background: float = 0.0
) -> list[RecordedRound]:
    """Each round knows the load of its minute at once."""
    rounds = []
    for number, minute in enumerate(minutes):
        items = [an_item(at, load) for at, load in enumerate(minute) if load > 0.0]
        knowledge = knowing(
            items, background=background, clock_ms=number * MINUTE_MS,
            limits=MarketLimits(residence_ms=residence_ms),
        )  # fmt: skip
        rounds.append(
            RecordedRound(
                at_ms=number * MINUTE_MS,
                knowledge=knowledge,
                length_ms=MINUTE_MS,
                load=background + sum(item.load for item in items),
                parts={(item.fragment, item.partition): item.load for item in items},
            )
        )
    return rounds


def selling(prices: Sequence[float], load_max: float = inf) -> ContractInForce:
    return a_contract("near", prices, payer="home", provider="near", load_max=load_max)


def carrying(load: float, price: float = 2.0, high: float = 40.0) -> Partners:
    """Near said once that it would carry so much, from a price on."""
    word = ObservedAnswer(at_ms=0, low=1.0, high=high, price=0.5, rooms=((price, load),))
    return Partners(providers={NEAR: ProviderEstimate([word])})


def replayed(
    minutes: Sequence[Sequence[float]], contract: ContractInForce, partners: Partners,
    residence_ms: int = 0,
) -> Outcome:  # fmt: skip
    recording = a_recording(minutes, residence_ms=residence_ms)
    return replay_both(recording, [contract], [contract], partners)[0]


BUSY, IDLE = [0.1] * 9, [0.01] * 9


def test_an_overload_is_handed_over_and_paid_for() -> None:
    found = replayed([BUSY] * 60, selling([25.0]), carrying(0.5))
    contract = found.contracts[ContractName("near")]
    assert (contract.moves_out, contract.moves_back) == (1, 0)
    assert isclose(contract.load_s_out, 0.1 * 3_600)
    assert isclose(contract.paid, 25.0 * 0.1)
    assert (found.overload_s, found.overload_load_s) == (0.0, 0.0)


def test_nothing_is_taken_at_a_price_that_was_never_answered() -> None:
    found = replayed([BUSY] * 10, selling([2.0]), carrying(0.5, price=3.0))
    assert found.moves == 0
    assert isclose(found.overload_load_s, 0.1 * 600)


def test_what_went_comes_back_when_it_costs_less_at_home_than_its_price() -> None:
    found = replayed([BUSY] * 10 + [IDLE] * 10, selling([25.0]), carrying(0.5))
    contract = found.contracts[ContractName("near")]
    assert (contract.moves_out, contract.moves_back) == (1, 1)
    assert isclose(contract.load_s_out, 0.1 * 600)


def test_it_does_not_come_back_before_the_residence() -> None:
    found = replayed([BUSY] * 10 + [IDLE] * 10, selling([25.0]), carrying(0.5), 15 * MINUTE_MS)
    contract = found.contracts[ContractName("near")]
    assert isclose(contract.load_s_out, 0.1 * 600 + 0.01 * 300)


def test_the_price_rises_only_as_far_as_the_partner_was_seen_to_ask_for() -> None:
    found = replayed([BUSY] * 60, selling([10.0, 20.0, 30.0]), carrying(0.5, price=15.0))
    contract = found.contracts[ContractName("near")]
    assert contract.moves_out == 1
    assert isclose(contract.paid, 20.0 * contract.load_s_out / 3_600)


def test_a_partner_that_gets_room_again_is_asked_again() -> None:
    words = [
        ObservedAnswer(at_ms=0, low=1.0, high=40.0, price=25.0),
        ObservedAnswer(
            at_ms=10 * MINUTE_MS, low=1.0, high=40.0, price=25.0, rooms=((2.0, 0.5),), is_more=True
        ),
    ]
    partners = Partners(providers={NEAR: ProviderEstimate(words)})
    found = replayed([BUSY] * 20, selling([25.0]), partners)
    assert found.contracts[ContractName("near")].moves_out == 1
    assert isclose(found.overload_load_s, 0.1 * 600)


def test_load_that_a_payer_offered_is_taken_where_it_pays_and_is_paid_for() -> None:
    item = Item(FragmentName("theirs"), 0, 0.2)
    asked = [ObservedOffer(at_ms=90_000, price=9.0, items=(item,), for_overload=True)]
    partners = Partners(payers={FROM_FAR: PayerEstimate(asked)})
    contract = a_contract("from_far", [1.0, 5.0, 9.0, 20.0], payer="far")
    recording = a_recording([[0.3]] * 20, residence_ms=5 * MINUTE_MS)
    cheap, dear = replay_both(recording, [contract], [a_contract("from_far", [20.0], payer="far")],
                              partners)  # fmt: skip
    taken = cheap.contracts[FROM_FAR]
    assert taken.moves_in == 1
    assert isclose(taken.load_s_in, 0.2 * 300), "a word is good for the residence"
    assert isclose(taken.earned, 5.0 * 0.2 * 300 / 3_600), "the lowest price at which it pays"
    assert dear.moves == 0, "it never offered so much"
    assert cheap.cost > dear.cost


def test_what_is_taken_on_top_in_a_round_costs_no_more_than_what_came_in_it_for_least() -> None:
    items = tuple(Item(FragmentName(name), 0, 0.2) for name in ("first", "second"))
    asked = [ObservedOffer(at_ms=90_000, price=20.0, items=items, for_overload=True)]
    partners = Partners(payers={FROM_FAR: PayerEstimate(asked)})
    contract = a_contract("from_far", [5.0, 20.0], payer="far")
    found = replay_both(a_recording([[0.3]] * 5), [contract], [contract], partners)[0]
    assert found.contracts[FROM_FAR].moves_in == 1, "the second costs more than 5"


def test_the_largest_change_has_the_reason_of_its_largest_move() -> None:
    recording = a_recording([BUSY] * 10)
    before, after = replay_both(recording, [selling([2.0])], [selling([25.0])], carrying(0.5, 3.0))
    change = largest_change(before, after)
    assert change is not None
    assert change.because is not None
    assert not change.is_less
    assert change.because.numbers["price"] == 25.0
    back = largest_change(after, before)
    assert back is not None
    assert (back.is_less, back.because) == (True, change.because)
    assert largest_change(before, before) is None


recordings = st.lists(
    st.lists(st.integers(0, 30).map(lambda n: n / 100), min_size=4, max_size=4),
    min_size=1, max_size=12,
)  # fmt: skip
ranges = st.tuples(st.integers(1, 60), st.integers(0, 4), st.integers(1, 20)).map(
    lambda r: [float(r[0] + at * r[2]) for at in range(r[1] + 1)]
)
said = st.lists(
    st.builds(
        lambda at, low, width, took, load: ObservedAnswer(
            at_ms=at * MINUTE_MS, low=low, high=low + width, price=low, took=took,
            rooms=((low + width / 2, load),) if load else (),
        ),
        at=st.integers(0, 12), low=st.integers(1, 60), width=st.integers(0, 40),
        took=st.sampled_from([0.0, 0.1]), load=st.sampled_from([0.0, 0.2, 0.6]),
    ),
    max_size=4,
)  # fmt: skip
offered = st.lists(
    st.builds(
        lambda at, price, load: ObservedOffer(
            at_ms=at * MINUTE_MS + 7, price=float(price), for_overload=True,
            items=(Item(FragmentName("theirs"), 0, load),),
        ),
        at=st.integers(0, 12), price=st.integers(1, 60), load=st.sampled_from([0.05, 0.2]),
    ),
    max_size=4,
)  # fmt: skip


@pytest.mark.sweep
@settings(max_examples=examples(40, 150))
@given(
    recordings, ranges, ranges, said, offered,
    st.sampled_from([inf, 0.2, 0.5]), st.sampled_from([0, 5 * MINUTE_MS]),
)  # fmt: skip
def test_load_is_conserved_and_payments_lie_within_the_contract(
    minutes: list[list[float]],
    prices: list[float],
    theirs: list[float],
    words: list[ObservedAnswer],
    asked: list[ObservedOffer],
    load_max: float,
    residence_ms: int,
) -> None:
    contracts = [selling(prices, load_max), a_contract("from_far", theirs, payer="far")]
    partners = Partners(
        providers={NEAR: ProviderEstimate(words)}, payers={FROM_FAR: PayerEstimate(asked)}
    )
    recording = a_recording(minutes, residence_ms=residence_ms, background=0.05)
    found, again = replay_both(recording, contracts, contracts, partners)
    assert found == again
    sold, taken = found.contracts[ContractName("near")], found.contracts[FROM_FAR]
    recorded = sum(sum(minute) + 0.05 for minute in minutes) * 60
    assert isclose(found.load_s, recorded)
    assert isclose(found.home_load_s + sold.load_s_out - taken.load_s_in, recorded, abs_tol=1e-9)
    for amount, load_s, levels in (
        (sold.paid, sold.load_s_out, prices), (taken.earned, taken.load_s_in, theirs)
    ):  # fmt: skip
        hours = load_s * 1_000 / HOUR_MS
        assert levels[0] * hours - 1e-9 <= amount <= levels[-1] * hours + 1e-9
    assert sold.moves_back <= sold.moves_out
    assert found.overload_load_s >= 0.0
    assert 0.0 <= found.overload_share <= 1.0
    if not words:
        assert sold.moves_out == 0
