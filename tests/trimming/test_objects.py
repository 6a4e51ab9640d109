"""A home whose files are objects is trimmed and read while copies are removed to make room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.segments import Read, SegmentFile
from pipelines.base import clock
from pipelines.exchange.contents import FileContents
from pipelines.homes.home import record_objects
from pipelines.operations.home_trim import TrimRequest, trim_opened
from pipelines.sources import landing
from pipelines.sources.landing import read_landed
from pipelines.spark import inputs
from pipelines.spark.inputs import input_records, read_table
from pipelines.storage.compaction import FILES_MIN, compact_run
from pipelines.storage.object_store import Bucket
from pipelines.storage.segment_files import check_file, new_attempt
from pipelines.storage.segment_rows import columns_of
from pipelines.storage.store import store_of
from tests.catalog import building as a
from tests.storage.object_server import ObjectServer, keys_file, object_server
from tests.trimming.building import SRC, SUMS, WIDTH_US, Store

HOUR_S = 3_600.0


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


@pytest.fixture
def prefix(store: Store, server: ObjectServer, tmp_path: Path) -> str:
    """Below which the files of the home are objects."""
    prefix = new_attempt()
    settings = server.settings(prefix, credentials=str(keys_file(tmp_path / "keys")))
    settings.write(store.root)
    record_objects(store.home.directory, a.ALPHA, settings.location, "own")
    return prefix


def test_orphans_of_another_home_with_the_same_prefix_are_not_removed(
    store: Store, server: ObjectServer, prefix: str
) -> None:
    bucket = store_of(store.root)
    assert isinstance(bucket, Bucket)
    bucket._write("sums/other.parquet", b"of the other home")
    server.make_old(prefix, "sums/other.parquet", 9 * HOUR_S)
    assert bucket.owner("other") == "other"
    with pytest.raises(Refused, match="objects of another home"):
        trim_opened(store.home, TrimRequest(removes_orphans=True))
    assert "sums/other.parquet" in server.objects(prefix)
    bucket._delete("medusa-owner")
    trim_opened(store.home, TrimRequest(removes_orphans=True))
    assert "sums/other.parquet" not in server.objects(prefix)


def test_orphans_are_not_removed_before_an_owner_is_recorded(store: Store, prefix: str) -> None:
    record_objects(store.home.directory, a.ALPHA, None, None)
    with pytest.raises(Refused, match="run medusa apply"):
        trim_opened(store.home, TrimRequest(removes_orphans=True))


def test_files_that_a_compaction_frees_are_young_objects(
    store: Store, server: ObjectServer, prefix: str
) -> None:
    olds = [store.write(SUMS, at, at + 1) for at in range(FILES_MIN)]
    for old in olds:
        server.make_old(prefix, old.path, 2 * HOUR_S)
    compact_run(store.home.catalog, store.root, store.status(SUMS), store.segments(SUMS))
    bucket = store_of(store.root)
    old_s = clock.wall_s() - HOUR_S
    ages = {file.path: at_s for file, at_s in bucket.files()}
    assert all(ages[old.path] > old_s for old in olds)


def evicting(root: Path, file: SegmentFile) -> Path:
    """The check of a file whose copy is removed right after it."""
    path = check_file(root, file)
    path.unlink()
    return path


@pytest.mark.usefixtures("prefix")
def test_a_landed_file_is_read_though_its_copy_is_removed_after_its_check(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = store.land(0, 3, 1)
    columns = columns_of(store.status(SRC).stream)
    monkeypatch.setattr(landing, "check_file", evicting)
    assert read_landed(store.root, file, columns, SRC, Range(0, WIDTH_US)).num_rows == 1


@pytest.mark.usefixtures("prefix")
def test_an_input_is_read_though_its_copy_is_removed_after_its_check(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(SUMS, 0, 4, rows=2)
    (segment,) = store.segments(SUMS)
    part = Range(0, 2 * WIDTH_US)
    read = Read(output=a.BIG, input=SUMS, producer=a.ME, range=part, version=segment.version)
    records = input_records(SUMS, columns_of(store.status(SUMS).stream), [segment], [read])
    monkeypatch.setattr(inputs, "check_file", evicting)
    assert read_table(store.root, records).num_rows == 4


@pytest.mark.usefixtures("prefix")
def test_a_partners_file_is_checked_though_its_copy_is_removed_before(store: Store) -> None:
    file = store.write(SUMS, 0, 4)
    check: Callable[..., None] = FileContents(store.root, store.home.catalog).check
    (store.root / file.path).unlink()
    check(SUMS, store.segments(SUMS))
