"""What a worker gives of a file: values as they were written, of every type."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from medusa_core.columns import Column
from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName
from medusa_core.segments import SegmentFile, Stability
from pipelines.datasource.partition_rows import read_partition
from pipelines.datasource.partitions import BucketRange, FilePart, FilesPartition
from pipelines.datasource.spark_columns import spark_type
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import write_file

ALPHA = Participant("alpha")
VALUES = {
    "boolean": [True, None],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "double": [-0.0, 5e-324],
    "string": ["", "ß\n\U0001f40d"],
    "binary": [b"", b"\x00\xff"],
    "date": [date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)],
    "decimal(38,9)": [Decimal("-99999999999999999999999999999.999999999"), Decimal("0E-9")],
}
COLUMNS = tuple(Column(f"c{at}", type_) for at, type_ in enumerate(VALUES))
PART = Range(0, 10)


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    storage = tmp_path / "storage" / "alpha"
    storage.mkdir(parents=True)
    return storage


def partition_of(file: SegmentFile) -> FilesPartition:
    expected = BucketRange(PART, Stability.STABLE, ())
    return FilesPartition(ALPHA, PART, (FilePart(file, (expected,)),))


def test_every_type_is_read_back_as_it_was_written(storage: Path) -> None:
    values = {column.name: VALUES[column.type] for column in COLUMNS}
    table = pa.table({**values, STIME: [3, 7], BUCKET: [0, 0]}, schema=file_schema(COLUMNS))
    file = write_file(storage, StreamName("kinds"), "attempt", table)
    fields = [StructField(column.name, spark_type(column.type)) for column in reversed(COLUMNS)]
    schema = StructType([*fields, StructField("stime", TimestampType())])
    (batch,) = read_partition(partition_of(file), schema)
    assert batch.schema == to_arrow_schema(schema, timezone="UTC"), "or Spark takes it not"
    found = batch.to_pydict()
    del found["stime"]
    assert batch["stime"].cast(pa.int64()).to_pylist() == [3, 7]
    assert {name: repr(of) for name, of in found.items() if name != "c7"} == {
        name: repr(of) for name, of in values.items() if name != "c7"
    }
    assert found["c7"] == values["c7"]


@pytest.mark.parametrize("path", ["../beta/kinds/x.parquet", "/etc/passwd", "kinds/../../x"])
def test_a_path_that_leads_out_of_the_storage_root_is_not_followed(
    storage: Path, path: str
) -> None:
    file = SegmentFile(path=path, size_bytes=1, sha256="ab", rows=1)
    with pytest.raises(Unavailable, match="is outside"):
        list(read_partition(partition_of(file), StructType([StructField("c1", spark_type("int"))])))


def test_a_worker_that_does_not_see_the_home_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path / "elsewhere"))
    file = SegmentFile(path="kinds/x.parquet", size_bytes=1, sha256="ab", rows=1)
    with pytest.raises(Unavailable, match=r"spark\.executorEnv\.MEDUSA_DIR"):
        list(read_partition(partition_of(file), StructType([])))
