"""What a sink takes next: whole final buckets without a hole, so many rows at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.grid import FOREVER_US, Range
from medusa_core.segments import Segment, Stability
from medusa_core.sinks import due_us, final_through_us, next_run, run_of
from tests.core.builders import SECOND_US, a_segment, seconds

TENTATIVE, STABLE, GAP = Stability.TENTATIVE, Stability.STABLE, Stability.GAP
WIDTH_US = 10 * SECOND_US
BUCKETS = st.lists(
    st.none() | st.tuples(st.sampled_from([STABLE, STABLE, STABLE, GAP, TENTATIVE]),
                          st.integers(0, 5)),
    max_size=8,
)  # fmt: skip
"""Of each bucket its stability and rows; None is a hole."""


def some_segments(buckets: list[tuple[Stability, int] | None]) -> list[Segment]:
    return [
        a_segment(
            seconds(10 * at, 10 * at + 10),
            {10 * at: rows} if rows and stability is not GAP else {},
            stability=stability,
            version=at + 1,
        )
        for at, bucket in enumerate(buckets)
        if bucket is not None
        for stability, rows in [bucket]
    ]


def rows_in(bucket: tuple[Stability, int] | None) -> int:
    return 0 if bucket is None or bucket[0] is GAP else bucket[1]


@given(BUCKETS, st.integers(0, 8))
def test_a_line_is_final_up_to_its_first_hole_or_tentative_bucket(
    buckets: list[tuple[Stability, int] | None], first: int
) -> None:
    expected = first
    while expected < len(buckets) and (buckets[expected] or (TENTATIVE, 0))[0] is not TENTATIVE:
        expected += 1
    assert final_through_us(some_segments(buckets), first * WIDTH_US) == expected * WIDTH_US


@given(BUCKETS, st.integers(0, 7), st.integers(1, 8), st.integers(1, 9))
def test_a_run_has_as_many_buckets_as_its_rows_allow_and_one_at_least(
    buckets: list[tuple[Stability, int] | None], first: int, count: int, rows_max: int
) -> None:
    part = Range(first * WIDTH_US, (first + count) * WIDTH_US)
    run = next_run(some_segments(buckets), part, WIDTH_US, rows_max)
    final = []
    for bucket in buckets[first : first + count]:
        if bucket is None or bucket[0] is TENTATIVE:
            break
        final.append(bucket)
    if not final:
        assert run is None
        return
    taken, rows = 0, 0
    for bucket in final:
        if rows and rows + rows_in(bucket) > rows_max:
            break
        taken += 1
        rows += rows_in(bucket)
        if rows >= rows_max:
            break
    assert run is not None
    assert run.range == Range(part.from_us, part.from_us + taken * WIDTH_US)
    assert run.rows == rows
    assert run.version == max(first + at + 1 for at in range(taken))
    assert run.lost_us == WIDTH_US * sum(bucket[0] is GAP for bucket in final[:taken])


def test_a_gap_that_reaches_out_of_a_run_is_lost_within_it_alone() -> None:
    gap = a_segment(seconds(0, 30), stability=GAP, version=4)
    run = run_of([gap], seconds(10, 20))
    assert (run.lost_us, run.version, run.rows) == (10 * SECOND_US, 4, 0)


def test_a_run_over_what_is_not_final_is_a_fault_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="not final"):
        run_of([a_segment(seconds(0, 10)), a_segment(seconds(20, 30))], seconds(0, 30))


@pytest.mark.parametrize(
    ("stable_us", "every_us", "has_ended", "wanted_us"),
    [
        (25, None, False, 25),
        (25, 10, False, 20),
        (20, 10, False, 20),
        (25, 10, True, 25),
        (FOREVER_US, 10, False, FOREVER_US),
        (-5, 10, False, -10),
    ],
)
def test_a_sink_that_waits_delivers_whole_spans_until_the_stream_ends(
    stable_us: int, every_us: int | None, has_ended: bool, wanted_us: int
) -> None:
    assert due_us(stable_us, every_us, has_ended=has_ended) == wanted_us
