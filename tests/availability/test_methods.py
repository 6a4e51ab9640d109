"""What methods of availability cost and give keeps the order of the paper, whatever the figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from medusa_core.availability.measured_figures import Figure, FragmentFigures, record_cost
from medusa_core.availability.methods import (
    AvailabilityOption,
    cost_of_method,
    is_possible,
    options_of,
)
from medusa_core.errors import Refused
from medusa_core.market.terms import Method, Recovery
from tests.availability.drawn_figures import figures, numbers

EXAMPLE = FragmentFigures(
    fragment="counts/main",
    width_us=10_000_000,
    reach_us=60_000_000,
    unread_us=Figure(10_000_000),
    cpu=Figure(0.5),
    input_records=Figure(1_000),
    input_bytes=Figure(40_000),
    output_records=Figure(10),
    output_bytes=Figure(400),
    step_ms=Figure(500),
    record_us=Figure(100),
    takeover_ms=Figure(19_000),
    link_ms=Figure(50),
    link_bytes=Figure(10_000_000),
    copy_us=Figure(2),
)
"""A utilisation of 0.1."""


def option(of: FragmentFigures, method: Method, recovery: Recovery) -> AvailabilityOption:
    return next(o for o in options_of(of) if (o.method, o.recovery) == (method, recovery))


def test_figures_worked_out_by_hand() -> None:
    amnesia = option(EXAMPLE, Method.AMNESIA, Recovery.GAP)
    assert amnesia.lost_us == 19e6 + 60e6 + 10e6
    passive = option(EXAMPLE, Method.PASSIVE_STANDBY, Recovery.ROLLBACK)
    # 19 s are missed, 10.05 s computed again: a reach more is read, 10 % of it is time.
    fetched_ms = 50 + 1_000 * 40_000 * 89.05 / 10_000_000
    assert passive.recovery_ms == pytest.approx(19_000 + fetched_ms + (500 + 8_905) / 0.9)
    assert passive.repeated_rows == pytest.approx(100.5)
    upstream = option(EXAMPLE, Method.UPSTREAM_BACKUP, Recovery.ROLLBACK)
    assert upstream.repeated_rows == pytest.approx(200.5)
    assert upstream.cost.kept_bytes == 40_000 * 80
    active = option(EXAMPLE, Method.ACTIVE_STANDBY, Recovery.PRECISE)
    assert active.recovery_ms == pytest.approx(100 + (500 + 6_000) / 0.9)
    assert active.cost.cpu == pytest.approx(0.5 + 1_010 * 2e-6)
    assert active.cost.link_bytes == 40_400


@given(figures)
def test_only_amnesia_cannot_give_each_recovery(of: FragmentFigures) -> None:
    found = {(o.method, o.recovery) for o in options_of(of)}
    impossible = {(m, r) for m in Method for r in Recovery} - found
    assert impossible == {
        (Method.AMNESIA, Recovery.ROLLBACK), (Method.AMNESIA, Recovery.PRECISE)
    }  # fmt: skip
    assert all(is_possible(*pair) for pair in found)


@given(figures)
def test_nothing_is_lost_but_with_gap_and_nothing_repeated_but_with_rollback(
    of: FragmentFigures,
) -> None:
    for found in options_of(of):
        assert found.recovery is Recovery.GAP or found.lost_us == 0
        assert found.recovery is Recovery.ROLLBACK or found.repeated_rows == 0
        assert found.method is not Method.AMNESIA or found.lost_us > 0


@given(figures, st.sampled_from([Recovery.ROLLBACK, Recovery.PRECISE]))
def test_active_standby_recovers_first_and_upstream_backup_last(
    of: FragmentFigures, recovery: Recovery
) -> None:
    assume(of.utilisation < 1)
    active, passive, upstream = (
        option(of, method, recovery).recovery_ms or 0.0
        for method in (Method.ACTIVE_STANDBY, Method.PASSIVE_STANDBY, Method.UPSTREAM_BACKUP)
    )
    assert active <= passive * (1 + 1e-9)
    assert passive <= upstream * (1 + 1e-9)


@given(figures)
def test_active_standby_costs_a_second_computation_and_upstream_backup_nothing_but_storage(
    of: FragmentFigures,
) -> None:
    active = cost_of_method(of, Method.ACTIVE_STANDBY)
    passive = cost_of_method(of, Method.PASSIVE_STANDBY)
    upstream = cost_of_method(of, Method.UPSTREAM_BACKUP)
    assert active.cpu >= of.cpu.value + passive.cpu * (1 - 1e-9)
    assert active.link_bytes >= passive.link_bytes >= upstream.link_bytes == 0
    assert upstream.cpu == 0


@given(figures, st.integers(0, 3_600_000_000))
def test_longer_windows_never_shorten_a_recovery(of: FragmentFigures, more_us: int) -> None:
    longer = replace(of, reach_us=of.reach_us + more_us)
    for short, long in zip(options_of(of), options_of(longer), strict=True):
        if short.recovery_ms is not None and long.recovery_ms is not None:
            assert long.recovery_ms >= short.recovery_ms * (1 - 1e-9)


@given(figures)
def test_steps_that_take_longer_than_their_records_never_catch_up(of: FragmentFigures) -> None:
    busy = replace(of, input_records=Figure(1e6), record_us=Figure(1))
    assert {o.recovery_ms for o in options_of(busy)} == {None}


@given(numbers(1e6), numbers(64), numbers(1e6))
def test_a_record_of_a_large_step_costs_no_more_than_what_is_metered_for_one(
    seen_us: Figure, cpu: Figure, records: Figure
) -> None:
    found = record_cost(seen_us, cpu, records)
    assert found.value <= seen_us.value
    assert found.value * records.value <= max(cpu.value * 1e6, 0.0) * (1 + 1e-9) or (
        not cpu.value and found == seen_us
    )
    assumed = Figure(cpu.value, "nothing was metered")
    assert record_cost(seen_us, assumed, records) == seen_us


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_figure_that_is_not_a_number_of_0_or_more_is_refused(value: float) -> None:
    with pytest.raises(Refused, match="is not valid"):
        Figure(value)
