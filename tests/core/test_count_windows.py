"""Every: the ranges that its rows need, its rows by brute force, and what it refuses to be."""

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
from medusa_core.network import Aggregate, Every
from medusa_core.plans import network_document, network_of_document
from pipelines.simulation.faults.evaluate import counted_out
from tests.core.builders import seconds
from tests.core.trips import AT, RESULT, ROWS, TRIPS, Row, a_fragment, a_network


def an_every(**given: Any) -> Every:
    parts: dict[str, Any] = {
        "name": "pairs",
        "input": "trips",
        "by": ("user",),
        "n": 2,
        "within": "1h",
        "columns": {"total": "sum(fee)"},
    }
    return Every(**(parts | given))


def by_counting(box: Every, rows: Sequence[Row]) -> Counter[Row]:
    """The rows of the box, record by record: a counter and a sum for each key and span."""
    found: Counter[Row] = Counter()
    counts: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    for at, user, fee in sorted(rows):
        key = (at // box.within_us, user)
        counts[key] += 1
        sums[key] += fee
        if counts[key] % box.n == 0:
            found[at, user, sums.pop(key)] += 1
    return found


def test_an_output_bucket_needs_what_the_worked_example_says() -> None:
    """11:40 to 11:41 of some day needs the records from 11:00 on."""
    need = a_fragment(an_every()).needed(RESULT, seconds(42_000, 42_060))
    assert need == {TRIPS: seconds(39_600, 42_060)}


def test_the_rows_are_those_of_the_worked_example() -> None:
    minute, ann, nobody = 60_000_000, 1, 0
    rows = [
        (660 * minute - 2_000_000, ann, 1), (660 * minute, ann, 2), (680 * minute, ann, 4),
        (680 * minute, ann, 4), (690 * minute, nobody, 5), (700 * minute, ann, 0),
    ]  # fmt: skip
    assert Counter(counted_out(an_every(), rows, AT)) == Counter(
        [(680 * minute, ann, 6), (700 * minute, ann, 4)]
    )


@given(rows=ROWS, n=st.integers(1, 4), within=st.integers(1, 9))
def test_each_full_group_gives_one_row_at_the_time_of_its_last_record(
    rows: list[Row], n: int, within: int
) -> None:
    box = an_every(n=n, within=f"{within}us")
    assert Counter(counted_out(box, rows, AT)) == by_counting(box, rows)


@given(
    rows=st.lists(st.tuples(st.integers(0, 1), st.just(0), st.integers(0, 1)), max_size=6),
    n=st.integers(1, 3),
)
def test_equal_records_in_any_order_give_the_same_rows(rows: list[Row], n: int) -> None:
    """Numbered, so that each way to sort the equal ones is taken."""
    box = an_every(n=n, within="10us")
    expected = Counter(counted_out(box, rows, AT))
    for order in permutations(range(len(rows))):
        placed = [rows[at] for at in sorted(order, key=lambda at: (rows[at], order.index(at)))]
        groups = [placed[end - n : end] for end in range(n, len(placed) + 1, n)]
        made = [(group[-1][0], 0, sum(row[2] for row in group)) for group in groups]
        assert Counter(made) == expected


@given(
    rows=ROWS,
    n=st.integers(1, 4),
    within=st.integers(1, 9),
    start=st.integers(-9, 9),
    length=st.integers(1, 9),
)
def test_rows_of_a_range_are_computed_from_the_range_that_they_need(
    rows: list[Row], n: int, within: int, start: int, length: int
) -> None:
    box, part = an_every(n=n, within=f"{within}us"), Range(start, start + length)
    need = a_fragment(box).needed(RESULT, part)[TRIPS]
    made = counted_out(box, [row for row in rows if need.holds(row[0])], AT)
    expected = Counter(row for row in counted_out(box, rows, AT) if part.holds(row[0]))
    assert Counter(row for row in made if part.holds(row[0])) == expected


@given(within=st.integers(1, 9), start=st.integers(-20, 20), length=st.integers(1, 9))
def test_the_needed_range_is_the_smallest_that_holds_every_record_that_matters(
    within: int, start: int, length: int
) -> None:
    part, box = Range(start, start + length), an_every(n=1, within=f"{within}us")
    matter: set[int] = set()
    for n in (1, 2):
        box = an_every(n=n, within=f"{within}us")
        later = [(at, 0, 1) for at in range(part.from_us, part.to_us)]
        without = [row for row in counted_out(box, later, AT) if part.holds(row[0])]
        matter |= {
            at
            for at in range(-60, 60)
            if [r for r in counted_out(box, [*later, (at, 0, 2)], AT) if part.holds(r[0])]
            != without
        }
    need = a_fragment(box).needed(RESULT, part)
    assert need == {TRIPS: Range(min(matter), max(matter) + 1)}


def test_an_output_ends_where_its_input_does() -> None:
    ends = {TRIPS: 61_000_000}
    assert end_of(a_fragment(an_every()), RESULT, ends, 10_000_000) == 70_000_000


def test_windows_behind_an_every_need_the_spans_in_which_they_begin() -> None:
    most = Aggregate(name="most", input="pairs", size="90s", columns={"n": "max(total)"})
    need = a_fragment(an_every(within="60s"), most).needed(RESULT, seconds(90, 180))
    assert need == {TRIPS: seconds(60, 180)}


def test_an_every_is_read_back_from_its_document() -> None:
    network = a_network(an_every(by=("user", "fee"), n=10))
    assert network_of_document(network_document(network)) == network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 0}, "n of every pairs is 0: write how many records give one row, a whole number"),
        ({"n": "10"}, "n of every pairs is '10': write how many records"),
        ({"n": True}, "n of every pairs is True: write how many records"),
        ({"n": 1_000_001}, "n of every pairs is 1000001: .* a whole number from 1 to 1,000,000"),
        ({"columns": {}}, r"every pairs has no columns: write columns=\{'total': 'sum\(x\)'\}"),
        ({"columns": {"Sum": "sum(fee)"}}, "column of every pairs, 'Sum' is not a name"),
        ({"columns": {"user": "max(user)"}},
         "every pairs has two columns named 'user', a key and an aggregate: give the aggregate"),
        ({"by": "user"}, "by of box pairs is a text: write a tuple"),
        ({"by": ("user", "user")}, "every pairs has a key twice among user, user: name each once"),
        ({"within": "soon"}, "within of every pairs: duration 'soon' is not one"),
        ({"within": None}, "within of every pairs: duration None is not one"),
        ({"input": "trip"}, "box pairs of network example reads 'trip', which is neither"),
    ],
)  # fmt: skip
def test_an_every_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(an_every(**given))
