"""Recorded Parquet: the declared columns are read, a batch at a time, and brought to their types.

A column whose type cannot hold the declared values at all (a list for an int, a timestamp for a
bigint) is refused for the whole file; a value that does not fit (300 for a column declared int is
fine, 3,000,000,000 is not) sends its row to quarantine. Text columns are read by the grammar of
CSV fields, so that they may be declared as any type.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from medusa_core.columns import Column
from medusa_core.commits import QuarantinedRecord
from medusa_core.errors import Refused
from pipelines.streams.csv_records import RECORD_BYTES_MAX, TOO_LONG
from pipelines.streams.recorded_rows import Problem, Rows, Target, make_records
from pipelines.streams.recorded_text import (
    Failures,
    convert_text,
    decode_text,
    keep_years,
    null_if_empty,
)
from pipelines.streams.schemas import arrow_type
from pipelines.streams.times import SAMPLE_RECORDS, Int64s, recognise_unit

_FLOATS = (pa.float32(), pa.float64())
_READ_BYTES = 1 << 20
_BATCH_RECORDS = 65_536

Records = tuple[pa.Table, Int64s, tuple[QuarantinedRecord, ...]]


def read_parquet(
    target: Target, stream: BinaryIO, chunk_records: int, skip: int
) -> Iterator[Records]:
    """The records of a Parquet file, `chunk_records` rows at a time, without `skip` chunks.

    Row groups that are skipped wholly are not read. Raises Refused if the file is damaged or a
    declared column is missing or of a type that cannot hold it.
    """
    try:
        # Read through a small buffer: a row group of millions of rows must not be held whole.
        reader = pyarrow.parquet.ParquetFile(stream, buffer_size=_READ_BYTES, pre_buffer=False)
        _check_columns(target, reader.schema_arrow)
        if not reader.metadata.num_rows:
            return
        unit = _recognise_unit(target, reader)
        yield from _read_chunks(target, reader, unit, chunk_records, skip)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise Refused(
            f"{target.file} is a Parquet file that is damaged or breaks off ({reason}): take it "
            "from its source again; what was read before is not the whole"
        ) from None


def _read_chunks(
    target: Target,
    reader: pyarrow.parquet.ParquetFile,
    unit: str,
    chunk_records: int,
    skip: int,
) -> Iterator[Records]:
    first_row = skip * chunk_records  # the row at which the wanted chunks begin
    group, start = 0, 0
    groups = reader.num_row_groups
    while group < groups and start + reader.metadata.row_group(group).num_rows <= first_row:
        start += reader.metadata.row_group(group).num_rows
        group += 1
    if group == groups:
        return
    batches = reader.iter_batches(
        min(chunk_records, _BATCH_RECORDS),
        row_groups=range(group, groups),
        columns=[c.name for c in target.columns],
    )
    pieces: list[pa.Table] = []
    numbers: list[Int64s] = []
    quarantined: list[QuarantinedRecord] = []
    wanted = chunk_records
    for batch in batches:
        if start + len(batch) <= first_row:
            start += len(batch)
            continue
        offset = max(first_row - start, 0)
        while offset < len(batch):
            part = batch.slice(offset, wanted)
            table, at, bad = _make_records(target, part, unit, start + offset)
            pieces.append(table)
            numbers.append(at)
            quarantined += bad
            offset += len(part)
            wanted -= len(part)
            if not wanted:
                yield pa.concat_tables(pieces), np.concatenate(numbers), tuple(quarantined)
                pieces, numbers, quarantined, wanted = [], [], [], chunk_records
        start += len(batch)
    if wanted < chunk_records:
        yield pa.concat_tables(pieces), np.concatenate(numbers), tuple(quarantined)


def _make_records(
    target: Target, batch: pa.RecordBatch, unit: str, first_row: int
) -> tuple[pa.Table, Int64s, list[QuarantinedRecord]]:
    def content(row: int) -> str:
        values = {c.name: batch.column(c.name)[row] for c in target.columns}
        return record_text(values)

    numbers = np.arange(first_row + 1, first_row + len(batch) + 1)
    return make_records(target, rows_of(target, batch), unit, numbers, content)


def record_text(values: Mapping[str, Any]) -> str:
    """A row of Arrow scalars by column as it is shown to people, JSON."""
    shown = {name: _shown(value) for name, value in values.items()}
    return json.dumps(shown, ensure_ascii=False, default=str)


def _shown(value: Any) -> Any:
    """A value as it may stand in a report, even if it is not what its type promises."""
    if pa.types.is_string(value.type) or pa.types.is_binary(value.type):
        raw = value.cast(pa.binary()).as_py()
        return None if raw is None else raw[: 4 * 1_024].decode(errors="replace")
    if pa.types.is_temporal(value.type):
        try:
            return str(value.as_py()) if value.is_valid else None
        except (OverflowError, ValueError):
            return value.value  # what no calendar holds, as the file has it
    return value.as_py()


def rows_of(target: Target, batch: pa.RecordBatch) -> Rows:
    """A batch as rows of the declared columns."""
    values: list[Any] = []
    problems: dict[int, Problem] = {}
    for column in target.columns:
        converted, failures = _convert(batch.column(column.name), column)
        values.append(converted)
        for row, why in failures.items():
            problems.setdefault(row, Problem(column.name, why))
    return Rows(tuple(values), problems)


def _recognise_unit(target: Target, reader: pyarrow.parquet.ParquetFile) -> str:
    name = target.source.time
    batch = next(reader.iter_batches(2 * SAMPLE_RECORDS, columns=[name]))
    values, _ = _convert(batch.column(name), target.columns[target.time_position])
    return recognise_unit(target.source, target.file, values)


def _check_columns(target: Target, schema: pa.Schema) -> None:
    for column in target.columns:
        count = schema.names.count(column.name)
        if count > 1:
            raise Refused(f"{target.file} has {count} columns {column.name!r}: rename all but one")
        if not count:
            near = difflib.get_close_matches(column.name, schema.names, 1)
            hint = f"is it {near[0]!r}? " if near else ""
            raise Refused(
                f"{target.file} has no column {column.name!r}; {hint}It has "
                f"{', '.join(schema.names)}: rename one, or declare the source's columns as the "
                "file names them"
            )
        given = schema.field(column.name).type
        if not _can_hold(given, column.type):
            raise Refused(
                f"{target.file} has column {column.name!r} as {given}, declared {column.type} in "
                f"source {target.source.name!r}: declare it as what it is, or convert the file"
            )


def _can_hold(given: pa.DataType, declared: str) -> bool:
    """Whether values of a file's type can be values of the declared type at all."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_null(given) or pa.types.is_string(given) or pa.types.is_large_string(given):
        return True
    is_integer: bool = pa.types.is_integer(given)
    is_number = is_integer or pa.types.is_decimal(given) or given in _FLOATS
    is_bytes = pa.types.is_binary(given) or pa.types.is_large_binary(given)
    if declared in ("int", "bigint"):
        return is_integer
    if declared == "double" or declared.startswith("decimal"):
        return bool(is_number)
    holders: dict[str, bool] = {
        "boolean": pa.types.is_boolean(given),
        "date": pa.types.is_date(given),
        "timestamp": pa.types.is_timestamp(given) or pa.types.is_date(given),
        "string": is_bytes,
        "binary": is_bytes or pa.types.is_fixed_size_binary(given),
    }
    return holders[declared]


def _convert(values: Any, column: Column) -> tuple[Any, Failures]:
    """A file's column as the declared type, NULL where a value will not go, and why."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    given, wanted = values.type, arrow_type(column.type)
    is_text = pa.types.is_string(given) or pa.types.is_large_string(given)
    if is_text or (column.type == "string" and not pa.types.is_null(given)):
        return _convert_text(values, column.type)
    if column.type == "binary":
        return null_if_empty(pc.cast(values, wanted)), {}
    if given == wanted and column.type not in ("date", "timestamp"):
        return values, {}
    if pa.types.is_decimal(wanted) or (pa.types.is_decimal(given) and column.type == "double"):
        # By way of text, as a CSV of it would hold: of a double the shortest that is it and no
        # other. Arrow's own casts look at types where we ask about values, and round.
        return _convert_text(pc.cast(values, pa.string()), column.type)
    converted = _cast(values, wanted)
    if converted.null_count == values.null_count:
        return converted, {}
    lost = pc.and_(pc.is_valid(values), pc.is_null(converted)).to_numpy(zero_copy_only=False)
    is_day = column.type in ("date", "timestamp")
    why = "is out of the years 1 to 9999" if is_day else f"is out of range of {column.type}"
    return converted, {int(row): why for row in np.flatnonzero(lost)}


def _convert_text(values: Any, type_: str) -> tuple[Any, Failures]:
    raw = pc.cast(values, pa.binary(), safe=False)
    too_long: Failures = {}
    lengths = pc.binary_length(raw)
    if (pc.max(lengths).as_py() or 0) > RECORD_BYTES_MAX:
        is_long = pc.greater(lengths, RECORD_BYTES_MAX)
        rows = np.flatnonzero(pc.fill_null(is_long, False).to_numpy(zero_copy_only=False))
        too_long = {int(row): TOO_LONG for row in rows}
        raw = pc.if_else(is_long, None, raw)
    texts, undecoded = decode_text(raw)
    converted, failures = convert_text(texts, type_)
    return converted, failures | undecoded | too_long


def _cast(values: Any, wanted: pa.DataType) -> Any:
    """The values as another type, NULL where one is beyond it."""
    given = values.type
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(given):
        return _cast_timestamp(values, given.unit)
    if pa.types.is_timestamp(wanted) or pa.types.is_date(wanted):
        days = pc.cast(pc.cast(values, pa.date32()), pa.timestamp("s"))
        stamps = _cast_timestamp(days, "s")
        return pc.cast(stamps, pa.date32()) if pa.types.is_date(wanted) else stamps
    if pa.types.is_floating(wanted):
        return pc.cast(values, wanted, safe=False)  # whole numbers beyond 2^53 as text reads them
    try:
        return pc.cast(values, wanted)
    except pa.ArrowInvalid:
        limit = 1 << (wanted.bit_width - 1)
        listed = [v if v is not None and -limit <= v < limit else None for v in values.to_pylist()]
        return pa.array(listed, wanted)


def _cast_timestamp(values: Any, unit: str) -> Any:
    """Microseconds, finer ones cut downwards; NULL outside the years 1 to 9999."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    raw = pc.cast(pc.cast(values, pa.timestamp(unit)), pa.int64())
    if per_second <= 10**6:
        factor = 10**6 // per_second
        bound = (2**63 - 1) // factor
        is_kept = pc.and_(pc.greater_equal(raw, -bound), pc.less_equal(raw, bound))
        raw = pc.multiply(pc.if_else(is_kept, raw, None), factor)
    else:
        floored = np.floor_divide(pc.fill_null(raw, 0).to_numpy(), per_second // 10**6)
        raw = pa.array(floored, mask=raw.is_null().to_numpy(zero_copy_only=False))
    return keep_years(pc.cast(raw, arrow_type("timestamp")))
