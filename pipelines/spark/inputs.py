"""The records that a step reads, as a relation: from files named by segments, in named ranges.

Few records are read by Arrow and handed over as one table: no listing, no scan, no bound in the
plan. Many are scanned by Spark; a bound is put into the plan only where a file holds more than is
needed, which windows that reach back and splits of segments bring about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.segments import Read, Segment, SegmentFile
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import check_file, read_rows

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
class InputRecords:
    """What a step reads of one stream; or rows that it is given and that no stream has, `given`."""

    stream: StreamName
    columns: tuple[Column, ...]
    parts: tuple[Part, ...]
    given: pa.Table | None = field(default=None, compare=False)

    @property
    def rows(self) -> int:
        """How many records are read."""
        return sum(p.rows for p in self.parts)


def input_records(
    stream: StreamName,
    columns: tuple[Column, ...],
    segments: Iterable[Segment],
    reads: Iterable[Read],
) -> InputRecords:
    """The parts of live segments that lineage names of one input, each once."""
    ranges: dict[tuple[object, int], Range] = {}
    for read in reads:
        if read.input == stream:
            key = (read.producer, read.version)
            ranges[key] = ranges[key].hull(read.range) if key in ranges else read.range
    parts = []
    for segment in segments:
        range_ = ranges.get((segment.producer, segment.version))
        overlap = range_.intersection(segment.range) if range_ else None
        rows = sum(d.rows for d in segment.within(overlap).values()) if overlap else 0
        if overlap and rows:
            parts.append(Part(segment.files, overlap, rows))
    return InputRecords(stream, columns, tuple(parts))


def read_table(root: Path, records: InputRecords) -> pa.Table:
    """The records as one Arrow table: declared columns and `_stime`."""
    if records.given is not None:
        return records.given
    schema = file_schema(records.columns)
    tables = [_read_part(root, part, schema) for part in records.parts]
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    return table.drop_columns([BUCKET])


def _read_part(root: Path, part: Part, schema: pa.Schema) -> pa.Table:
    tables = []
    for file in part.files:
        table = read_rows(root, file, schema)
        if not part.is_whole:
            inside = pc.and_(
                pc.greater_equal(table[BUCKET], part.range.from_us),
                pc.less(table[BUCKET], part.range.to_us),
            )
            table = table.filter(inside)
        tables.append(table)
    return pa.concat_tables(tables)


def open_relation(
    session: SparkSession, root: Path, records: InputRecords, *, hands_over: bool,
    shuffled: bool = False,
) -> DataFrame:  # fmt: skip
    """The records as a DataFrame; `shuffled` puts them in another order and other partitions."""
    if hands_over or not records.rows:
        table = read_table(root, records)
        if shuffled and table.num_rows:
            table = table.take(pc.sort_indices(pc.bit_wise_xor(table[STIME], 0x5555)))
            return handed_over(session, table).repartition(3)
        return handed_over(session, table)
    whole = [p for p in records.parts if p.is_whole]
    partial = [p for p in records.parts if not p.is_whole]
    frames = [_scan(session, root, whole, records.columns)] if whole else []
    for part in partial:
        frame = _scan(session, root, [part], records.columns)
        frames.append(
            frame.where(f"{BUCKET} >= {part.range.from_us} AND {BUCKET} < {part.range.to_us}")
        )
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionAll(other)
    frame = frame.drop(BUCKET)
    return frame.repartition(3) if shuffled else frame


def handed_over(session: SparkSession, records: pa.Table) -> DataFrame:
    """Records as a DataFrame of one partition, in their order."""
    # Spark leaves out what follows an empty chunk.
    return session.createDataFrame(records.combine_chunks()).coalesce(1)


def _scan(
    session: SparkSession, root: Path, parts: Iterable[Part], columns: tuple[Column, ...]
) -> DataFrame:
    paths = [str(check_file(root, f)) for part in parts for f in part.files]
    fields = ", ".join(f"`{c.name}` {c.type}" for c in columns)
    return session.read.schema(f"{fields}, {STIME} bigint, {BUCKET} bigint").parquet(*paths)
