"""The rows that the oracle reads: a source's records as they landed, a stream's final rows.

The oracle has its own reader. It shares with the product the rows of the catalog, which name the
files with size and hash, and the form of the files: Parquet with the declared columns, `_stime`,
and `_bucket` in segments; a landed file of several streams says in its metadata which rows are
whose.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import file_digest
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.errors import Unavailable
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName
from medusa_core.segments import Segment, SegmentFile, Stability
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.processing_roles import LandedFiles, Recalls
from pipelines.catalog.reading_roles import Lines
from pipelines.quality.spark_types import SparkType, column_type
from pipelines.storage.segment_files import rows_of
from pipelines.storage.store import read_file


class StoredLines(LandedFiles, Lines, Recalls, Protocol):
    """What names the files of a stream: landed batches and segments, and which were revised."""


STIME, BUCKET = "_stime", "_bucket"
_RUNS = b"medusa.runs"
_SHARED_TABLES_MAX = 8
_ARROW_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows with their declared columns and `_stime`; `types`: column -> Arrow types in the files.

    The types are those of the columns whose type in a file is not the declared one.
    """

    rows: pa.Table
    types: Mapping[str, frozenset[str]]


def arrow_type(type_: SparkType) -> pa.DataType:
    """How a file keeps values of a type."""
    if type_.is_decimal:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW_TYPES[type_.name]


def row_schema(columns: Iterable[Column]) -> pa.Schema:
    """Declared columns in their order, then `_stime`."""
    fields = [pa.field(c.name, arrow_type(column_type(c))) for c in columns]
    return pa.schema([*fields, pa.field(STIME, pa.int64())])


def final_rows(
    root: Path, segments: Iterable[Segment], columns: Sequence[Column], part: Range
) -> StoredRows:
    """The rows of a range that are in final segments.

    Raises Unavailable if a file is missing, damaged, or has other columns.
    """
    found = []
    for segment in segments:
        span = segment.range.intersection(part)
        if not segment.stability.is_final or span is None or not segment.within(span):
            continue
        for file in segment.files:
            path = _checked(root, file)
            with rows_of(path):
                table = pq.read_table(path, partitioning=None)
            found.append((file, table.filter(_inside(table[BUCKET], span))))
    return _joined(found, columns, (part,))


def source_records(
    catalog: StoredLines,
    root: Path,
    stream: StreamName,
    columns: Sequence[Column],
    parts: Sequence[Range],
) -> pa.Table:
    """A source's records of some ranges: what landed here, else what was imported, or is there
    since it was revised.

    Records in a declared gap of the stream are left out: they are declared as lost.
    Raises Unavailable if a file is missing, damaged, or has other columns.
    """
    line = lines_read(catalog.lines(stream), catalog.participant).get(stream)
    has_landed = bool(catalog.landed_queries(stream)) and not any(
        revision.changed for revision in catalog.recalls(stream)
    )
    tables = [row_schema(columns).empty_table()]
    for part in parts:
        segments = () if line is None else catalog.segments(stream, part, producer=line.producer)
        if not has_landed:
            tables.append(final_rows(root, segments, columns, part).rows)
            continue
        files = catalog.landed_files(stream, part)
        landed = [(file, _landed(root, file, stream, part)) for file in files]
        rows = _joined(landed, columns, (part,)).rows
        for segment in segments:
            if segment.stability is Stability.GAP:
                rows = rows.filter(pc.invert(_inside(rows[STIME], segment.range)))
        tables.append(rows)
    return pa.concat_tables(tables)


def lives_of(
    catalog: StoredLines, streams: Iterable[StreamName]
) -> Mapping[StreamName, Range | None]:
    """From where to where streams have buckets: their origin, and their end or FOREVER_US.

    None for a stream that has no bucket. Streams that have not begun are left out.
    """
    found: dict[StreamName, Range | None] = {}
    for stream in streams:
        line = lines_read(catalog.lines(stream), catalog.participant).get(stream)
        if line is not None and line.origin_us is not None:
            end_us = FOREVER_US if line.end_us is None else line.end_us
            found[stream] = Range(line.origin_us, end_us) if line.origin_us < end_us else None
    return found


def within(rows: pa.Table, parts: Iterable[Range]) -> pa.Table:
    """The rows whose event time is in one of the ranges, which do not overlap."""
    tables = [rows.filter(_inside(rows[STIME], part)) for part in parts]
    return pa.concat_tables([rows.slice(0, 0), *tables])


def _landed(root: Path, file: SegmentFile, stream: StreamName, part: Range) -> pa.Table:
    path = _checked(root, file)
    with rows_of(path):
        if file.path.endswith(".shared.parquet"):
            table, runs = _shared(path, file.sha256)
            first, rows = runs.get(stream, (0, 0))
            return table.slice(first, rows)
        bounds = (pc.field(STIME) >= part.from_us) & (pc.field(STIME) < part.to_us)
        return pq.read_table(path, filters=bounds, partitioning=None)


@lru_cache(maxsize=_SHARED_TABLES_MAX)
def _shared(path: Path, sha256: str) -> tuple[pa.Table, Mapping[str, tuple[int, int]]]:
    """A landed file of several streams, and the first row and the number of rows of each."""
    table = pq.read_table(path, partitioning=None)
    return table, json.loads(table.schema.metadata[_RUNS])


def _checked(root: Path, file: SegmentFile) -> Path:
    """The path of a file, if the file has the hash that the catalog names."""
    return read_file(root, file, partial(_of_hash, file))


def _of_hash(file: SegmentFile, path: Path) -> Path:
    try:
        with path.open("rb") as opened:
            found = file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise Unavailable(
            f"file {path} cannot be read ({error.strerror}): restore it from a backup or another "
            "replica"
        ) from error
    if found != file.sha256:
        raise Unavailable(
            f"file {path} is damaged: its SHA-256 is {found[:12]}… and not {file.sha256[:12]}… as "
            "committed; restore it from a backup or another replica"
        )
    return path


def _joined(
    tables: Iterable[tuple[SegmentFile, pa.Table]],
    columns: Sequence[Column],
    parts: Sequence[Range],
) -> StoredRows:
    schema = row_schema(columns)
    types: dict[str, set[str]] = {}
    found = [schema.empty_table()]
    for file, table in tables:
        try:
            chosen = table.select(schema.names)
            for field in chosen.schema:
                if field.type != schema.field(field.name).type:
                    types.setdefault(field.name, set()).add(str(field.type))
            found.append(chosen.cast(schema))
        except (KeyError, pa.ArrowException) as error:
            raise Unavailable(
                f"file {file.path} does not have the columns of its stream ({error}): restore it "
                "from a backup or another replica"
            ) from error
    rows = within(pa.concat_tables(found), parts)
    return StoredRows(rows, {name: frozenset(seen) for name, seen in types.items()})


def _inside(times: pa.ChunkedArray, part: Range) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(times, part.from_us), pc.less(times, part.to_us))
