"""Resample: the ranges that its rows need, and what a Resample refuses to be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Box, Network, Output, Source
from medusa_core.plans import network_document, network_of_document
from medusa_core.resamples import METHODS, Resample
from tests.core.builders import seconds

READINGS, RESULT = StreamName("readings"), StreamName("result")


def a_resample(**given: Any) -> Resample:
    parts: dict[str, Any] = {
        "name": "even", "input": "readings", "by": ("sensor",), "step": "10s", "max_age": "15s",
    }  # fmt: skip
    return Resample(**(parts | given))


def a_network(box: Box) -> Network:
    columns = {"at_us": "bigint", "sensor": "string", "value": "double"}
    return Network(
        name="example",
        sources=(Source(name="readings", columns=columns, time="at_us"),),
        boxes=(box,),
        outputs=(Output(name="result", input=box.name),),
    )


def a_fragment(box: Box) -> Fragment:
    (fragment,) = fragments_of(a_network(box))
    return fragment


@pytest.mark.parametrize(
    ("method", "needed"), [("previous", seconds(85, 110)), ("linear", seconds(70, 110))]
)
def test_an_output_bucket_needs_what_the_worked_example_says(method: str, needed: Range) -> None:
    need = a_fragment(a_resample(method=method)).needed(RESULT, seconds(100, 110))
    assert need == {READINGS: needed}


@given(method=st.sampled_from(METHODS), step=st.integers(1, 9), max_age=st.integers(1, 20),
       start=st.integers(-20, 20), length=st.integers(1, 12))  # fmt: skip
def test_every_record_around_a_row_is_in_the_range_that_the_row_needs(
    method: str, step: int, max_age: int, start: int, length: int
) -> None:
    box = a_resample(method=method, step=f"{step}us", max_age=f"{max_age}us")
    part = Range(start, start + length)
    need = a_fragment(box).needed(RESULT, part)[READINGS]
    for sample in range(-90, 90):
        last = sample if method == "previous" else sample + max_age
        if sample % step == 0 and part.holds(last):
            assert need.from_us <= sample - max_age
            assert last < need.to_us


def test_a_resample_is_read_back_from_its_document() -> None:
    network = a_network(a_resample(method="linear", columns=("value",)))
    assert network_of_document(network_document(network)) == network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "cubic"}, "method of resample even is 'cubic', which is not a method: write"),
        ({"method": "linaer"}, "is not a method: did you mean 'linear'"),
        ({"max_age": None}, "resample even has no max_age: write how far a record may be"),
        ({"max_age": "far"}, "max_age of resample even: duration 'far' is not one"),
        ({"step": "0s"}, "step of resample even: duration '0s' is out of range"),
        ({"step": "1ms", "max_age": "1m"}, "a record would give more than 10000 rows"),
        ({"by": "sensor"}, "by of box even is a text: write a tuple"),
        ({"columns": ("sensor",)}, "resample even has two columns of one name among sample_time"),
        ({"by": ("sample_time",)}, "resample even has two columns of one name"),
        ({"columns": ("Value",)}, "column of resample even, 'Value' is not a name"),
    ],
)
def test_a_resample_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        a_network(a_resample(**given))
