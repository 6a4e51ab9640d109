"""Closing buckets: which landed files a segment names, and which errors mean what.

A driver that was frozen while another one closed the buckets gets a conflict, and no error about
files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from medusa_core.columns import Column
from medusa_core.commits import Commit, LandedBatch, Lease
from medusa_core.decide import CloseBuckets, DecisionReason
from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import Limits
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.sources.closing import Closing, close_buckets
from pipelines.sources.landing import NAMED_ROWS_MIN, landed_batch
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import STIME, columns_of, record_schema
from pipelines.storage.segment_rows import read_segments
from tests.catalog.building import (
    ALPHA,
    FIRST,
    HOUR_MS,
    LANDING,
    MAIN,
    ME,
    PLAN,
    SRC,
    WIDTH_US,
    a_deployment,
    a_key,
    a_network,
)

COLUMNS: tuple[Column, ...] = columns_of("source src", a_network().source("src").columns)


@pytest.fixture
def catalog() -> MemoryCatalog:
    made = MemoryCatalog(ALPHA, ManualClock())
    made.deploy(a_deployment())
    return made


@pytest.fixture
def lease(catalog: MemoryCatalog) -> Lease:
    return catalog.acquire_lease(a_key(LANDING), FIRST, "driver", HOUR_MS)


def land(catalog: MemoryCatalog, root: Path, lease: Lease) -> LandedBatch:
    """Two buckets with records and a promise behind them."""
    times = [1, 2, WIDTH_US + 1]
    table = pa.table([times, ["a", "b", "c"], times], schema=record_schema(COLUMNS))
    batch = landed_batch(root, SRC, "query", 0, table, COLUMNS, WIDTH_US)
    catalog.land(lease, batch)
    catalog.promise(lease, SRC, origin_us=0, boundary_us=2 * WIDTH_US, end_us=None)
    return batch


def decided(catalog: MemoryCatalog) -> CloseBuckets:
    (landing,) = catalog.read_knowledge({}, Limits()).landings
    part = Range(0, 2 * WIDTH_US)
    return CloseBuckets(
        landing=landing, range=part, ends=False, because=DecisionReason("landed", {})
    )


def closed(catalog: MemoryCatalog, root: Path, lease: Lease, decision: CloseBuckets) -> Commit:
    closing = Closing(decision=decision, columns=COLUMNS, lease=lease, plan=PLAN)
    return close_buckets(closing, catalog, root)


def trim(catalog: MemoryCatalog) -> None:
    trimmed = catalog.trim(SRC, ME, 2 * WIDTH_US, needed={MAIN: FOREVER_US}, segments_max=100)
    assert trimmed.segments == 1


def test_buckets_that_another_driver_closed_and_trimmed_meanwhile_are_a_conflict(
    catalog: MemoryCatalog, tmp_path: Path, lease: Lease
) -> None:
    land(catalog, tmp_path, lease)
    decision = decided(catalog)
    catalog.commit(closed(catalog, tmp_path, lease, decision))
    trim(catalog)
    with pytest.raises(Conflict, match="was closed by another driver meanwhile"):
        closed(catalog, tmp_path, lease, decision)


def test_a_landed_file_that_went_while_it_was_about_to_be_read_is_a_conflict_too(
    catalog: MemoryCatalog, tmp_path: Path, lease: Lease
) -> None:
    batch = land(catalog, tmp_path, lease)
    decision = decided(catalog)
    catalog.commit(closed(catalog, tmp_path, lease, decision))
    assert batch.file is not None
    (tmp_path / batch.file.path).unlink()
    with pytest.raises(Conflict, match="was closed by another driver meanwhile"):
        closed(catalog, tmp_path, lease, decision)


def test_other_records_than_were_landed_are_refused_while_the_buckets_are_open(
    catalog: MemoryCatalog, tmp_path: Path, lease: Lease
) -> None:
    land(catalog, tmp_path, lease)
    decision = decided(catalog)
    landing = replace(decision.landing, counts={0: 3, WIDTH_US: 1})
    with pytest.raises(Refused, match="holds 2 records but 3 were landed"):
        closed(catalog, tmp_path, lease, replace(decision, landing=landing))


def test_a_landed_file_that_is_gone_is_unavailable_while_the_buckets_are_open(
    catalog: MemoryCatalog, tmp_path: Path, lease: Lease
) -> None:
    batch = land(catalog, tmp_path, lease)
    assert batch.file is not None
    (tmp_path / batch.file.path).unlink()
    with pytest.raises(Unavailable, match=batch.file.path):
        closed(catalog, tmp_path, lease, decided(catalog))


def many(first_us: int, rows: int) -> pa.Table:
    """Records of the first 4 buckets, in turn."""
    times = [at % 4 * WIDTH_US + first_us + at // 4 for at in range(rows)]
    return pa.table([times, ["v"] * rows, times], schema=record_schema(COLUMNS))


def land_many(
    catalog: MemoryCatalog, root: Path, lease: Lease, batch_id: int, rows: int
) -> LandedBatch:
    batch = landed_batch(root, SRC, "query", batch_id, many(batch_id, rows), COLUMNS, WIDTH_US)
    catalog.land(lease, batch)
    return batch


def test_a_segment_names_large_landed_files_and_copies_small_ones(
    catalog: MemoryCatalog, tmp_path: Path, lease: Lease
) -> None:
    large = land_many(catalog, tmp_path, lease, 0, 4 * NAMED_ROWS_MIN)
    small = land_many(catalog, tmp_path, lease, 1, 100)
    catalog.promise(lease, SRC, origin_us=0, boundary_us=4 * WIDTH_US, end_us=None)
    commit = closed(catalog, tmp_path, lease, decided(catalog))
    (segment,) = commit.segments
    named, copied = segment.files
    assert named == large.file
    assert copied.rows == small.counts[0] + small.counts[WIDTH_US]
    assert [digest.rows for digest in segment.buckets.values()] == [NAMED_ROWS_MIN + 25] * 2
    catalog.commit(commit)
    (line,) = [s for s in catalog.lines() if s.stream.name == SRC]
    stored = catalog.segments(SRC, producer=line.producer)
    table = pa.concat_tables(read_segments(tmp_path, stored, COLUMNS))
    starts = table[STIME].to_numpy() // WIDTH_US * WIDTH_US
    assert digests_by_bucket(table, COLUMNS, starts) == segment.buckets


def test_a_file_with_a_bucket_that_is_not_promised_is_not_named(
    catalog: MemoryCatalog, tmp_path: Path, lease: Lease
) -> None:
    landed = land_many(catalog, tmp_path, lease, 0, 4 * NAMED_ROWS_MIN)
    catalog.promise(lease, SRC, origin_us=0, boundary_us=3 * WIDTH_US, end_us=None)
    (segment,) = closed(catalog, tmp_path, lease, decided(catalog)).segments
    (copied,) = segment.files
    assert copied != landed.file
    assert copied.rows == 2 * NAMED_ROWS_MIN


def test_few_records_of_a_large_file_are_copied(
    catalog: MemoryCatalog, tmp_path: Path, lease: Lease
) -> None:
    landed = land_many(catalog, tmp_path, lease, 0, NAMED_ROWS_MIN)
    catalog.promise(lease, SRC, origin_us=0, boundary_us=4 * WIDTH_US, end_us=None)
    (segment,) = closed(catalog, tmp_path, lease, decided(catalog)).segments
    (copied,) = segment.files
    assert copied.rows == NAMED_ROWS_MIN // 2
    assert {at: landed.digests[at] for at in (0, WIDTH_US)} == segment.buckets


def test_a_large_landed_file_that_was_changed_is_not_named(
    catalog: MemoryCatalog, tmp_path: Path, lease: Lease
) -> None:
    landed = land_many(catalog, tmp_path, lease, 0, 4 * NAMED_ROWS_MIN)
    catalog.promise(lease, SRC, origin_us=0, boundary_us=4 * WIDTH_US, end_us=None)
    assert landed.file is not None
    path = tmp_path / landed.file.path
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(Unavailable, match="is damaged"):
        closed(catalog, tmp_path, lease, decided(catalog))
