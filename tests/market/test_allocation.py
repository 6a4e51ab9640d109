"""An allocation is acceptable if nobody carries too much while another one has room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.market.allocation import Allocation, allocation_of, is_misstated

LOADS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("loads", "thresholds", "expected"),
    [
        ([3, 2], [3, 4], Allocation(True, 0)),
        ([5, 2], [3, 4], Allocation(False, 2)),
        ([4, 1], [3, 4], Allocation(False, 3)),
        ([9, 4], [3, 4], Allocation(True, 0)),
        ([9, 3], [3, 4], Allocation(False, 1)),
        ([], [], Allocation(True, 0)),
    ],
)
def test_load_that_fits_is_nowhere_too_much_and_load_that_does_not_leaves_no_room(
    loads: list[float], thresholds: list[float], expected: Allocation
) -> None:
    assert allocation_of(loads, thresholds) == expected


@given(LOADS)
def test_no_unit_can_go_from_who_carries_too_much_to_who_has_room_where_it_is_acceptable(
    participants: list[tuple[int, int]],
) -> None:
    loads, thresholds = zip(*participants, strict=True)
    over = any(load > most for load, most in participants)
    room = max(most - load for load, most in participants)
    found = allocation_of(loads, thresholds)
    assert found.is_acceptable == (not over or room <= 0)
    assert found.within == (0 if found.is_acceptable else room)


def test_a_stated_load_is_wrong_beyond_a_quarter() -> None:
    assert not is_misstated(0.4, 0.49)
    assert not is_misstated(0.4, 0.31)
    assert is_misstated(0.4, 0.51)
    assert is_misstated(0.4, 0.29)
