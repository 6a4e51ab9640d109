"""Recorded Parquet: the declared columns are read, a batch at a time, and brought to their types.

A column whose type cannot hold the declared values at all (a list for an int, a timestamp for a
bigint) is refused for the whole file; a value that does not fit (300 for a column declared int is
fine, 3,000,000,000 is not) sends its row to quarantine. Text columns are read by the grammar of
CSV fields, so that they may be declared as any type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from medusa_core.columns import Column
from medusa_core.commits import QuarantinedRecord
from medusa_core.errors import Refused
from pipelines.sources.recorded.arrow_values import (
    can_hold,
    convert_values,
    decoded,
    has_instant,
    is_text,
)
from pipelines.sources.recorded.bound_columns import Bound, bind_columns
from pipelines.sources.recorded.event_times import SAMPLE_RECORDS, Int64s
from pipelines.sources.recorded.instants import settle_unit
from pipelines.sources.recorded.recorded_rows import Problem, Rows, Target, make_records
from pipelines.storage.file_limits import VALUE_BYTES, FileLimits
from pipelines.storage.parquet_bounds import (
    PART_BYTES_MAX,
    check_footer,
    open_footer,
    open_pages,
    text_bytes,
)
from pipelines.storage.parquet_pages import WrongPages

TEXT_BYTES_MAX = 2 << 30
"""Of the rows of a chunk, unpacked."""

Records = tuple[pa.Table, Int64s, tuple[QuarantinedRecord, ...]]


def read_parquet(
    target: Target, stream: BufferedReader, chunk_records: int, skip: int, limits: FileLimits
) -> Iterator[Records]:
    """The records of a Parquet file, `chunk_records` rows at a time, without `skip` chunks.

    Row groups that are skipped wholly are not read. Raises Refused if the file is damaged or asks
    for more memory than it may, or a declared column is missing or of a type that cannot hold it.
    """
    try:
        size = check_footer(target.file, stream)
        reader = open_footer(target.file, stream)
        bound = _bind(target, reader.schema_arrow)
        if not reader.metadata.num_rows:
            return
        values = len(bound) * reader.metadata.num_rows
        limits.check_unpacked(target.file, size, VALUE_BYTES * values)
        columns = [b.name for b in bound]
        reader, batch_rows = open_pages(target.file, stream, reader, columns)
        bound, unit = _settle_unit(target, reader, bound, batch_rows)
        reading = _Reading(
            target=target,
            reader=reader,
            bound=bound,
            unit=unit,
            batch_rows=batch_rows,
            check_text=lambda text_bytes: limits.check_unpacked(target.file, size, text_bytes),
        )
        yield from _read_chunks(reading, chunk_records, skip)
    except WrongPages as error:
        raise _damaged(target.file, str(error)) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(target.file, str(error).splitlines()[0].rstrip(".")) from None


def _damaged(file: Path, reason: str) -> Refused:
    return Refused(
        f"{file} is a Parquet file that is damaged or breaks off ({reason}): take it from its "
        "source again; what was read before is not the whole"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A file that is read: what fills the declared columns, and how much of it at once.

    `check_text` raises Refused for more bytes of text than the whole file may unpack to.
    """

    target: Target
    reader: pyarrow.parquet.ParquetFile
    bound: Sequence[Bound]
    unit: str
    batch_rows: int
    check_text: Callable[[int], None]

    def parts(self, first_row: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches with the number of their first row, none beginning before `first_row`.

        Row groups before that are not read.
        """
        group, start = 0, 0
        groups, metadata = self.reader.num_row_groups, self.reader.metadata
        while group < groups and start + metadata.row_group(group).num_rows <= first_row:
            start += metadata.row_group(group).num_rows
            group += 1
        if group == groups:
            return
        for batch in self.reader.iter_batches(
            self.batch_rows,
            row_groups=range(group, groups),
            columns=[b.name for b in self.bound],
        ):
            before = min(max(first_row - start, 0), len(batch))
            if before < len(batch):
                yield start + before, batch.slice(before)
            start += len(batch)


def _read_chunks(reading: _Reading, chunk_records: int, skip: int) -> Iterator[Records]:
    pieces: list[pa.Table] = []
    numbers: list[Int64s] = []
    quarantined: list[QuarantinedRecord] = []
    rows_needed, size, whole_size = chunk_records, 0, 0
    for first_row, batch in reading.parts(skip * chunk_records):
        offset = 0
        while offset < len(batch):
            part = batch.slice(offset, rows_needed)
            part_bytes = text_bytes(part)
            if size + part_bytes > TEXT_BYTES_MAX:
                raise Refused(
                    f"{reading.target.file} has more than {TEXT_BYTES_MAX >> 30} GiB of text in "
                    f"{chunk_records:,} rows: write it with shorter texts, or as JSON lines"
                )
            while part_bytes > PART_BYTES_MAX and len(part) > 1:
                part = part.slice(0, len(part) // 2)
                part_bytes = text_bytes(part)
            size += part_bytes
            whole_size += part_bytes
            reading.check_text(whole_size)
            table, at, bad = _make_records(reading, part, first_row + offset)
            pieces.append(table)
            numbers.append(at)
            quarantined += bad
            offset += len(part)
            rows_needed -= len(part)
            if not rows_needed:
                yield pa.concat_tables(pieces), np.concatenate(numbers), tuple(quarantined)
                pieces, numbers, quarantined, rows_needed, size = [], [], [], chunk_records, 0
    if rows_needed < chunk_records:
        yield pa.concat_tables(pieces), np.concatenate(numbers), tuple(quarantined)


def _make_records(
    reading: _Reading, batch: pa.RecordBatch, first_row: int
) -> tuple[pa.Table, Int64s, list[QuarantinedRecord]]:
    def content(row: int) -> str:
        return record_text({b.name: batch.column(b.name)[row] for b in reading.bound})

    numbers = np.arange(first_row + 1, first_row + len(batch) + 1)
    rows = rows_of(reading.bound, batch)
    return make_records(reading.target, rows, reading.unit, numbers, content)


def record_text(values: Mapping[str, Any]) -> str:
    """A row of Arrow scalars by column as it is shown to people, JSON."""
    shown = {name: _shown(value) for name, value in values.items()}
    return json.dumps(shown, ensure_ascii=False, default=str)


def _shown(value: Any) -> Any:
    """A value as it may stand in a report, even if it is not what its type promises."""
    if pa.types.is_dictionary(value.type):
        value = value.value
    if pa.types.is_string(value.type) or pa.types.is_binary(value.type):
        raw = value.cast(pa.binary()).as_py()
        return None if raw is None else raw.decode(errors="replace")
    if pa.types.is_temporal(value.type):
        try:
            return str(value.as_py()) if value.is_valid else None
        except (OverflowError, ValueError):
            return value.value  # what no calendar holds, as the file has it
    return value.as_py()


def rows_of(bound: Sequence[Bound], batch: pa.RecordBatch) -> Rows:
    """A batch as rows of the declared columns."""
    values: list[Any] = []
    problems: dict[int, Problem] = {}
    for filling in bound:
        converted, failures = convert_values(batch.column(filling.name), filling)
        values.append(converted)
        for row, why in failures.items():
            problems.setdefault(row, Problem(filling.column.name, why))
    return Rows(tuple(values), problems)


def _settle_unit(
    target: Target, reader: pyarrow.parquet.ParquetFile, bound: Sequence[Bound], batch_rows: int
) -> tuple[tuple[Bound, ...], str]:
    at = target.time_position
    rows = min(2 * SAMPLE_RECORDS, batch_rows)
    batch = next(reader.iter_batches(rows, columns=[bound[at].name]))
    values = decoded(batch.column(bound[at].name))
    if bound[at].conversion is None:
        values, _ = convert_values(values, bound[at])
    elif is_text(values.type):
        values, _ = convert_values(values, Bound(column=Column("time", "string"), name=""))
    settled, unit = settle_unit(target.source, target.file, bound[at], values)
    return tuple(settled if b is bound[at] else b for b in bound), unit


def _bind(target: Target, schema: pa.Schema) -> tuple[Bound, ...]:
    """What fills the declared columns; Refused if a type cannot hold the values at all."""
    bound = bind_columns(target, schema.names)
    for filling in bound:
        given, column = schema.field(filling.name).type, filling.column
        is_held = can_hold(given, column.type) if filling.conversion is None else has_instant(given)
        if not is_held:
            raise Refused(
                f"{target.file} has column {filling.name!r} as {given}, declared {column.type} in "
                f"source {target.source.name!r}: declare it as what it is, or convert the file"
            )
    return bound
