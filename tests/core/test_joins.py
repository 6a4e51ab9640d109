"""Join: the times of its rows, the ranges that they need, and what a Join refuses to be.

Times and ranges are found by trying every pair of event times, one microsecond at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.failure_rules import failure_rules
from medusa_core.fragments import Fragment, end_of, fragments_of
from medusa_core.grid import Range, parse_offset_us
from medusa_core.joins import KINDS, Join
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Network, Output, Source
from medusa_core.plans import network_document, network_of_document
from tests.core.builders import seconds

BIDS, SALES, RESULT = StreamName("bids"), StreamName("sales"), StreamName("result")


def a_join(**given: Any) -> Join:
    parts: dict[str, Any] = {
        "name": "met", "left": "bids", "right": "sales", "on": ("item",), "within": ("-5s", "10s"),
    }  # fmt: skip
    return Join(**(parts | given))


def a_network(*boxes: Box) -> Network:
    columns = {"at_us": "bigint", "item": "string", "price": "int"}
    return Network(
        name="example",
        sources=tuple(Source(name=n, columns=columns, time="at_us") for n in ("bids", "sales")),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )


def a_fragment(*boxes: Box) -> Fragment:
    (fragment,) = fragments_of(a_network(*boxes))
    return fragment


@pytest.mark.parametrize(
    ("how", "left", "right"),
    [
        ("inner", seconds(90, 110), seconds(95, 110)),
        ("left", seconds(90, 110), seconds(85, 110)),
        ("semi", seconds(90, 100), seconds(85, 110)),
        ("anti", seconds(90, 100), seconds(85, 110)),
    ],
)
def test_an_output_bucket_needs_what_the_worked_example_says(
    how: str, left: Range, right: Range
) -> None:
    need = a_fragment(a_join(how=how)).needed(RESULT, seconds(100, 110))
    assert need == {BIDS: left, SALES: right}


def positions(join: Join, left: int, right: int) -> set[int]:
    """Where a row could lie that says whether these two are a pair."""
    if not join.lo_us <= right - left <= join.hi_us:
        return set()
    certain = left + max(join.hi_us, 0)
    return {
        "inner": {max(left, right)},
        "left": {max(left, right), certain},
        "semi": {certain},
        "anti": {certain},
    }[join.how]


@given(
    bounds=st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(sorted),
    how=st.sampled_from(KINDS),
    start=st.integers(-10, 10),
    length=st.integers(1, 8),
)
def test_the_needed_ranges_are_the_smallest_that_hold_every_row_that_matters(
    bounds: list[int], how: str, start: int, length: int
) -> None:
    join = a_join(within=tuple(f"{us}us" for us in bounds), how=how)
    part = Range(start, start + length)
    pairs = [
        (left, left + difference)
        for left in range(-60, 60)
        for difference in range(bounds[0], bounds[1] + 1)
        if any(part.holds(at) for at in positions(join, left, left + difference))
    ]
    need = a_fragment(join).needed(RESULT, part)
    for stream, times in ((BIDS, [p[0] for p in pairs]), (SALES, [p[1] for p in pairs])):
        assert need[stream] == Range(min(times), max(times) + 1)


@given(bounds=st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(sorted),
       how=st.sampled_from(KINDS), last=st.integers(-20, 20))  # fmt: skip
def test_an_output_ends_after_the_last_row_of_a_join(
    bounds: list[int], how: str, last: int
) -> None:
    join = a_join(within=tuple(f"{us}us" for us in bounds), how=how)
    rows = [
        at
        for left in range(last - 30, last + 1)
        for right in range(last - 30, last + 1)
        for at in positions(join, left, right)
    ]
    fragment = a_fragment(join)
    if rows:
        assert end_of(fragment, RESULT, {BIDS: last + 1, SALES: last + 1}, 1) > max(rows)


def test_windows_behind_a_join_need_what_the_join_needs() -> None:
    windows = Aggregate(name="sums", input="met", size="60s", columns={"n": "count(*)"})
    need = a_fragment(a_join(), windows).needed(RESULT, seconds(60, 120))
    assert need == {BIDS: seconds(50, 120), SALES: seconds(55, 120)}
    need = a_fragment(a_join(how="anti"), windows).needed(RESULT, seconds(60, 120))
    assert need == {BIDS: seconds(50, 110), SALES: seconds(45, 120)}


def test_a_join_of_a_join_needs_what_lies_behind_both() -> None:
    again = a_join(name="again", left="met", right="sales", within=("-20s", "0s"))
    need = a_fragment(a_join(), again).needed(RESULT, seconds(100, 110))
    assert need == {BIDS: seconds(90, 110), SALES: seconds(80, 110)}


def test_a_stream_may_be_joined_with_itself() -> None:
    network = a_network(a_join())
    itself = (a_join(right="bids"),)
    (fragment,) = fragments_of(replace(network, sources=network.sources[:1], boxes=itself))
    assert fragment.needed(RESULT, seconds(100, 110)) == {BIDS: seconds(90, 110)}


def test_a_chain_of_joins_of_a_stream_with_itself_needs_one_range() -> None:
    chain = [a_join(name="met0", right="bids", within=("-5s", "10s"))]
    chain += [
        a_join(name=f"met{at}", left=f"met{at - 1}", right=f"met{at - 1}") for at in range(1, 40)
    ]
    network = a_network(a_join())
    outputs = (Output(name="result", input="met39"),)
    (fragment,) = fragments_of(
        replace(network, sources=network.sources[:1], boxes=tuple(chain), outputs=outputs)
    )
    assert fragment.needed(RESULT, seconds(1_000, 1_010)) == {BIDS: seconds(600, 1_010)}
    assert failure_rules(fragment).of("met0", is_window=True).routes


@pytest.mark.parametrize(
    ("text", "us"),
    [("-5s", -5_000_000), ("0s", 0), ("-0s", 0), ("250ms", 250_000), (-3, -3_000_000), (0, 0)],
)
def test_an_offset_is_a_duration_with_a_sign(text: str | int, us: int) -> None:
    assert parse_offset_us(text) == us


def test_a_join_is_read_back_from_its_document() -> None:
    network = a_network(
        a_join(on=("item", "price = price"), how="left", columns={"a": "left.price"})
    )
    assert network_of_document(network_document(network)) == network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"how": "outer"}, "how of join met is 'outer', which is not a kind of join: write inner,"),
        ({"how": "iner"}, "not a kind of join: did you mean 'inner'"),
        ({"within": ("10s", "-5s")}, ("begins at 10s and ends at -5s, which is before it: write "
                                     r"\('-5s', '10s'\)")),
        ({"within": "10s"}, "within of join met is '10s': write the least and the greatest"),
        ({"within": ("0s",)}, r"within of join met is \('0s',\): write the least"),
        ({"within": (None, "10s")}, "within of join met has no bound on one side: write two"),
        ({"within": ("soon", "10s")}, "within of join met: duration 'soon' is not one"),
        ({"within": ("0s", "400d")}, "within of join met: duration '400d' is out of range"),
        ({"within": ("-300d", "300d")}, "within of join met is longer than 366 days"),
        ({"within": (0.5, "1s")}, "within of join met: duration 0.5 is not one"),
        ({"on": ()}, "join met has no keys: write on="),
        ({"on": "item"}, "on of box met is a text: write a tuple"),
        ({"on": ("a = b = c",)}, "join met has the key 'a = b = c': write 'column' or"),
        ({"on": ("item", "item")}, "join met has a key twice among item, item"),
        ({"on": ("Item",)}, "key of join met, 'Item' is not a name"),
        ({"columns": {"x": "right.price * 2"}}, ("column 'x' of join met is 'right.price \\* 2': "
                                                "write left.NAME or right.NAME, and compute")),
        ({"columns": {"x": "price"}}, "write left.NAME or right.NAME"),
        ({"how": "anti", "columns": {"x": "right.price"}},
         "column 'x' of join met is 'right.price': a join with how='anti' has columns of left"),
        ({"columns": {"X": "left.price"}}, "column of join met, 'X' is not a name"),
        ({"left": "bid"}, "box met of network example reads 'bid', which is neither a source nor"),
    ],
)  # fmt: skip
def test_a_join_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(a_join(**given))
