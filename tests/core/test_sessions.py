"""Session: which sessions there are, the ranges that their rows need, and what it refuses to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, end_of, fragments_of
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Network, Output, Session, Source
from medusa_core.plans import network_document, network_of_document
from tests.core.builders import seconds

CLICKS, RESULT = StreamName("clicks"), StreamName("result")
MINUTE_S, HOUR_S = 60, 3_600
Record = tuple[int, str | None, int]
"""Event time, key, number."""
Row = tuple[int, int, int, str | None, int, int]
"""Event time, first record, end, key, count, sum."""


def a_session(**given: Any) -> Session:
    parts: dict[str, Any] = {
        "name": "visits", "input": "clicks", "by": ("user",), "gap": "5m", "length_max": "1h",
        "columns": {"n": "count(*)"},
    }  # fmt: skip
    return Session(**(parts | given))


def a_network(*boxes: Box) -> Network:
    columns = {"at_us": "bigint", "user": "string", "price": "int"}
    return Network(
        name="example",
        sources=(Source(name="clicks", columns=columns, time="at_us"),),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )


def a_fragment(*boxes: Box) -> Fragment:
    (fragment,) = fragments_of(a_network(*boxes))
    return fragment


def sessions(records: Sequence[Record], gap: int, length_max: int) -> list[Row]:
    """The rows of a Session over all records."""
    found: list[Row] = []
    for key in {key for _, key, _ in records}:
        own = sorted((at, number) for at, its, number in records if its == key)
        breaks = [n + 1 for n, (a, b) in enumerate(pairwise(own)) if b[0] - a[0] >= gap]
        for first, end in pairwise((0, *breaks, len(own))):
            run = own[first:end]
            cuts = [run[0][0] + length_max]
            cuts += [at for at in range(cuts[0] + 1, run[-1][0] + 1) if at % length_max == 0]
            for number in range(len(cuts) + 1):
                piece = [(at, n) for at, n in run if sum(cut <= at for cut in cuts) == number]
                if piece:
                    ends = piece[-1][0] + gap
                    total = sum(n for _, n in piece)
                    found.append((ends - 1, piece[0][0], ends, key, len(piece), total))
    return found


def spans(records: Sequence[Record], gap: int, length_max: int) -> list[tuple[int, int]]:
    """First and last record of each session."""
    return sorted((row[1], row[2] - gap) for row in sessions(records, gap, length_max))


def minutes(*times: str) -> list[Record]:
    clock = (time.split(":") for time in times)
    return [(60 * int(hour) + int(minute), "a", 1) for hour, minute in clock]


def test_sessions_are_those_of_the_worked_example() -> None:
    """In minutes, with a gap of 5 and sessions shorter than 60."""
    first, last = 13 * 60 + 10, 15 * 60 + 30
    flood = [(at, "a", 1) for at in range(first, last + 1, 4)]
    visits = minutes("11:50", "11:54", "11:58", "12:02", "12:06", "12:10", "12:15")
    ends = minutes("11:50", "12:10", "12:15", "12:15", "13:10", "14:06", "14:10", "14:58",
                   "15:02", "15:30")  # fmt: skip
    times = [at for at, *_ in ends]
    assert spans([*visits, *flood], 5, 60) == list(zip(times[::2], times[1::2], strict=True))


def test_an_output_bucket_needs_what_the_worked_example_says() -> None:
    bucket = seconds(15 * HOUR_S + 2 * MINUTE_S, 15 * HOUR_S + 3 * MINUTE_S)
    need = a_fragment(a_session()).needed(RESULT, bucket)
    first_us = (12 * HOUR_S + 55 * MINUTE_S) * 1_000_000 + 2
    assert need == {CLICKS: Range(first_us, bucket.to_us)}


RECORDS = st.lists(
    st.tuples(st.integers(-30, 30), st.sampled_from(["a", "a", "a", "b", None]), st.integers(0, 2)),
    max_size=40,
)
LENGTHS = st.tuples(st.integers(1, 5), st.integers(1, 12)).map(lambda p: (p[0], p[0] + p[1]))
"""A gap, and a length that is greater."""


@given(records=RECORDS, lengths=LENGTHS, cuts=st.lists(st.integers(-40, 50), max_size=9))
@example(records=[(-30, None, 1), (-30, None, 1)], lengths=(3, 4), cuts=[-28, -27])
@example(records=[(at, "a", 1) for at in range(0, 20, 2)], lengths=(3, 9), cuts=[8, 9, 10, 11])
@example(records=[(at, "a", 1) for at in range(0, 20, 2)], lengths=(2, 9), cuts=[])
def test_i2_rows_are_the_same_computed_from_no_more_than_the_needed_range(
    records: list[Record], lengths: tuple[int, int], cuts: list[int]
) -> None:
    gap, length_max = lengths
    fragment = a_fragment(a_session(gap=f"{gap}us", length_max=f"{length_max}us"))
    whole = Counter(sessions(records, *lengths))
    made: Counter[Row] = Counter()
    for part in (Range(a, b) for a, b in pairwise(sorted({-40, *cuts, 50}))):
        need = fragment.needed(RESULT, part)[CLICKS]
        read = [record for record in records if need.holds(record[0])]
        made.update(row for row in sessions(read, *lengths) if part.holds(row[0]))
        if len(read) < len(records) and any(part.holds(row[0]) for row in whole):
            event("a part with rows that needs a part of the records")
    assert made == whole
    if any(row[2] - gap - row[1] < length_max <= row[0] - row[1] for row in whole):
        event("a session that is just as long as may be")


@given(records=RECORDS, lengths=LENGTHS)
def test_every_record_is_in_one_session_that_is_shorter_than_the_greatest_length(
    records: list[Record], lengths: tuple[int, int]
) -> None:
    gap, length_max = lengths
    rows = sessions(records, gap, length_max)
    assert sum(row[4] for row in rows) == len(records)
    assert all(ends - gap - first < length_max for _, first, ends, *_ in rows)


@given(gap=st.integers(2, 5), more=st.integers(1, 12), start=st.integers(-20, 20))
def test_no_smaller_range_would_give_the_same_rows(gap: int, more: int, start: int) -> None:
    """The first position of the needed range, and the last one, decide on a row."""
    length_max = gap + more
    fragment = a_fragment(a_session(gap=f"{gap}us", length_max=f"{length_max}us"))
    part = Range(start, start + length_max)
    need = fragment.needed(RESULT, part)[CLICKS]
    # A chain from the first position on, with a record a gap - 1 later: without the first one, the
    # run begins a length less one before the multiple.
    cut = need.from_us + length_max + gap - 2
    assert cut % length_max == 0
    second = need.from_us + gap - 1
    chain = [(at, "a", 1) for at in (need.from_us, *range(second, part.to_us))]
    rows, without = (
        {row for row in sessions(found, gap, length_max) if part.holds(row[0])}
        for found in (chain, chain[1:])
    )
    assert rows != without
    last = part.to_us - 1
    ends = [(last - gap + 1, "a", 1), (last, "a", 1)]
    rows, without = (
        {row for row in sessions(found, gap, length_max) if part.holds(row[0])}
        for found in (ends, ends[:1])
    )
    assert rows != without


@pytest.mark.parametrize(
    ("last", "expected"),
    [(59, [(7, 66)]), (60, [(7, 66), (67, 67)]), (61, [(7, 66), (67, 68)])],
)
def test_a_run_stays_whole_until_it_is_as_long_as_the_greatest_length(
    last: int, expected: list[tuple[int, int]]
) -> None:
    """It is cut one length after its first record, at 67; the next cut is at 120."""
    assert spans([(7 + at, "a", 1) for at in range(last + 1)], 5, 60) == expected


def test_a_record_exactly_one_gap_later_begins_another_session() -> None:
    assert spans([(0, "a", 1), (4, "a", 1), (9, "a", 1)], 5, 60) == [(0, 4), (9, 9)]


def test_an_output_ends_one_gap_after_its_input() -> None:
    """A record at 60.999999 s makes a row at 65.999998 s."""
    fragment = a_fragment(a_session(gap="5s"))
    assert fragment.ends_us(RESULT, {CLICKS: 61_000_000}) == 65_999_999
    assert end_of(fragment, RESULT, {CLICKS: 61_000_000}, 10_000_000) == 70_000_000


def test_windows_behind_a_session_need_the_sessions_that_end_in_them() -> None:
    daily = Aggregate(name="daily", input="visits", size="1d", columns={"n": "count(*)"})
    need = a_fragment(a_session(), daily).needed(RESULT, seconds(0, 24 * HOUR_S))
    # The first last record is at 23:55:00.000001 of the day before, and the multiple at 23:00.
    first_us = -(2 * HOUR_S + 5 * MINUTE_S) * 1_000_000 + 2
    assert need == {CLICKS: Range(first_us, 24 * HOUR_S * 1_000_000)}


def test_a_session_is_read_back_from_its_document() -> None:
    network = a_network(a_session(by=("user", "price"), columns={"n": "count(*)", "a": "sum(n)"}))
    assert network_of_document(network_document(network)) == network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gap": None}, "session visits has no gap: write how long after its last record a ses"),
        ({"length_max": None}, "session visits has no length_max: write how long a session may l"),
        ({"gap": "soon"}, "gap of session visits: duration 'soon' is not one"),
        ({"gap": "5 minutes"}, r"gap of session visits: duration .* is not one: did you mean '5m'"),
        ({"gap": "0s"}, "gap of session visits: duration '0s' is out of range"),
        ({"length_max": "2y"}, "length_max of session visits: duration '2y' is not one"),
        ({"length_max": "400d"}, "length_max of session visits: duration '400d' is out of range"),
        ({"gap": "1h"}, "a gap of 1h and a length_max of 1h: write a length_max that is longer"),
        ({"gap": "2h"}, "visits has a gap of 2h and a length_max of 1h: write a length_max"),
        ({"by": "user"}, "by of box visits is a text: write a tuple"),
        ({"by": ("user", "user")}, "session visits has a column twice among user, user, n: name"),
        ({"by": ("n",)}, "session visits has a column twice among n, n: name each once"),
        ({"by": ("User",)}, "column of session visits, 'User' is not a name"),
        ({"by": ("window_start",)}, "session visits has window_start in by: window_start and"),
        ({"columns": {"window_end": "max(price)"}}, "has window_end among its columns: window_st"),
        ({"columns": {"n": 1}}, "columns of box visits has 'n': 1: write both in quotes"),
        ({"input": "click"}, "box visits of network example reads 'click', which is neither"),
    ],
)  # fmt: skip
def test_a_session_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(a_session(**given))
