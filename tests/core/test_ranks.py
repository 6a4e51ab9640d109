"""Rank: the ranges that its rows need, its order, and what a Rank refuses to be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Network, Output, Source
from medusa_core.plans import network_document, network_of_document
from medusa_core.ranks import Rank
from tests.core.builders import seconds

TICKS, RESULT = StreamName("ticks"), StreamName("result")


def a_rank(**given: Any) -> Rank:
    parts: dict[str, Any] = {
        "name": "best", "input": "ticks", "size": "60s", "group_by": ("symbol",),
        "order": ("price desc", "at_us"), "k": 2,
    }  # fmt: skip
    return Rank(**(parts | given))


def a_network(*boxes: Box) -> Network:
    columns = {"at_us": "bigint", "symbol": "string", "price": "int"}
    return Network(
        name="example",
        sources=(Source(name="ticks", columns=columns, time="at_us"),),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )


def a_fragment(*boxes: Box) -> Fragment:
    (fragment,) = fragments_of(a_network(*boxes))
    return fragment


def test_an_output_bucket_needs_what_the_worked_example_says() -> None:
    fragment = a_fragment(a_rank())
    assert fragment.needed(RESULT, seconds(50, 60)) == {TICKS: seconds(0, 60)}
    assert fragment.needed(RESULT, seconds(60, 70)) == {}


@given(
    advance=st.integers(1, 6),
    more=st.integers(0, 9),
    start=st.integers(-20, 20),
    length=st.integers(1, 9),
)
def test_the_needed_range_is_that_of_the_windows_that_end_in_the_output_range(
    advance: int, more: int, start: int, length: int
) -> None:
    size, part = advance + more, Range(start, start + length)
    ends = [s + size for s in range(-60, 60) if s % advance == 0 and part.holds(s + size - 1)]
    need = a_fragment(a_rank(size=f"{size}us", advance=f"{advance}us")).needed(RESULT, part)
    assert need == ({TICKS: Range(ends[0] - size, ends[-1])} if ends else {})


def test_a_rank_behind_windows_needs_the_records_of_these() -> None:
    sums = Aggregate(name="sums", input="ticks", size="30s", advance="10s", columns={"n": "1"})
    need = a_fragment(sums, a_rank(input="sums")).needed(RESULT, seconds(60, 120))
    assert need == {TICKS: seconds(40, 120)}


def test_an_order_is_ascending_unless_it_says_desc() -> None:
    order = ("price DESC", "  at_us ", "symbol asc")
    assert a_rank(order=order).keys == (("price", True), ("at_us", False), ("symbol", False))


def test_a_rank_is_read_back_from_its_document() -> None:
    network = a_network(a_rank(advance="10s", column="place"))
    assert network_of_document(network_document(network)) == network


def test_a_rank_without_k_ranks_all_and_is_read_back_too() -> None:
    network = a_network(a_rank(k=None))
    assert network.boxes[0].number_shown == "all"  # type: ignore[union-attr]
    assert network_of_document(network_document(network)) == network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 0}, "k of rank best is 0: write how many .* a whole number from 1 to 10,000"),
        ({"k": 10_001}, "k of rank best is 10001: write how many"),
        ({"k": "3"}, "k of rank best is '3': write how many"),
        ({"k": True}, "k of rank best is True: write how many"),
        ({"size": "soon"}, "size of rank best: duration 'soon' is not one"),
        ({"advance": "90s"}, "rank best advances by 90s but its windows are 60s long"),
        ({"size": "1d", "advance": "1s"}, "rank best has windows of 1d every 1s: a record would"),
        ({"order": "price desc"}, "order of box best is a text: write a tuple"),
        ({"order": ("price down",)}, "'price down', and down is not a direction: write asc or"),
        ({"order": ("price dsc",)}, "dsc is not a direction: did you mean 'desc'"),
        ({"order": ("-price",)}, "has '-price': write a column and .* expressions in a map before"),
        ({"order": ("price, at_us",)}, "write each column as a text of its own, as in"),
        ({"order": ("price desc nulls first",)}, "NULL comes last in both directions; write a"),
        ({"order": ("price desc", "price")}, "order of rank best has a column twice among price,"),
        ({"order": ("Price",)}, "column of rank best, 'Price' is not a name"),
        ({"group_by": ("symbol", "symbol")}, "group_by of rank best has a column twice among"),
        ({"group_by": ("window_start",)},
         "rank best has window_start in group_by: every record is ranked within its window"),
        ({"column": "window_start"}, "rank best has window_start as its column"),
        ({"column": "my rank"}, "column of rank best, 'my rank' is not a name"),
        ({"input": "tick"}, "box best of network example reads 'tick', which is neither a source"),
    ],
)  # fmt: skip
def test_a_rank_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(a_rank(**given))
