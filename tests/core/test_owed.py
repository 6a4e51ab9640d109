"""What is owed is asked of ranges: every bucket of them must be final, holes and ends included."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import InputKnowledge
from medusa_core.owed import corrections, ends_at_us, frontier, is_final
from medusa_core.segments import Stability
from tests.core.builders import (
    SECOND_US,
    a_fragment_knowledge,
    a_passing_network,
    a_segment,
    an_input,
    seconds,
)
from tests.core.test_decide import a_tentative

TENTATIVE = Stability.TENTATIVE
KINDS = st.sampled_from([None, TENTATIVE, Stability.STABLE, Stability.STABLE, Stability.GAP])


def an_input_of(kinds: list[Stability | None]) -> InputKnowledge:
    """One bucket of 10 s for each kind, from 0 on; None is a bucket without a row."""
    rows = [
        a_segment(seconds(10 * at, 10 * at + 10), stability=kind)
        for at, kind in enumerate(kinds)
        if kind is not None
    ]
    return an_input(*rows, boundary_s=10 * len(kinds))


def test_a_hole_between_final_rows_is_not_final() -> None:
    holed = an_input(a_segment(seconds(0, 10)), a_segment(seconds(20, 30)))
    assert is_final(holed, seconds(0, 10))
    assert is_final(holed, seconds(20, 30))
    assert not is_final(holed, seconds(0, 30))
    assert not is_final(holed, seconds(10, 20))
    assert not is_final(holed, seconds(10, 30))


def test_a_tentative_output_over_a_hole_in_its_input_is_not_owed_yet() -> None:
    holed = an_input(a_segment(seconds(0, 10)), a_segment(seconds(20, 30)))
    known = a_fragment_knowledge(
        holed, computed_s=30, network=a_passing_network(), tentative=(a_tentative(0, 30),)
    )
    assert list(corrections(known)) == []


@given(st.lists(KINDS, min_size=1, max_size=8), st.integers(-2, 9), st.integers(1, 6),
       st.integers(0, 3), st.none() | st.integers(0, 9))  # fmt: skip
def test_a_range_is_final_when_each_of_its_buckets_within_the_streams_life_is(
    kinds: list[Stability | None], first: int, count: int, origin: int, end: int | None
) -> None:
    input_ = replace(
        an_input_of([None] * origin + kinds[origin:]),
        origin_us=10 * SECOND_US * origin,
        end_us=None if end is None else 10 * SECOND_US * end,
    )
    asked = range(first, first + count)
    lived = [at for at in asked if origin <= at and (end is None or at < end)]
    expected = all(at < len(kinds) and kinds[at] not in (None, TENTATIVE) for at in lived)
    assert is_final(input_, seconds(10 * first, 10 * (first + count))) == expected


def test_a_range_without_an_end_is_final_when_the_stream_has_ended() -> None:
    rows = a_segment(seconds(0, 10))
    for_ever = Range(0, FOREVER_US)
    assert not is_final(an_input(rows), for_ever)
    assert is_final(an_input(rows, end_s=10), for_ever)


@given(st.integers(0, 30), st.integers(0, 12), st.booleans())
def test_a_fragment_computes_from_its_start_what_it_would_have_computed_from_the_origin(
    start: int, reached: int, has_ended: bool
) -> None:
    """Buckets of 10 s, windows of 60 s: what is owed ends where it would end, and begins there."""
    rows = [a_segment(seconds(0, 10 * reached))] if reached else []
    end_us = 10 * SECOND_US * reached if has_ended else None
    input_ = replace(an_input(*rows, boundary_s=10 * reached), origin_us=0, end_us=end_us)
    whole = a_fragment_knowledge(input_, computed_s=0)
    late = replace(whole, starts_us=10 * SECOND_US * start)
    owed, owed_late = frontier(whole), frontier(late)
    if owed is None or owed.to_us <= late.starts_us:
        # Where all is over before it starts, an empty bucket says so.
        ends = ends_at_us(late)
        assert owed_late == (
            None if ends is None else Range(late.starts_us, late.starts_us + late.width_us)
        )
    else:
        assert owed_late == Range(max(owed.from_us, late.starts_us), owed.to_us)
