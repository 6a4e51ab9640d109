"""What a step reads of a segment comes whole, however its rows lie in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from medusa_core.columns import Column
from medusa_core.grid import Range
from medusa_core.names import StreamName
from pipelines.spark.inputs import InputRecords, Part, handed_over, open_relation
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = StreamName("readings")
COLUMNS = (Column("number", "bigint"),)
BUCKET_US = 10


@pytest.mark.parametrize("hands_over", [True, False])
@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_of_a_range_are_read_though_a_file_between_them_has_none(
    spark: SparkSession, tmp_path: Path, hands_over: bool, shuffled: bool
) -> None:
    files = tuple(
        write_file(tmp_path, STREAM, f"file-{at}", rows_at(*buckets))
        for at, buckets in enumerate(((0, 1), (0, 2), (1, 2)))
    )
    part = Part(files, Range(BUCKET_US, 2 * BUCKET_US), 2)
    records = InputRecords(STREAM, COLUMNS, (part,))
    relation = open_relation(spark, tmp_path, records, hands_over=hands_over, shuffled=shuffled)
    assert relation.toArrow()["number"].to_pylist() == [1, 1]


def test_all_rows_of_a_table_with_an_empty_chunk_are_handed_over(spark: SparkSession) -> None:
    chunks = [pa.table({"number": pa.array(numbers, pa.int64())}) for numbers in ([1], [], [2])]
    handed = handed_over(spark, pa.concat_tables(chunks)).toArrow()
    assert handed["number"].to_pylist() == [1, 2]


def rows_at(*buckets: int) -> pa.Table:
    """A row for each bucket, whose number is that of the bucket."""
    starts = [bucket * BUCKET_US for bucket in buckets]
    columns = {"number": list(buckets), STIME: starts, BUCKET: starts}
    return pa.table(columns).cast(file_schema(COLUMNS))
