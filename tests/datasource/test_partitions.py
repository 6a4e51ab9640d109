"""How segments become partitions, and how far a micro-batch goes: values only."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from medusa_core.digest import Digest
from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from medusa_core.segments import Segment, SegmentFile, Stability
from pipelines.datasource.admission import LOOKED_AT_FIRST, Ahead, Limit
from pipelines.datasource.partitions import SMALL_BYTES, check_whole, partitions_of
from pipelines.datasource.spark_columns import spark_type
from pipelines.storage.arrow_schema import arrow_type
from tests.catalog import building as a

W = a.WIDTH_US


def a_file(number: int, size_bytes: int = 1_000) -> SegmentFile:
    return SegmentFile(path=f"sums/{number}", size_bytes=size_bytes, sha256="ab", rows=1)


def a_segment(
    begin: int, end: int, rows: Mapping[int, int], *files: SegmentFile,
    stability: Stability = Stability.STABLE,
) -> Segment:  # fmt: skip
    return Segment(
        stream=a.SUMS,
        producer=a.ME,
        range=Range(begin * W, end * W),
        stability=stability,
        version=a.Version(1),
        plan=a.PLAN,
        buckets={at * W: Digest(n, n, n) for at, n in rows.items()},
        files=files,
    )


def test_every_file_goes_to_one_partition_and_partitions_are_of_about_equal_size() -> None:
    sizes = [SMALL_BYTES // (1 + at % 7) for at in range(40)]
    segments = [a_segment(at, at + 1, {at: 1}, a_file(at, size)) for at, size in enumerate(sizes)]
    found = partitions_of(a.ALPHA, W, segments, Range(0, 40 * W))
    paths = [part.file.path for partition in found for part in partition.files]
    assert sorted(paths) == sorted(file.path for s in segments for file in s.files)
    loads = [sum(part.file.size_bytes for part in partition.files) for partition in found]
    assert len(found) > 2
    assert max(loads) - min(loads) <= max(sizes)


def test_small_files_are_read_together_and_files_without_a_wanted_row_not_at_all() -> None:
    segments = [a_segment(at, at + 1, {at: 1}, a_file(at)) for at in range(10)]
    segments.append(a_segment(10, 20, {}))
    (partition,) = partitions_of(a.ALPHA, W, segments, Range(3 * W + 5, 15 * W))
    assert [part.file.path for part in partition.files] == [f"sums/{at}" for at in range(3, 10)]
    assert partitions_of(a.ALPHA, W, segments, Range(11 * W, 15 * W)) == []


def test_a_file_of_many_segments_is_read_once_and_neighbours_are_one_range() -> None:
    file = a_file(0)
    segments = [a_segment(at, at + 1, {at: 1}, file) for at in (0, 1, 2, 4)]
    segments.append(a_segment(5, 6, {5: 1}, file, stability=Stability.TENTATIVE))
    (partition,) = partitions_of(a.ALPHA, W, segments, Range(0, 9 * W))
    (part,) = partition.files
    assert [(w.range.from_us // W, w.range.to_us // W) for w in part.ranges] == [
        (0, 3), (4, 5), (5, 6),
    ]  # fmt: skip


def test_a_hole_in_what_was_promised_is_an_error_and_no_silent_gap() -> None:
    segments = (a_segment(0, 2, {0: 1}, a_file(0)), a_segment(3, 4, {3: 1}, a_file(1)))
    check_whole(a.SUMS, segments, Range(0, 2 * W))
    with pytest.raises(Unavailable, match="lacks final segments of sums"):
        check_whole(a.SUMS, segments, Range(0, 4 * W))


@pytest.mark.parametrize(
    "type_",
    ["boolean", "int", "bigint", "double", "string", "binary", "date", "timestamp",
     "decimal(38,9)", "decimal(5,0)"],
)  # fmt: skip
def test_every_type_of_medusa_has_one_of_spark_with_the_same_arrow_type(type_: str) -> None:
    assert to_arrow_type(spark_type(type_), timezone="UTC") == arrow_type(type_)


rows_by_bucket = st.dictionaries(st.integers(0, 30), st.integers(1, 9), max_size=12)


@settings(deadline=None)
@given(
    rows=rows_by_bucket,
    records_max=st.none() | st.integers(1, 20),
    buckets_max=st.none() | st.integers(1, 4),
    grown=st.lists(st.integers(0, 32), min_size=1, max_size=4).map(sorted),
    begin_us=st.integers(0, 3 * W),
)
def test_batches_take_every_bucket_once_and_no_more_than_they_may(
    rows: dict[int, int],
    records_max: int | None,
    buckets_max: int | None,
    grown: list[int],
    begin_us: int,
) -> None:
    whole = [a_segment(at, at + 1, {at: n}, a_file(at)) for at, n in sorted(rows.items())]
    asked: list[Range] = []

    def segments(part: Range) -> list[Segment]:
        asked.append(part)
        return [s for s in whole if s.range.overlaps(part)]

    ahead, limit = Ahead(W), Limit(records_max=records_max, buckets_max=buckets_max)
    at_us, taken = begin_us, []
    for through in (at * W for at in grown):
        while at_us < through:
            end_us = ahead.filled_us(limit, at_us, through, segments)
            assert at_us < end_us <= through
            batch = [at for at in sorted(rows) if at * W < end_us and (at + 1) * W > at_us]
            assert len(batch) <= 1 or limit.admits(sum(rows[at] for at in batch), len(batch))
            taken += batch
            at_us = end_us
    last_us = grown[-1] * W
    assert all(one.to_us == other.from_us for one, other in pairwise(asked))
    assert taken == [at for at in sorted(rows) if (at + 1) * W > begin_us and at * W < last_us]
    assert sum(part.to_us - part.from_us for part in asked) == max(0, last_us - begin_us), (
        "what is known is not asked for again"
    )


@pytest.mark.parametrize("records_max", [1, 5_000, 40_000])
def test_the_first_batch_of_a_long_backlog_looks_at_no_more_than_about_what_it_takes(
    records_max: int,
) -> None:
    backlog, asked = 500_000, []

    def segments(part: Range) -> list[Segment]:
        begin, end = part.from_us // W, -(-part.to_us // W)
        asked.append(end - begin)
        return [a_segment(begin, end, dict.fromkeys(range(begin, end), 1), a_file(begin))]

    ahead, limit = Ahead(W), Limit(records_max=records_max)
    assert ahead.filled_us(limit, 0, backlog * W, segments) == records_max * W
    assert sum(asked) <= LOOKED_AT_FIRST + 2 * records_max
    taken = ahead.filled_us(limit, records_max * W, backlog * W, segments)
    assert taken == 2 * records_max * W
    assert sum(asked) <= LOOKED_AT_FIRST + 4 * records_max


def test_a_pause_of_years_in_a_backlog_is_passed_in_a_few_looks() -> None:
    last, looks = 10**9, []

    def segments(part: Range) -> list[Segment]:
        looks.append(part)
        there = [at for at in (0, last) if part.from_us <= at * W < part.to_us]
        return [a_segment(at, at + 1, {at: 1}, a_file(at)) for at in there]

    end_us = Ahead(W).filled_us(Limit(records_max=2), 0, (last + 1) * W, segments)
    assert end_us == (last + 1) * W
    assert len(looks) < 25
