"""Lookup: the ranges that its rows need, and what a Lookup refuses to be.

Ranges are found by trying every pair of event times, one microsecond at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, end_of, fragments_of
from medusa_core.grid import Range
from medusa_core.lookups import Lookup
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Join, Network, Output, Source
from medusa_core.plans import network_document, network_of_document
from tests.core.builders import seconds

ORDERS, RATES, RESULT = StreamName("orders"), StreamName("rates"), StreamName("result")


def a_lookup(**given: Any) -> Lookup:
    parts: dict[str, Any] = {
        "name": "priced", "input": "orders", "table": "rates", "on": ("currency",),
        "max_age": "1m",
    }  # fmt: skip
    return Lookup(**(parts | given))


def a_network(*boxes: Box) -> Network:
    columns = {"at_us": "bigint", "currency": "string", "rate": "int"}
    return Network(
        name="example",
        sources=tuple(Source(name=n, columns=columns, time="at_us") for n in ("orders", "rates")),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )


def a_fragment(*boxes: Box) -> Fragment:
    (fragment,) = fragments_of(a_network(*boxes))
    return fragment


@pytest.mark.parametrize("how", ["left", "inner"])
def test_an_output_bucket_needs_what_the_worked_example_says(how: str) -> None:
    need = a_fragment(a_lookup(how=how)).needed(RESULT, seconds(100, 110))
    assert need == {ORDERS: seconds(100, 110), RATES: seconds(40, 110)}


@given(max_age=st.integers(1, 20), start=st.integers(-10, 10), length=st.integers(1, 8))
def test_the_needed_ranges_are_the_smallest_that_hold_every_record_that_matters(
    max_age: int, start: int, length: int
) -> None:
    part = Range(start, start + length)
    pairs = [
        (at, at - age) for at in range(-60, 60) if part.holds(at) for age in range(max_age + 1)
    ]
    need = a_fragment(a_lookup(max_age=f"{max_age}us")).needed(RESULT, part)
    for stream, times in ((ORDERS, [p[0] for p in pairs]), (RATES, [p[1] for p in pairs])):
        assert need[stream] == Range(min(times), max(times) + 1)


@pytest.mark.parametrize("rates_end", [10, 5_000])
def test_an_output_ends_where_the_input_of_a_lookup_does_wherever_the_table_ends(
    rates_end: int,
) -> None:
    assert end_of(a_fragment(a_lookup()), RESULT, {ORDERS: 95, RATES: rates_end}, 10) == 100


def test_the_table_is_waited_for_and_the_input_is_not() -> None:
    assert a_fragment(a_lookup(how="inner")).waited_for == {RATES}
    behind = a_lookup(name="again", input="priced", table="rates")
    assert a_fragment(a_lookup(), behind).waited_for == {RATES}
    in_the_table = a_lookup(name="again", table="priced")
    assert a_fragment(a_lookup(), in_the_table).waited_for == {ORDERS, RATES}


def test_windows_and_joins_behind_a_lookup_need_what_the_lookup_needs() -> None:
    windows = Aggregate(name="sums", input="priced", size="30s", columns={"n": "count(*)"})
    need = a_fragment(a_lookup(), windows).needed(RESULT, seconds(60, 90))
    assert need == {ORDERS: seconds(60, 90), RATES: seconds(0, 90)}
    join = Join(name="met", left="priced", right="rates", on=("currency",), within=("0s", "5s"))
    need = a_fragment(a_lookup(), join).needed(RESULT, seconds(100, 110))
    assert need == {ORDERS: seconds(95, 110), RATES: seconds(35, 110)}


def test_a_stream_may_be_looked_up_in_itself() -> None:
    network = a_network(a_lookup())
    itself = (a_lookup(table="orders"),)
    (fragment,) = fragments_of(replace(network, sources=network.sources[:1], boxes=itself))
    assert fragment.needed(RESULT, seconds(100, 110)) == {ORDERS: seconds(40, 110)}


def test_a_lookup_is_read_back_from_its_document() -> None:
    network = a_network(
        a_lookup(on=("currency", "rate = rate"), how="inner", columns={"a": "table.rate"})
    )
    assert network_of_document(network_document(network)) == network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"how": "anti"}, "'anti', which is not a kind of lookup: write left or inner"),
        ({"how": "iner"}, "not a kind of lookup: did you mean 'inner'"),
        ({"max_age": None}, "lookup priced has no max_age: write how old a record of the table"),
        ({"max_age": "old"}, "max_age of lookup priced: duration 'old' is not one"),
        ({"max_age": "0s"}, "max_age of lookup priced: duration '0s' is out of range"),
        ({"max_age": "-1m"}, "max_age of lookup priced: duration '-1m' is not one"),
        ({"max_age": "400d"}, "max_age of lookup priced: duration '400d' is out of range"),
        ({"on": ()}, "lookup priced has no keys: write on="),
        ({"on": "currency"}, "on of box priced is a text: write a tuple"),
        ({"on": ("a = b = c",)}, "lookup priced has the key 'a = b = c': write 'column' or"),
        ({"on": ("currency", "currency")}, "lookup priced has a key twice among"),
        ({"columns": {"x": "table.rate + 2"}}, ("column 'x' of lookup priced is 'table.rate .+2': "
                                               "write input.NAME or table.NAME, and compute "
                                               "expressions in a map behind the lookup")),
        ({"columns": {"x": "left.rate"}}, "write input.NAME or table.NAME"),
        ({"columns": {"X": "table.rate"}}, "column of lookup priced, 'X' is not a name"),
        ({"table": "rate"}, "box priced of network example reads 'rate', which is neither a"),
    ],
)  # fmt: skip
def test_a_lookup_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(a_lookup(**given))
