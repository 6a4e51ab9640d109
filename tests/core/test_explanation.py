"""What is explained of a network is what its steps need, and adds up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.explanation import Explanation, InputPolicy, explain
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range
from medusa_core.joins import KINDS, Join
from medusa_core.lookups import Lookup
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Function,
    Map,
    Network,
    Output,
    Source,
    Union,
)

BIDS, SALES, RESULT = StreamName("bids"), StreamName("sales"), StreamName("result")
SECOND_US = 1_000_000


def a_network(*boxes: Box) -> Network:
    columns = {"at_us": "bigint", "item": "string", "price": "int"}
    read = {
        reference
        for box in boxes
        for reference in (
            getattr(box, "input", ""),
            getattr(box, "left", ""),
            getattr(box, "right", ""),
            *getattr(box, "inputs", ()),
        )
    }
    return Network(
        name="example",
        sources=tuple(
            Source(name=n, columns=columns, time="at_us") for n in ("bids", "sales") if n in read
        ),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )  # fmt: skip


def explained(*boxes: Box, fallible: tuple[str, ...] = ()) -> Explanation:
    network = a_network(*boxes)
    return explain(network, fragments_of(network), fallible)


def a_window(name: str, input_: str, size_s: int, advance_s: int) -> Aggregate:
    return Aggregate(
        name=name, input=input_, size=f"{size_s}s", advance=f"{advance_s}s", group_by=("item",),
        columns={"price": "max(price)"},
    )  # fmt: skip


def a_join(left: str, right: str, **given: Any) -> Join:
    parts: dict[str, Any] = {"how": "left", "within": ("-5s", "10s"), "name": "met"}
    return Join(left=left, right=right, on=("item",), **(parts | given))


def test_the_worked_example_needs_what_it_says() -> None:
    windows = a_window("per_minute", "bids", 60, 60)
    (output,) = explained(windows, a_join("per_minute", "sales")).outputs
    assert {i.stream: (i.back_us // SECOND_US, i.delay_us) for i in output.inputs} == {
        BIDS: (70, 0),
        SALES: (15, 0),
    }


def test_an_input_that_a_join_needs_less_far_ends_earlier() -> None:
    (output,) = explained(a_join("bids", "sales", how="semi")).outputs
    assert {i.stream: (i.back_us // SECOND_US, i.delay_us // SECOND_US) for i in output.inputs} == {
        BIDS: (10, 10),
        SALES: (15, 0),
    }


WINDOWS = st.tuples(st.integers(1, 12), st.integers(1, 12)).filter(lambda w: w[1] <= w[0])
JOINS = st.tuples(st.sampled_from(KINDS), st.tuples(st.integers(-9, 9), st.integers(-9, 9)))


@given(windows=WINDOWS, others=WINDOWS, join=JOINS, width_s=st.integers(1, 12))
def test_no_bucket_needs_more_than_is_explained(
    windows: tuple[int, int], others: tuple[int, int], join: tuple[str, tuple[int, int]],
    width_s: int,
) -> None:  # fmt: skip
    how, (one, other) = join
    boxes = (
        a_window("first", "bids", *windows),
        a_join("first", "sales", how=how, within=(f"{min(one, other)}s", f"{max(one, other)}s")),
        a_window("last", "met", *others),
    )
    network = a_network(*boxes)
    (fragment,) = fragments_of(network)
    (output,) = explain(network, (fragment,)).outputs
    width_us = width_s * SECOND_US
    buckets = [Range(k * width_us, (k + 1) * width_us) for k in range(-30, 150)]
    for stream, needs in needed_by(fragment, buckets).items():
        (told,) = (i for i in output.inputs if i.stream == stream)
        # A bucket that no window of the way there ends in needs nothing.
        assert all(
            need is None
            or bucket.from_us - told.back_us
            <= need.from_us
            < need.to_us
            <= bucket.to_us - told.delay_us
            for bucket, need in zip(buckets, needs, strict=True)
        )


def needed_by(fragment: Fragment, buckets: list[Range]) -> dict[StreamName, list[Range | None]]:
    needs = [fragment.needed(RESULT, bucket) for bucket in buckets]
    return {name: [need.get(name) for need in needs] for name in fragment.input_streams}


@pytest.mark.parametrize(
    ("boxes", "without"),
    [
        ((a_window("one", "bids", 10, 10),), {BIDS: InputPolicy.WAITS_ALONE}),
        (
            (Union(name="all", inputs=("bids", "sales")),),
            {BIDS: InputPolicy.ANSWERS, SALES: InputPolicy.ANSWERS},
        ),
        (
            (a_join("bids", "sales", how="inner"),),
            {BIDS: InputPolicy.ANSWERS, SALES: InputPolicy.ANSWERS},
        ),
        (
            (a_join("bids", "sales", how="anti"),),
            {BIDS: InputPolicy.WAITS, SALES: InputPolicy.WAITS},
        ),
    ],
)
def test_what_a_missing_input_does_is_what_the_fragment_does_about_it(
    boxes: tuple[Box, ...], without: dict[StreamName, InputPolicy]
) -> None:
    (output,) = explained(*boxes).outputs
    assert {i.stream: i.without for i in output.inputs} == without


def test_an_output_that_waits_for_the_lookup_of_another_one_says_so() -> None:
    """A Lookup waits for a table that a box of its fragment computes, and for no record of `bids`;
    the anti Join behind `lost` does, so that the fragment waits for them."""
    lookup = Lookup(name="looked", input="bids", table="minute", on=("item",), max_age="60s")
    lost = Join(name="lost", left="bids", right="sales", on=("item",), how="anti",
                within=("0s", "5s"))  # fmt: skip
    network = replace(
        a_network(a_window("minute", "sales", 60, 60), lookup),
        boxes=(a_window("minute", "sales", 60, 60), lookup, lost),
        outputs=(Output(name="result", input="looked"), Output(name="missed", input="lost")),
    )
    result, missed = explain(network, fragments_of(network)).outputs
    assert {i.stream: i.without for i in result.inputs} == {
        BIDS: InputPolicy.WAITS_AS_OTHERS,
        SALES: InputPolicy.WAITS,
    }
    assert {i.stream: i.without for i in missed.inputs} == {
        BIDS: InputPolicy.WAITS,
        SALES: InputPolicy.WAITS,
    }


def test_the_cost_is_that_of_reading_and_of_all_boxes_for_the_records_that_reach_them() -> None:
    found = explained(
        Union(name="all", inputs=("bids", "sales")),
        a_window("counts", "all", 10, 10),
        Map(name="dear", input="counts", columns={"price": "price * 2"}),
        fallible=("dear",),
    )
    assert [(box.name, box.records, box.can_fail) for box in found.boxes] == [
        ("all", 1.0, False),
        ("counts", 1.0, False),
        ("dear", 0.25, True),
    ]
    assert found.cost_us == pytest.approx(found.read_us + sum(b.share_us for b in found.boxes))
    assert not found.has_unknown_cost


def test_a_record_that_two_fragments_read_is_read_twice() -> None:
    once = explained(Filter(name="a", input="bids", cases={"yes": "price > 0"}))
    twice = explained(
        Filter(name="a", input="bids", cases={"yes": "price > 0"}),
        Filter(name="b", input="a", cases={"yes": "price > 1"}, fragment="second"),
    )
    assert twice.read_us == 2 * once.read_us
    assert [output.fragment for output in twice.outputs] == ["main", "second"]


def test_what_a_function_costs_is_not_known() -> None:
    columns = {"item": "string"}
    found = explained(Function(name="f", input="bids", function=lambda f: f, columns=columns))
    assert found.has_unknown_cost
    assert found.boxes[0].share_us == 0
