"""What a fragment has yet to read of its inputs, so that nothing of it is trimmed."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.names import PlanId
from medusa_core.trims import earliest_bucket_us, needed_from_us, shapes_owed
from tests.core.builders import (
    PLAN,
    READINGS,
    SECOND_US,
    TOTALS,
    a_fragment,
    a_fragment_knowledge,
    a_network,
    a_passing_network,
    a_segment,
    an_input,
    seconds,
)

OTHER, UNKNOWN = PlanId("1" * 32), PlanId("2" * 32)
INPUT = an_input(a_segment(seconds(0, 600)))
WINDOWS, PASSING = a_network(), a_passing_network()
NOW_PLANNED = {PLAN: {a_fragment(PASSING).id: a_fragment(PASSING)}}


def known(computed_s: int, *, tentative_s: int | None = None, until_us: int = FOREVER_US,
          windows: bool = False):  # type: ignore[no-untyped-def]  # fmt: skip
    made = a_fragment_knowledge(
        INPUT, computed_s=computed_s, network=WINDOWS if windows else PASSING
    )
    tentative_us = None if tentative_s is None else tentative_s * SECOND_US
    outputs = {TOTALS: replace(made.outputs[TOTALS], tentative_us=tentative_us)}
    return replace(made, outputs=outputs, until_us=until_us)


def test_what_is_behind_the_frontier_is_needed() -> None:
    assert needed_from_us(known(120)) == {READINGS: 120 * SECOND_US}
    assert needed_from_us(known(0)) == {READINGS: 0}


def test_nothing_is_needed_before_the_start_but_what_windows_reach_back_to() -> None:
    late = replace(known(0, windows=True), starts_us=130 * SECOND_US)
    assert needed_from_us(late) == {READINGS: 120 * SECOND_US}
    assert needed_from_us(replace(known(0), starts_us=130 * SECOND_US)) == {
        READINGS: 130 * SECOND_US
    }


def test_a_window_that_is_not_over_needs_what_it_reaches_back_to() -> None:
    assert needed_from_us(known(130, windows=True)) == {READINGS: 120 * SECOND_US}


def test_what_is_tentative_is_needed_until_it_is_corrected() -> None:
    assert needed_from_us(known(120, tentative_s=40)) == {READINGS: 40 * SECOND_US}


def test_an_output_that_no_shape_has_needs_nothing_for_its_tentative_rows() -> None:
    renamed = replace(
        a_fragment(PASSING),
        outputs={},
    )
    found = needed_from_us(known(120, tentative_s=40), (renamed,))
    assert found[READINGS] >= 120 * SECOND_US


def test_outputs_that_have_ended_need_nothing() -> None:
    made = known(0)
    ended = replace(made.outputs[TOTALS], boundary_us=FOREVER_US)
    assert needed_from_us(replace(made, outputs={TOTALS: ended})) == {READINGS: FOREVER_US}


def test_a_settled_fragment_needs_its_plan_alone() -> None:
    assert shapes_owed(known(120), NOW_PLANNED) == (a_fragment(PASSING),)
    assert shapes_owed(known(120), NOW_PLANNED | {OTHER: {}}) == (a_fragment(PASSING),)


def test_with_something_tentative_or_a_plan_to_follow_every_plan_counts() -> None:
    planned = NOW_PLANNED | {OTHER: {a_fragment(WINDOWS).id: a_fragment(WINDOWS)}}
    for made in (known(120, tentative_s=40), known(120, until_us=500 * SECOND_US)):
        shapes = shapes_owed(made, planned)
        assert shapes is not None
        assert len(shapes) == 2


def test_a_plan_that_is_not_known_makes_unknown_what_is_needed() -> None:
    assert shapes_owed(known(120), {}) is None
    assert shapes_owed(known(120, tentative_s=40), NOW_PLANNED | {UNKNOWN: None}) is None
    assert shapes_owed(known(120), NOW_PLANNED | {UNKNOWN: None}) is not None


def test_outputs_begin_where_all_that_they_read_is_kept() -> None:
    fragment, width_us = a_fragment(PASSING), 10 * SECOND_US
    assert earliest_bucket_us(fragment, 0, width_us, {}) == 0
    assert earliest_bucket_us(fragment, 0, width_us, {READINGS: BEGINNING_US}) == 0
    assert earliest_bucket_us(fragment, 0, width_us, {READINGS: 75 * SECOND_US}) == 80 * SECOND_US
    assert earliest_bucket_us(fragment, 0, width_us, {READINGS: 80 * SECOND_US}) == 80 * SECOND_US
    off_grid = 80 * SECOND_US + 1
    assert earliest_bucket_us(fragment, 0, width_us, {READINGS: off_grid}) == 90 * SECOND_US
    windows = a_fragment(WINDOWS)
    found = earliest_bucket_us(windows, 0, width_us, {READINGS: 75 * SECOND_US})
    # The bucket that ends at 180 s is the first whose window begins at 120 s.
    assert found == 120 * SECOND_US
