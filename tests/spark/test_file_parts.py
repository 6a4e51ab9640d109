"""Which parts of which files a step reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.spark.inputs import FilePart, InputRecords, Part, read_table
from pipelines.storage.arrow_schema import BUCKET, STIME, columns_of, file_schema
from pipelines.storage.row_groups import groups_of
from pipelines.storage.segment_files import write_file

COLUMNS = columns_of("source s", {"n": "bigint"})
STREAM = StreamName("s")


def a_file(root: Path, first: int, past: int, rows: int = 10) -> SegmentFile:
    """Rows of the buckets from `first` to `past`, each of 1 us; n is the bucket."""
    at = [bucket for bucket in range(first, past) for _ in range(rows)]
    table = pa.table({"n": at, STIME: at, BUCKET: at}, schema=file_schema(COLUMNS))
    return write_file(root, STREAM, f"from{first}to{past}", table)


def records(*parts: tuple[tuple[SegmentFile, ...], int, int, int]) -> InputRecords:
    found = tuple(Part(files, Range(first, past), rows) for files, first, past, rows in parts)
    return InputRecords(STREAM, COLUMNS, found)


def test_a_file_of_neighbouring_segments_is_read_once(tmp_path: Path) -> None:
    whole, left, right = (a_file(tmp_path, *of) for of in ((0, 9), (0, 3), (6, 9)))
    read = records(((whole, left), 0, 3, 60), ((whole,), 3, 6, 30), ((right,), 6, 9, 30))
    assert read.files == [
        FilePart(right, None),
        FilePart(whole, Range(0, 6)),
        FilePart(left, Range(0, 3)),
    ]
    assert sorted(read_table(tmp_path, read)["n"].to_pylist()) == sorted(
        n for first, past in ((0, 6), (0, 3), (6, 9)) for n in range(first, past) for _ in range(10)
    )


def test_rows_that_a_file_has_of_a_segment_that_does_not_name_it_are_left_out(
    tmp_path: Path,
) -> None:
    """Records that were copied when a segment was closed are still in the file of the next one."""
    first, copied, later = (a_file(tmp_path, *of) for of in ((0, 9), (2, 3), (2, 6)))
    read = records(((first, copied), 0, 3, 40), ((first, later), 3, 6, 60))
    assert FilePart(later, Range(3, 6)) in read.files
    found = read_table(tmp_path, read)["n"].to_pylist()
    assert [found.count(n) for n in range(7)] == [10, 10, 20, 20, 20, 20, 0]


@pytest.mark.parametrize(
    ("first", "past", "numbers"),
    [(0, 1, range(1)), (9, 11, range(2)), (10, 30, range(1, 3)), (25, 99, range(2, 3)),
     (40, 50, range(0))],
)  # fmt: skip
def test_row_groups_of_a_range_are_those_that_may_hold_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, past: int, numbers: range
) -> None:
    monkeypatch.setattr("pipelines.storage.segment_files.ROWS_PER_GROUP", 100)
    file = a_file(tmp_path, 0, 30)
    metadata = pq.read_metadata(tmp_path / file.path)
    found = groups_of(metadata, Range(first, past))
    assert found.numbers == numbers
    if numbers:
        # Spark reads the groups whose middle is among the bytes.
        chunks = [metadata.row_group(n).column(0) for n in range(metadata.num_row_groups)]
        starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
        assert [n for n, at in enumerate(starts) if found.start <= at < found.end] == [*numbers]
