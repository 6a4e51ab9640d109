"""Deduplicate: the ranges that its rows need, and what a Deduplicate refuses to be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.deduplication import Deduplicate
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, end_of, fragments_of
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Network, Output, Source
from medusa_core.plans import network_document, network_of_document
from tests.core.builders import seconds

ORDERS, RESULT = StreamName("orders"), StreamName("result")


def a_deduplicate(**given: Any) -> Deduplicate:
    parts: dict[str, Any] = {"name": "once", "input": "orders", "by": ("id",), "within": "1h"}
    return Deduplicate(**(parts | given))


def a_network(*boxes: Box) -> Network:
    columns = {"at_us": "bigint", "id": "string", "price": "int"}
    return Network(
        name="example",
        sources=(Source(name="orders", columns=columns, time="at_us"),),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )


def a_fragment(*boxes: Box) -> Fragment:
    (fragment,) = fragments_of(a_network(*boxes))
    return fragment


def test_an_output_bucket_needs_what_the_worked_example_says() -> None:
    """11:20 to 11:21 of some day needs the records from 11:00 on."""
    need = a_fragment(a_deduplicate()).needed(RESULT, seconds(40_800, 40_860))
    assert need == {ORDERS: seconds(39_600, 40_860)}


@given(within=st.integers(1, 9), start=st.integers(-20, 20), length=st.integers(1, 9))
def test_the_needed_range_is_the_smallest_that_holds_every_record_that_matters(
    within: int, start: int, length: int
) -> None:
    part = Range(start, start + length)
    matter = [
        at
        for at in range(-60, 60)
        if any(part.holds(kept) and kept // within == at // within for kept in range(at, 60))
    ]
    need = a_fragment(a_deduplicate(within=f"{within}us")).needed(RESULT, part)
    assert need == {ORDERS: Range(matter[0], matter[-1] + 1)}


def test_an_output_ends_where_its_input_does() -> None:
    ends = {ORDERS: 61_000_000}
    assert end_of(a_fragment(a_deduplicate()), RESULT, ends, 10_000_000) == 70_000_000


def test_windows_behind_a_deduplicate_need_the_spans_in_which_they_begin() -> None:
    sums = Aggregate(name="sums", input="once", size="90s", columns={"n": "count(*)"})
    need = a_fragment(a_deduplicate(within="60s"), sums).needed(RESULT, seconds(90, 180))
    assert need == {ORDERS: seconds(60, 180)}


def test_a_deduplicate_is_read_back_from_its_document() -> None:
    network = a_network(a_deduplicate(by=("id", "price")))
    assert network_of_document(network_document(network)) == network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"by": ()}, r"deduplicate once has no keys: write by=\('column',\), the columns that"),
        ({"by": "id"}, "by of box once is a text: write a tuple"),
        ({"by": ("id", "id")}, "deduplicate once has a key twice among id, id: name each once"),
        ({"by": ("Id",)}, "key of deduplicate once, 'Id' is not a name"),
        ({"within": "soon"}, "within of deduplicate once: duration 'soon' is not one"),
        ({"within": "0s"}, "within of deduplicate once: duration '0s' is out of range"),
        ({"within": None}, "within of deduplicate once: duration None is not one"),
        ({"input": "order"}, "box once of network example reads 'order', which is neither"),
    ],
)
def test_a_deduplicate_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(a_deduplicate(**given))
