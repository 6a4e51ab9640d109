"""A task of Spark reads and writes files of a home on a machine that shares no folder with it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import StreamName
from pipelines.spark.inputs import read_in_tasks
from pipelines.storage.arrow_schema import BUCKET, STIME, columns_of, file_schema
from pipelines.storage.object_settings import SETTINGS, ObjectSettings, read_settings
from pipelines.storage.segment_files import (
    TaskRoot,
    keep_files,
    new_attempt,
    read_rows,
    write_file,
)
from tests.storage.object_server import ObjectServer, keys_file, object_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = StreamName("sums")
TABLE = pa.table({"number": pa.array(range(1_000), pa.int64())})


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


def test_a_task_elsewhere_reads_what_was_kept_and_its_files_are_kept_by_the_driver(
    server: ObjectServer, tmp_path: Path
) -> None:
    driver, worker = tmp_path / "driver", tmp_path / "worker/storage"
    driver.mkdir()
    settings = server.settings("home", credentials=str(keys_file(tmp_path / "keys")))
    settings.write(driver)
    given = write_file(driver, STREAM, new_attempt(), TABLE)
    keep_files(driver, [given])
    task = replace(TaskRoot.of(driver), folder=str(worker))
    task = pickle.loads(pickle.dumps(task))
    assert read_rows(task.here(), given, TABLE.schema).equals(TABLE)
    made = write_file(task.here(), STREAM, new_attempt(), TABLE)
    with pytest.raises(Unavailable, match="is gone before it was committed"):
        keep_files(driver, [made])
    task.hand_over([made])
    server.requests.clear()
    keep_files(driver, [made])
    assert {method for method, _ in server.requests} == {"HEAD"}, "the driver puts it no more"
    assert read_rows(driver, made, TABLE.schema).equals(TABLE)


@pytest.mark.usefixtures("interpreted")
def test_tasks_of_spark_read_files_of_which_their_machine_has_no_copy(
    server: ObjectServer, spark: SparkSession, tmp_path: Path
) -> None:
    driver = tmp_path / "driver"
    driver.mkdir()
    settings = server.settings("scanned", credentials=str(keys_file(tmp_path / "keys")))
    settings.write(driver)
    columns = columns_of("sums", {"number": "bigint"})
    tables = [
        pa.table({"number": [at], STIME: [at], BUCKET: [0]}, schema=file_schema(columns))
        for at in range(3)
    ]
    files = [write_file(driver, STREAM, new_attempt(), table) for table in tables]
    keep_files(driver, files)
    elsewhere = replace(TaskRoot.of(driver), folder=str(tmp_path / "worker"))
    found = read_in_tasks(spark, elsewhere, files, columns)
    assert sorted(row["number"] for row in found.collect()) == [0, 1, 2]
    assert len(list((tmp_path / "worker").rglob("*.parquet"))) == 3


def test_a_root_on_disk_is_the_same_folder_for_a_task(tmp_path: Path) -> None:
    task = pickle.loads(pickle.dumps(TaskRoot.of(tmp_path)))
    assert task.here() == tmp_path
    task.hand_over([])
    assert list(tmp_path.iterdir()) == []


def test_changed_settings_reach_tasks_and_an_older_task_does_not_replace_them(
    tmp_path: Path,
) -> None:
    driver, worker = tmp_path / "driver", tmp_path / "worker"
    driver.mkdir()
    keys = [keys_file(tmp_path / name) for name in ("old", "new")]
    before = ObjectSettings(address="s3://bucket/home", credentials=str(keys[0]))
    before.write(driver)
    os.utime(driver / SETTINGS, ns=(1, 1))
    older = replace(TaskRoot.of(driver), folder=str(worker))
    assert read_settings(older.here()) == before
    changed = replace(before, credentials=str(keys[1]))
    changed.write(driver)
    newer = replace(TaskRoot.of(driver), folder=str(worker))
    assert read_settings(newer.here()) == changed
    assert read_settings(older.here()) == changed


def test_a_task_on_a_machine_without_the_keys_says_so_and_is_tried_again(tmp_path: Path) -> None:
    driver, missing = tmp_path / "driver", str(tmp_path / "keys")
    driver.mkdir()
    ObjectSettings(address="s3://bucket/home", credentials=missing).write(driver)
    task = replace(TaskRoot.of(driver), folder=str(tmp_path / "worker"))
    with pytest.raises(Unavailable, match=f"^on machine {gethostname()}, .*{missing}"):
        task.here()
    keys_file(Path(missing))
    assert read_settings(task.here()) is not None
