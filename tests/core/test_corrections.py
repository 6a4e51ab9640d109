"""What revised inputs owe is computed in as few steps as there are runs of owed buckets."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.corrections import corrections_within
from medusa_core.decisions import ComputeStep
from medusa_core.fragments import fragments_of
from medusa_core.grid import Range, merged_ranges
from medusa_core.knowledge import FragmentKnowledge, Limits, OutputKnowledge, RevisedKnowledge
from medusa_core.names import Epoch, StreamName
from medusa_core.network import Aggregate, Filter, Network, Output
from medusa_core.owed import revisions
from tests.core.builders import (
    ALPHA,
    PLAN,
    READINGS,
    SECOND_US,
    a_segment,
    a_source,
    an_input,
    seconds,
)

PASSED, TOTALS, SUMS = map(StreamName, ("passed", "totals", "sums"))
BUCKETS, RECORDS = 40, 100
"""So many buckets of the input, with so many records each."""


def a_window(name: str, size: str) -> Aggregate:
    return Aggregate(
        name=name, input="readings", size=size, advance="10s", columns={"records": "count(*)"}
    )


NETWORK = Network(
    name="several",
    sources=(a_source(),),
    boxes=(
        Filter(name="some", input="readings", cases={"yes": "key <> ''"}),
        a_window("short", "20s"),
        a_window("long", "60s"),
    ),
    outputs=(
        Output(name=PASSED, input="some"),
        Output(name=SUMS, input="short"),
        Output(name=TOTALS, input="long"),
    ),
)


def revised(*starts_s: int) -> FragmentKnowledge:
    """A fragment of three outputs, computed over all buckets before some were revised."""
    whole = seconds(0, 10 * BUCKETS)
    (fragment,) = fragments_of(NETWORK)
    changed = {READINGS: merged_ranges(seconds(at, at + 10) for at in starts_s)}
    return FragmentKnowledge(
        fragment=fragment,
        plan=PLAN,
        producer=ALPHA,
        epoch=Epoch(1),
        partition=0,
        inputs={
            READINGS: an_input(
                a_segment(whole, {10 * at: RECORDS for at in range(BUCKETS)}),
                boundary_s=10 * BUCKETS + 100,
            )
        },
        outputs={
            name: OutputKnowledge(stream=name, width_us=10 * SECOND_US, boundary_us=whole.to_us)
            for name in (PASSED, SUMS, TOTALS)
        },
        revised=tuple(
            RevisedKnowledge(
                segment=a_segment(whole, {0: 1}, stream=name), part=whole, changed=changed
            )
            for name in (PASSED, SUMS, TOTALS)
        ),
    )


def steps_of(known: FragmentKnowledge, records_max: int = 1_000_000) -> list[ComputeStep]:
    limits = Limits(records_per_step_max=records_max)
    found = list(corrections_within([known], limits, None, ()))
    assert all(isinstance(step, ComputeStep) for step in found)
    return [step for step in found if isinstance(step, ComputeStep)]


def test_an_output_that_is_owed_side_by_side_is_one_step_whatever_others_owe() -> None:
    known = revised(100, 120, 140, 160)
    found = [(step.range, set(step.outputs)) for step in steps_of(known)]
    alone = [(seconds(at, at + 10), {PASSED}) for at in (100, 120, 140, 160)]
    assert sorted(found, key=repr) == sorted(
        [(seconds(100, 180), {SUMS}), (seconds(100, 220), {TOTALS}), *alone], key=repr
    )


def test_outputs_that_owe_the_same_are_computed_together() -> None:
    known = revised(*range(0, 10 * BUCKETS, 10))
    (step,) = steps_of(known)
    assert set(step.outputs) == {PASSED, SUMS, TOTALS}


def test_a_step_of_some_outputs_counts_the_records_that_these_read() -> None:
    steps = steps_of(revised(100, 110, 120, 130), records_max=5 * RECORDS)
    by_output = {
        name: [(s.range, s.because.numbers["records"]) for s in steps if name in s.outputs]
        for name in (PASSED, SUMS)
    }
    assert by_output == {
        PASSED: [(seconds(100, 140), 4 * RECORDS)],
        SUMS: [(seconds(100, 140), 5 * RECORDS), (seconds(140, 150), 2 * RECORDS)],
    }


@given(st.lists(st.integers(0, BUCKETS - 1), min_size=1, max_size=12, unique=True))
def test_steps_compute_what_is_owed_each_once_and_nothing_else(buckets: list[int]) -> None:
    known = revised(*(10 * at for at in sorted(buckets)))
    width_us = 10 * SECOND_US
    owed = Counter(
        (name, correction.range.from_us)
        for correction in revisions(known)
        for name in correction.outputs
    )
    computed = Counter(
        (name, at_us)
        for step in steps_of(known)
        for name in step.outputs
        for at_us in range(step.range.from_us, step.range.to_us, width_us)
    )
    assert computed == owed
    runs = {
        (name, run)
        for name in (PASSED, SUMS, TOTALS)
        for run in merged_ranges(Range(at_us, at_us + width_us) for of, at_us in owed if of == name)
    }
    assert {(name, step.range) for step in steps_of(known) for name in step.outputs} == runs
