"""The records that a step reads, as a relation: from files named by segments, in named ranges.

Few records are read by Arrow and handed over as one table: no listing, no scan, no bound in the
plan. Many are scanned by Spark, where they are; a bound is needed only where a file holds more than
is read, which landed files, windows that reach back and splits of segments bring about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.grid import Range, merged_ranges
from medusa_core.names import StreamName
from medusa_core.segments import Producer, Read, Segment, SegmentFile
from pipelines.spark.session import is_of_this_machine
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.row_groups import groups_of
from pipelines.storage.segment_files import TaskRoot, check_file, read_rows, rows_of
from pipelines.storage.store import read_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of one segment: its files and which buckets of them are read."""

    files: tuple[SegmentFile, ...]
    range: Range
    rows: int

    @property
    def is_whole(self) -> bool:
        """Whether every row of the files is read."""
        return sum(f.rows for f in self.files) == self.rows


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, and which buckets of it are read; None: all of them."""

    file: SegmentFile
    range: Range | None


@dataclass(frozen=True, slots=True)
class InputRecords:
    """What a step reads of one stream; or rows that it is given and that no stream has, `given`.

    `is_thinned`: what it is given is what is kept of a stream's records.
    """

    stream: StreamName
    columns: tuple[Column, ...]
    parts: tuple[Part, ...]
    given: pa.Table | None = field(default=None, compare=False)
    is_thinned: bool = False

    @property
    def rows(self) -> int:
        """How many records are read."""
        if self.is_thinned and self.given is not None:
            return int(self.given.num_rows)
        return sum(p.rows for p in self.parts)

    @property
    def file_bytes(self) -> float:
        """About how many bytes the records take in their files."""
        files = {file for part in self.parts for file in part.files}
        rows = sum(file.rows for file in files)
        return self.rows * sum(file.size_bytes for file in files) / rows if rows else 0.0

    @property
    def files(self) -> Sequence[FilePart]:
        """The files that are read, each once for each run of neighbouring parts that name it.

        What a file holds of other parts is not of these: each is read in the ranges of the parts
        that name it.
        """
        whole = [FilePart(f, None) for part in self.parts if part.is_whole for f in part.files]
        runs: dict[SegmentFile, list[Range]] = {}
        for part in sorted(self.parts, key=lambda p: p.range):
            for file in () if part.is_whole else part.files:
                of_file = runs.setdefault(file, [])
                if of_file and of_file[-1].to_us == part.range.from_us:
                    of_file[-1] = of_file[-1].hull(part.range)
                else:
                    of_file.append(part.range)
        return [*whole, *(FilePart(file, part) for file, of in runs.items() for part in of)]


def input_records(
    stream: StreamName,
    columns: tuple[Column, ...],
    segments: Iterable[Segment],
    reads: Iterable[Read],
) -> InputRecords:
    """The parts of live segments that lineage names of one input, each once."""
    ranges: dict[tuple[Producer, int], list[Range]] = {}
    for read in reads:
        if read.input == stream:
            ranges.setdefault((read.producer, read.version), []).append(read.range)
    merged = {line: merged_ranges(of_line) for line, of_line in ranges.items()}
    parts = []
    for segment in segments:
        for range_ in merged.get((segment.producer, segment.version), ()):
            overlap = range_.intersection(segment.range)
            rows = sum(d.rows for d in segment.within(overlap).values()) if overlap else 0
            if overlap and rows:
                parts.append(Part(segment.files, overlap, rows))
    return InputRecords(stream, columns, tuple(parts))


def read_table(root: Path, records: InputRecords) -> pa.Table:
    """The records as one Arrow table: declared columns and `_stime`."""
    if records.given is not None:
        return records.given
    schema = file_schema(records.columns)
    tables = [_read_part(root, part, schema) for part in records.files]
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    return table.drop_columns([BUCKET])


def _read_part(root: Path, part: FilePart, schema: pa.Schema) -> pa.Table:
    if part.range is None:
        return read_rows(root, part.file, schema)
    check_file(root, part.file)
    # A copy of an object may have been removed since, to make room.
    table = read_file(root, part.file, partial(_groups_in, part.range, schema))
    inside = pc.and_(
        pc.greater_equal(table[BUCKET], part.range.from_us),
        pc.less(table[BUCKET], part.range.to_us),
    )
    return table.filter(inside)


def _groups_in(range_: Range, schema: pa.Schema, path: Path) -> pa.Table:
    """The rows of the row groups that may have rows in a range."""
    with rows_of(path), pq.ParquetFile(path) as file:
        numbers = groups_of(file.metadata, range_).numbers
        table = file.read_row_groups(list(numbers), columns=schema.names)
        return table.select(schema.names).cast(schema)


def open_relation(
    session: SparkSession, root: Path, records: InputRecords, *, hands_over: bool,
    shuffled: bool = False,
) -> DataFrame:  # fmt: skip
    """The records as a DataFrame; `shuffled` puts them in another order and other partitions."""
    if hands_over or not records.rows or records.is_thinned:
        table = read_table(root, records)
        if shuffled and table.num_rows:
            table = table.take(pc.sort_indices(pc.bit_wise_xor(table[STIME], 0x5555)))
            return handed_over(session, table).repartition(3)
        return handed_over(session, table)
    by_range: dict[Range | None, list[SegmentFile]] = {}
    for part in records.files:
        by_range.setdefault(part.range, []).append(part.file)
    frames = []
    for range_, files in by_range.items():
        frame = _scan(session, root, files, records.columns)
        if range_ is not None:
            frame = frame.where(f"{BUCKET} >= {range_.from_us} AND {BUCKET} < {range_.to_us}")
        frames.append(frame)
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionAll(other)
    frame = frame.drop(BUCKET)
    return frame.repartition(3) if shuffled else frame


def shares_no_files(session: SparkSession, root: Path) -> bool:
    """Whether tasks may run on machines that have no file of this machine.

    They may on a cluster if the files of the home are objects. Rows are sent to such tasks, or they
    read objects. A path of this machine does not exist there.
    """
    is_here = is_of_this_machine(str(session.sparkContext.master))
    return not is_here and TaskRoot.of(root).is_anywhere


def handed_over(session: SparkSession, records: pa.Table) -> DataFrame:
    """Records as a DataFrame of one partition, in their order."""
    # Spark leaves out what follows an empty chunk.
    return session.createDataFrame(records.combine_chunks()).coalesce(1)


def _scan(
    session: SparkSession, root: Path, files: Iterable[SegmentFile], columns: tuple[Column, ...]
) -> DataFrame:
    if shares_no_files(session, root):
        return read_in_tasks(session, TaskRoot.of(root), list(files), columns)
    paths = [str(check_file(root, file)) for file in files]
    return session.read.schema(_fields_of(columns)).parquet(*paths)


def read_in_tasks(
    session: SparkSession, root: TaskRoot, files: Sequence[SegmentFile], columns: Sequence[Column]
) -> DataFrame:
    """The rows of files, each read by a task where the task runs, which may be without a copy."""
    schema = file_schema(columns)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_rows(root.here(), files[number], schema).to_batches()

    numbers = session.range(0, len(files), 1, len(files))
    return numbers.mapInArrow(read, _fields_of(columns))


def _fields_of(columns: Iterable[Column]) -> str:
    fields = ", ".join(f"`{c.name}` {c.type}" for c in columns)
    return f"{fields}, {STIME} bigint, {BUCKET} bigint"
