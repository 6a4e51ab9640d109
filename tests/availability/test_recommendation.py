"""The recommended method meets the promise, and no cheaper one does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.availability.measured_figures import Figure, FragmentFigures
from medusa_core.availability.methods import STRENGTH, options_of
from medusa_core.availability.recommendation import (
    AvailabilityPromise,
    ResourcePrices,
    advice_for,
)
from medusa_core.market.terms import Method, Recovery
from tests.availability.drawn_figures import figures, prices
from tests.availability.test_methods import EXAMPLE

PRICES = ResourcePrices(core_hour=Figure(0.1), gib_sent=Figure(0.05), gib_hour=Figure(0.001))
promises = st.builds(
    AvailabilityPromise,
    st.sampled_from(Recovery),
    st.none() | st.floats(0, 1e7),
    st.just("drawn"),
)


@given(figures, promises, prices)
def test_what_is_chosen_meets_the_promise_and_nothing_cheaper_does(
    of: FragmentFigures, promise: AvailabilityPromise, at: ResourcePrices
) -> None:
    found = advice_for(of, promise, at)
    meeting = [
        (option, cost)
        for option, cost in found.options
        if option.meets(promise.recovery, promise.bound_ms)
    ]
    if found.chosen is None:
        assert not meeting
    else:
        costs = {id(option): cost for option, cost in found.options}
        assert any(option is found.chosen for option, _ in meeting)
        assert costs[id(found.chosen)] == min(cost for _, cost in meeting)


@given(figures, promises, prices, st.floats(0, 1e7), st.sampled_from(Recovery))
def test_a_weaker_promise_never_costs_more(
    of: FragmentFigures,
    promise: AvailabilityPromise,
    at: ResourcePrices,
    more_ms: float,
    recovery: Recovery,
) -> None:
    weaker = AvailabilityPromise(
        min(recovery, promise.recovery, key=STRENGTH.__getitem__),
        None if promise.bound_ms is None else promise.bound_ms + more_ms,
        "weaker",
    )
    strong, weak = (advice_for(of, one, at) for one in (promise, weaker))
    if strong.chosen is not None:
        assert weak.chosen is not None
        assert at.per_hour(weak.chosen.cost) <= at.per_hour(strong.chosen.cost)


def test_a_short_bound_takes_a_second_computation_and_a_long_one_storage_alone() -> None:
    chosen = {
        bound_ms: advice_for(
            EXAMPLE, AvailabilityPromise(Recovery.PRECISE, bound_ms, "an example"), PRICES
        ).chosen
        for bound_ms in (1.0, 10_000.0, 60_000.0)
    }
    assert chosen[1.0] is None
    assert chosen[10_000.0] is not None
    assert chosen[10_000.0].method is Method.ACTIVE_STANDBY
    assert chosen[60_000.0] is not None
    assert chosen[60_000.0].method is Method.UPSTREAM_BACKUP


def test_among_methods_of_one_cost_the_strongest_recovery_is_chosen() -> None:
    promise = AvailabilityPromise(Recovery.ROLLBACK, None, "an example")
    chosen = advice_for(EXAMPLE, promise, PRICES).chosen
    assert chosen is not None
    assert (chosen.method, chosen.recovery) == (Method.UPSTREAM_BACKUP, Recovery.PRECISE)
    assert chosen in options_of(EXAMPLE)
