"""Closing buckets: who was frozen while another driver closed them is told so, not of bad files."""

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
from pipelines.sources.landing import close_buckets, landed_batch
from pipelines.storage.arrow_schema import columns_of, record_schema
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
    batch = landed_batch(root, SRC, "query", 0, table, WIDTH_US)
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
    return close_buckets(decision, catalog, root, COLUMNS, lease, PLAN)


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
