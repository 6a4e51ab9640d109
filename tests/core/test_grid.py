"""Event time is cut the same way whatever was seen first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.grid import Range, ceil_us, floor_us, parse_duration_us

times = st.integers(-(10**18), 10**18)
widths = st.integers(1, 10**13)


@given(times, widths)
def test_every_instant_lies_in_exactly_one_bucket_of_a_grid_that_starts_at_the_epoch(
    at: int, width: int
) -> None:
    start = floor_us(at, width)
    assert start % width == 0
    assert start <= at < start + width


@given(times, widths)
def test_rounding_up_gives_the_first_bucket_start_not_before(at: int, width: int) -> None:
    assert ceil_us(at, width) - width < at <= ceil_us(at, width)


@given(times, st.integers(1, 10**9), widths)
def test_a_widened_range_is_whole_buckets_and_no_more_than_needed(
    at: int, length: int, width: int
) -> None:
    part = Range(at, at + length)
    wide = part.widened(width)
    assert wide.covers(part)
    assert wide.from_us % width == wide.to_us % width == 0
    assert wide.from_us + width > part.from_us
    assert wide.to_us - width < part.to_us


def test_ranges_that_only_touch_do_not_overlap() -> None:
    assert not Range(0, 10).overlaps(Range(10, 20))
    assert Range(0, 10).intersection(Range(10, 20)) is None
    assert Range(0, 11).intersection(Range(10, 20)) == Range(10, 11)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(Refused, match="is empty"):
        Range(5, 5)


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [("10s", 10_000_000), ("250ms", 250_000), ("15m", 900_000_000), ("1us", 1), (7, 7_000_000)],
)
def test_durations_are_numbers_with_a_unit(text: str | int, expected_us: int) -> None:
    assert parse_duration_us(text) == expected_us


@pytest.mark.parametrize(
    "text", ["0s", "-1s", "10", "1.5s", "s", "10 fortnights", "400d", "9" * 40 + "s", True, None]
)
def test_what_is_no_duration_is_refused_in_one_sentence(text: object) -> None:
    with pytest.raises(Refused, match="duration"):
        parse_duration_us(text)  # type: ignore[arg-type]
