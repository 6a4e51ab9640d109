"""Running: the ranges that its rows need, its rows by brute force, and what it refuses to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.fragments import end_of
from medusa_core.grid import Range
from medusa_core.network import Aggregate, Running
from medusa_core.plans import network_document, network_of_document
from pipelines.simulation.faults.evaluate import running
from tests.core.builders import seconds
from tests.core.trips import AT, RESULT, ROWS, TRIPS, Row, a_fragment, a_network


def a_running(**given: Any) -> Running:
    parts: dict[str, Any] = {
        "name": "totals",
        "input": "trips",
        "by": ("user",),
        "within": "1h",
        "columns": {"total": "sum(fee)", "n": "count(*)"},
    }
    return Running(**(parts | given))


def up_to(box: Running, rows: Sequence[Row], last: int) -> Row:
    """A row of the box: every other row is looked at, whether it is of the key and before it."""
    own = rows[last]
    counted = [
        row
        for at, row in enumerate(rows)
        if (row[0] // box.within_us, row[1]) == (own[0] // box.within_us, own[1])
        and (row, at) <= (own, last)
    ]
    return (*own, sum(row[2] for row in counted), len(counted))


def test_an_output_bucket_needs_what_the_worked_example_says() -> None:
    """11:20 to 11:21 of some day needs the records from 11:00 on."""
    need = a_fragment(a_running()).needed(RESULT, seconds(40_800, 40_860))
    assert need == {TRIPS: seconds(39_600, 40_860)}


def test_the_rows_are_those_of_the_worked_example() -> None:
    minute, ann, nobody = 60_000_000, 1, 0
    rows = [
        (659 * minute, ann, 1), (660 * minute, ann, 2), (680 * minute, ann, 4),
        (680 * minute, ann, 4), (680 * minute, nobody, 5),
    ]  # fmt: skip
    assert Counter(row[1:] for row in running(a_running(), rows, AT)) == Counter(
        [(ann, 1, 1, 1), (ann, 2, 2, 1), (ann, 4, 6, 2), (ann, 4, 10, 3), (nobody, 5, 5, 1)]
    )


@given(rows=ROWS, within=st.integers(1, 9))
def test_each_record_has_the_aggregates_of_its_key_and_span_up_to_itself(
    rows: list[Row], within: int
) -> None:
    box = a_running(within=f"{within}us")
    expected = Counter(up_to(box, rows, at) for at in range(len(rows)))
    assert Counter(running(box, rows, AT)) == expected


@given(rows=st.lists(st.tuples(st.integers(0, 1), st.just(0), st.integers(0, 1)), max_size=6))
def test_equal_records_in_any_order_give_the_same_rows(rows: list[Row]) -> None:
    """Numbered, so that each way to sort the equal ones is taken."""
    box = a_running(within="10us")
    expected = Counter(running(box, rows, AT))
    for order in permutations(range(len(rows))):
        placed = [rows[at] for at in sorted(order, key=lambda at: (rows[at], order.index(at)))]
        made = [
            (*row, sum(r[2] for r in placed[: at + 1]), at + 1) for at, row in enumerate(placed)
        ]
        assert Counter(made) == expected


@given(rows=ROWS, within=st.integers(1, 9), start=st.integers(-9, 9), length=st.integers(1, 9))
def test_rows_of_a_range_are_computed_from_the_range_that_they_need(
    rows: list[Row], within: int, start: int, length: int
) -> None:
    box, part = a_running(within=f"{within}us"), Range(start, start + length)
    need = a_fragment(box).needed(RESULT, part)[TRIPS]
    made = running(box, [row for row in rows if need.holds(row[0])], AT)
    expected = Counter(row for row in running(box, rows, AT) if part.holds(row[0]))
    assert Counter(row for row in made if part.holds(row[0])) == expected


@given(within=st.integers(1, 9), start=st.integers(-20, 20), length=st.integers(1, 9))
def test_the_needed_range_is_the_smallest_that_holds_every_record_that_matters(
    within: int, start: int, length: int
) -> None:
    part, box = Range(start, start + length), a_running(within=f"{within}us")
    later = [(at, 0, 1) for at in range(part.from_us, part.to_us)]
    without = [row for row in running(box, later, AT) if part.holds(row[0])]
    matter = [
        at
        for at in range(-60, 60)
        if [r for r in running(box, [*later, (at, 0, 1)], AT) if part.holds(r[0])] != without
    ]
    need = a_fragment(box).needed(RESULT, part)
    assert need == {TRIPS: Range(matter[0], matter[-1] + 1)}


def test_an_output_ends_where_its_input_does() -> None:
    ends = {TRIPS: 61_000_000}
    assert end_of(a_fragment(a_running()), RESULT, ends, 10_000_000) == 70_000_000


def test_windows_behind_a_running_need_the_spans_in_which_they_begin() -> None:
    most = Aggregate(name="most", input="totals", size="90s", columns={"n": "max(n)"})
    need = a_fragment(a_running(within="60s"), most).needed(RESULT, seconds(90, 180))
    assert need == {TRIPS: seconds(60, 180)}


def test_a_running_is_read_back_from_its_document() -> None:
    network = a_network(a_running(by=("user", "fee")))
    assert network_of_document(network_document(network)) == network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"columns": {}}, r"running totals has no columns: write columns=\{'n': 'count\(\*\)'\}"),
        ({"columns": {"N": "count(*)"}}, "column of running totals, 'N' is not a name"),
        ({"columns": {"n": 1}}, "columns of box totals has 'n': 1: write both in quotes"),
        ({"by": "user"}, "by of box totals is a text: write a tuple"),
        ({"by": ("user", "user")}, "running totals has a key twice among user, user: name each"),
        ({"by": ("User",)}, "key of running totals, 'User' is not a name"),
        ({"within": "1 day"}, "within of running totals: duration '1 day' is not one"),
        ({"within": "0s"}, "within of running totals: duration '0s' is out of range"),
        ({"within": None}, "within of running totals: duration None is not one"),
        ({"input": "trip"}, "box totals of network example reads 'trip', which is neither"),
    ],
)
def test_a_running_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(a_running(**given))
