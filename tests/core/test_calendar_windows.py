"""Calendar windows: where they start and end, which records an output needs, what is refused.

The offsets are those of the database of time zones in some years, or such as no zone has. Windows
are found again by trying every instant at which a period could start (`tests.calendars`).
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.calendar_windows import PERIODS, CalendarWindows, length_us_max
from medusa_core.errors import Refused
from medusa_core.failure_rules import failure_rules
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range
from medusa_core.market.definitions import (
    definition_of,
    document_of_definition,
    read_definition,
)
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant, StreamName
from medusa_core.network import Aggregate, Network, Output, Source
from medusa_core.plans import network_document, network_of_document
from tests.calendars import period_starts

HOUR_US = 3_600_000_000
RECORDS, RESULT = StreamName("records"), StreamName("result")


def at_s(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def at_us(text: str) -> int:
    return at_s(text) * 1_000_000


BERLIN = f"3600 {at_s('2026-03-29T01:00')}:7200 {at_s('2026-10-25T01:00')}:3600"
BEIRUT = f"7200 {at_s('2026-03-28T22:00')}:10800 {at_s('2026-10-24T21:00')}:7200"
SAO_PAULO = f"-10800 {at_s('2018-11-04T03:00')}:-7200 {at_s('2019-02-17T02:00')}:-10800"
ST_JOHNS = f"-12600 {at_s('2009-03-08T03:31')}:-9000 {at_s('2009-11-01T02:31')}:-12600"
APIA = f"-39600 {at_s('2011-09-24T14:00')}:-36000 {at_s('2011-12-30T10:00')}:50400"
SITKA = f"53927 {at_s('1867-10-19T00:31:13')}:-32473"
OFFSETS = {
    BERLIN: 2026, BEIRUT: 2026, SAO_PAULO: 2018, ST_JOHNS: 2009, APIA: 2011, SITKA: 1867,
    "0": 1969, "-17100": 1600, "20 -10:-30": 1969, "-45 10:0 30:-60 50:5": 1969,
}  # fmt: skip
"""Offsets, and a year in which they change or days are looked at."""


def an_aggregate(**given: Any) -> Aggregate:
    parts: dict[str, Any] = {
        "name": "daily", "input": "records", "every": "day", "zone": "Europe/Berlin",
        "columns": {"n": "count(*)"},
    }  # fmt: skip
    return Aggregate(**(parts | given))


def a_network(*boxes: Aggregate) -> Network:
    return Network(
        name="example",
        sources=(Source(name="records", columns={"at_us": "bigint"}, time="at_us"),),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )


def a_fragment(**given: Any) -> Fragment:
    (fragment,) = fragments_of(a_network(an_aggregate(**given)))
    return fragment


@cache
def starts_of(every: str, offsets: str) -> list[int]:
    year = OFFSETS[offsets]
    return period_starts(every, offsets, range(year - 2, year + 4))


def window(from_: str, to: str) -> Range:
    return Range(at_us(from_), at_us(to))


@pytest.mark.parametrize(
    ("offsets", "every", "at", "expected"),
    [
        (BERLIN, "day", "2026-03-28T12:00", window("2026-03-27T23:00", "2026-03-28T23:00")),
        (BERLIN, "day", "2026-03-29T12:00", window("2026-03-28T23:00", "2026-03-29T22:00")),
        (BERLIN, "day", "2026-10-25T12:00", window("2026-10-24T22:00", "2026-10-25T23:00")),
        (BERLIN, "week", "2026-03-29T12:00", window("2026-03-22T23:00", "2026-03-29T22:00")),
        (BERLIN, "month", "2026-03-31T12:00", window("2026-02-28T23:00", "2026-03-31T22:00")),
        (BERLIN, "quarter", "2026-03-31T12:00", window("2025-12-31T23:00", "2026-03-31T22:00")),
        (BERLIN, "year", "2026-07-01T00:00", window("2025-12-31T23:00", "2026-12-31T23:00")),
        (BEIRUT, "day", "2026-03-28T22:00", window("2026-03-28T22:00", "2026-03-29T21:00")),
        (BEIRUT, "day", "2026-10-24T21:30", window("2026-10-23T21:00", "2026-10-24T22:00")),
        (SAO_PAULO, "day", "2018-11-04T03:00", window("2018-11-04T03:00", "2018-11-05T02:00")),
        (SAO_PAULO, "day", "2019-02-17T02:30", window("2019-02-16T02:00", "2019-02-17T03:00")),
        (ST_JOHNS, "day", "2009-11-01T02:30", window("2009-11-01T02:30", "2009-11-02T03:30")),
        (ST_JOHNS, "day", "2009-11-01T03:29", window("2009-11-01T02:30", "2009-11-02T03:30")),
        (APIA, "day", "2011-12-30T09:59", window("2011-12-29T10:00", "2011-12-30T10:00")),
        (APIA, "day", "2011-12-30T10:00", window("2011-12-30T10:00", "2011-12-31T10:00")),
        ("0", "year", "1969-12-31T23:59", window("1969-01-01T00:00", "1970-01-01T00:00")),
        ("0", "week", "1970-01-01T00:00", window("1969-12-29T00:00", "1970-01-05T00:00")),
    ],
)
def test_a_period_goes_from_its_first_instant_to_that_of_the_next(
    offsets: str, every: str, at: str, expected: Range
) -> None:
    assert CalendarWindows(every, offsets).window_at(at_us(at)) == expected


def test_an_output_bucket_needs_what_the_worked_example_says() -> None:
    fragment = a_fragment(zone_offsets=BERLIN)
    end_us = at_us("2026-03-29T22:00")
    bucket = Range(end_us - 10_000_000, end_us)
    assert fragment.needed(RESULT, bucket) == {
        RECORDS: window("2026-03-28T23:00", "2026-03-29T22:00")
    }
    before = Range(bucket.from_us - 10_000_000, bucket.from_us)
    assert fragment.needed(RESULT, before) == {}


@st.composite
def instants(draw: st.DrawFn) -> tuple[str, str, list[int], int]:
    """A period, offsets, the starts of windows, and an instant that is often near one of them."""
    every, offsets = draw(st.sampled_from(PERIODS)), draw(st.sampled_from(sorted(OFFSETS)))
    starts = starts_of(every, offsets)
    near = draw(st.sampled_from([*starts[1:-1], *_changes_of(offsets)]))
    away = draw(st.sampled_from((0, 1, -1, 30_000_000, HOUR_US, -HOUR_US, HOUR_US - 1)))
    moved = draw(st.just(near + away) | st.integers(starts[0], starts[-1] - 1))
    return every, offsets, starts, max(starts[0], min(moved, starts[-1] - 1))


def _changes_of(offsets: str) -> list[int]:
    return [int(one.partition(":")[0]) * 1_000_000 for one in offsets.split(" ")[1:]]


@given(instants())
def test_a_window_is_the_one_between_two_starts(given: tuple[str, str, list[int], int]) -> None:
    every, offsets, starts, time_us = given
    found = CalendarWindows(every, offsets).window_at(time_us)
    at = bisect_right(starts, time_us)
    assert (found.from_us, found.to_us) == (starts[at - 1], starts[at])
    assert found.to_us - found.from_us <= length_us_max(every)


@given(instants(), st.integers(1, 3 * 366 * 24))
def test_a_range_of_rows_needs_the_windows_that_end_in_it(
    given: tuple[str, str, list[int], int], hours: int
) -> None:
    every, offsets, starts, from_us = given
    part = Range(from_us, max(from_us + 1, min(from_us + hours * HOUR_US, starts[-1] - 1)))
    rows = [at for at, end in enumerate(starts[1:]) if part.from_us <= end - 1 < part.to_us]
    needed = Range(starts[rows[0]], starts[rows[-1] + 1]) if rows else None
    fragment = a_fragment(every=every, zone_offsets=offsets)
    assert fragment.needed(RESULT, part) == ({RECORDS: needed} if needed else {})


@given(instants())
def test_rows_end_with_the_window_of_the_last_record(
    given: tuple[str, str, list[int], int],
) -> None:
    every, offsets, starts, time_us = given
    fragment = a_fragment(every=every, zone_offsets=offsets)
    ends_us = fragment.ends_us(RESULT, {RECORDS: time_us + 1})
    assert ends_us == starts[bisect_right(starts, time_us)]


@given(instants(), st.lists(st.integers(1, 400 * 24), min_size=1, max_size=5))
def test_each_failed_record_is_reported_by_one_step(
    given: tuple[str, str, list[int], int], hours: list[int]
) -> None:
    """Steps over neighbouring ranges report neighbouring positions, each record at its row."""
    every, offsets, _, from_us = given
    windows = (an_aggregate(name="first", every=every, zone_offsets=offsets),
               an_aggregate(name="second", input="first", zone_offsets=offsets))  # fmt: skip
    (fragment,) = fragments_of(a_network(*windows))
    rule = failure_rules(fragment).of_records["second"]
    bounds = [from_us]
    for more in hours:
        bounds.append(bounds[-1] + more * HOUR_US)
    parts = [rule.positions(Range(a, b)) for a, b in itertools.pairwise(bounds)]
    found = [part for part in parts if part is not None]
    assert all(a.to_us == b.from_us for a, b in itertools.pairwise(found))
    for part, (a, b) in zip(parts, itertools.pairwise(bounds), strict=True):
        if part is not None:
            (route,) = rule.routes
            assert a <= route.first_need_us(part.from_us) < b
            assert a <= route.first_need_us(part.to_us - 1) < b


def test_a_calendar_survives_its_document_and_other_plans_keep_theirs() -> None:
    network = a_network(an_aggregate(zone_offsets=BERLIN))
    assert network_of_document(network_document(network)) == network
    fixed = a_network(an_aggregate(every=None, zone=None, size="1d"))
    (document,) = network_document(fixed)["boxes"]  # type: ignore[misc]
    assert not {"every", "zone", "zone_offsets"} & set(document)


def test_a_buyer_may_define_calendar_windows_with_the_offsets_of_their_zone() -> None:
    box = an_aggregate(input="s", zone_offsets=BERLIN)
    network = Network(
        name="mine",
        sources=(Source(name="s", stream="beta/sums", columns={"at_us": "bigint"}),),
        boxes=(box,),
        outputs=(Output(name="busy", input="daily"),),
    )
    names = ContractName("sold"), Participant("beta"), StreamName("sums")
    definition = definition_of(network, *names)
    assert definition.boxes == (replace(box, input="sums"),)
    assert read_definition(json.loads(document_of_definition(definition))) == definition


@pytest.mark.parametrize("kind", [None, 1, "", "join", [], {}])
def test_a_definition_with_a_box_of_another_kind_is_refused(kind: object) -> None:
    document = {"format": "medusa.definition/1", "contract": "sold", "name": "sums",
                "boxes": [{"kind": kind, "name": "big", "input": "sums"}],
                "output": "big"}  # fmt: skip
    with pytest.raises(Refused, match="a box of a definition is of kind filter, map, aggregate"):
        read_definition(document)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"every": "days"}, "every of aggregate daily is 'days', .*: did you mean 'day'"),
        ({"every": "fortnight"}, "is not a calendar period: write day, week, month, quarter, year"),
        ({"zone": None}, "zone of aggregate daily is None, which is not a valid zone: write UTC"),
        ({"zone": "+1"}, "zone of aggregate daily is '\\+1', which is not a valid zone"),
        ({"size": "1d"}, "aggregate daily has size and every='day': write size for windows of"),
        ({"advance": "1d"}, "aggregate daily has advance and every='day'"),
        ({"every": None, "size": "1d"}, "aggregate daily has a zone and no calendar windows"),
        ({"every": None, "zone": None}, "aggregate daily has no windows: write size='1m', or"),
        ({"zone_offsets": "1h"}, "the offsets of a zone are '1h': leave zone_offsets out"),
        ({"zone_offsets": "0 5:1 4:2"}, "out of order or range: leave zone_offsets out"),
        ({"zone_offsets": "999999"}, "out of order or range: leave zone_offsets out"),
    ],
)
def test_windows_that_cannot_be_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(an_aggregate(**given))


def test_a_period_that_is_no_text_is_refused() -> None:
    with pytest.raises(Refused, match="every of box daily is 1: write one text in quotes"):
        a_network(an_aggregate(every=1))


def test_days_of_a_year_have_23_24_and_25_hours() -> None:
    starts = starts_of("day", BERLIN)
    lengths = [timedelta(microseconds=b - a) for a, b in itertools.pairwise(starts)]
    hours = [length // timedelta(hours=1) for length in lengths]
    assert (hours.count(23), hours.count(25)) == (1, 1)
