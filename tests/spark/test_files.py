"""A file that was compared with its hash is trusted for a while, and only while it is the same."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.spark.failures import spark_errors
from pipelines.storage.segment_files import CheckedFiles, check_file, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = StreamName("seen")


@dataclass
class Clock:
    """A clock that is moved by hand."""

    at_s: float = 0.0

    def __call__(self) -> float:
        return self.at_s


def a_file(root: Path, attempt: str = "one") -> SegmentFile:
    return write_file(root, STREAM, attempt, pa.table({"number": [1, 2, 3]}))


def flip_a_bit(path: Path) -> None:
    """As a disk would: size, times and inode stay what they were."""
    told = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


def test_a_file_that_is_written_over_after_it_was_checked_is_noticed_at_once(
    tmp_path: Path,
) -> None:
    file = a_file(tmp_path)
    path = check_file(tmp_path, file)
    flip_a_bit(path)
    later_ns = path.stat().st_mtime_ns + 1
    os.utime(path, ns=(later_ns, later_ns))
    with pytest.raises(Unavailable, match="is damaged"):
        check_file(tmp_path, file)


def test_a_file_that_another_of_its_size_and_time_replaced_is_noticed_at_once(
    tmp_path: Path,
) -> None:
    file = a_file(tmp_path)
    path = check_file(tmp_path, file)
    told = path.stat()
    other = tmp_path / "other"
    other.write_bytes(bytes(told.st_size))
    os.utime(other, ns=(told.st_atime_ns, told.st_mtime_ns))
    other.replace(path)
    with pytest.raises(Unavailable, match="is damaged"):
        check_file(tmp_path, file)


def test_a_file_that_is_gone_is_noticed_although_it_was_checked(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    check_file(tmp_path, file).unlink()
    with pytest.raises(Unavailable, match="cannot be read"):
        check_file(tmp_path, file)


def test_a_bit_that_flips_on_the_disk_is_noticed_once_the_check_is_old(tmp_path: Path) -> None:
    clock = Clock()
    checked = CheckedFiles(kept_s=600.0, now_s=clock)
    file = a_file(tmp_path)
    flip_a_bit(checked.check(tmp_path, file))
    clock.at_s = 599.0
    checked.check(tmp_path, file)
    clock.at_s = 601.0
    with pytest.raises(Unavailable, match="is damaged"):
        checked.check(tmp_path, file)


def test_files_are_remembered_up_to_a_number_those_used_last(tmp_path: Path) -> None:
    checked = CheckedFiles(files_max=2)
    first, second, third = (a_file(tmp_path, name) for name in ("one", "two", "three"))
    for file in (first, second, first, third):
        checked.check(tmp_path, file)
    assert len(checked) == 2
    flip_a_bit(tmp_path / first.path)
    flip_a_bit(tmp_path / second.path)
    checked.check(tmp_path, first)
    with pytest.raises(Unavailable, match="is damaged"):
        checked.check(tmp_path, second)


def test_a_file_that_went_before_it_was_read_is_unavailable(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    frame = spark.read.schema("n bigint").parquet(str(path))
    path.unlink()
    with pytest.raises(Unavailable, match="does not exist"), spark_errors("main"):
        frame.collect()
