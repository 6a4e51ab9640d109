"""Streams as CSV for comparing two runs: equal rows give equal bytes.

A header, then the rows sorted by all columns in order: numbers as numbers, text by code point,
NULL first, NaN last. Lines end in LF; a field is quoted only if it must be. Doubles are the
shortest text that reads back as the same double (`158.0`, `1e-05`: as Python and DuckDB write
them; -0.0 is 0.0), decimals plain with all digits of their scale, timestamps ISO-8601 in UTC with
microseconds only where there are some, binary hexadecimal. NULL is nothing at all, empty text or
binary is `""`.

A time outside the years 1 to 9999 and a text that is not UTF-8 are refused: neither has a
spelling that Python reads back.

The file appears under its name when it is whole: it is written under another name and renamed.
One stream's rows must fit into memory, since they are sorted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.errors import Refused, Unavailable
from medusa_core.grid import TIME_US_MAX, TIME_US_MIN
from medusa_core.names import StreamName
from pipelines.base.files import atomic_file
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.reading_roles import Lines
from pipelines.storage.arrow_schema import STIME, arrow_type
from pipelines.storage.segment_rows import columns_of, read_segments, stream_record

_ROWS_AT_ONCE = 65_536


def export_stream(catalog: Lines, root: Path, stream: StreamName, path: Path) -> int:
    """Write a stream's final rows as CSV, sorted by all columns; returns how many rows."""
    columns = columns_of(stream_record(catalog, stream))
    line = lines_read(catalog.lines(stream), catalog.participant)[stream]
    found = catalog.segments(stream, producer=line.producer)
    segments = [s for s in found if s.stability.is_final]
    tables = (t.drop_columns([STIME]) for t in read_segments(root, segments, columns))
    return export_csv(path, columns, tables)


def export_csv(path: Path, columns: Sequence[Column], tables: Iterable[pa.Table]) -> int:
    """Write the rows of all tables to `path`, replacing what is there; return how many.

    The tables may hold more than the columns and in any order. Raises Refused or Unavailable,
    naming the path, if it cannot be written or a value has no spelling.
    """
    schema = pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])
    parts = []
    for table in tables:
        part = table.select(schema.names).cast(schema)
        for column in columns:
            reason = unspeakable(part.column(column.name), column.type)
            if reason:
                raise Refused(f"{path} is not written: column {column.name!r} has {reason}")
        parts.append(part)
    rows = _sorted(pa.concat_tables([schema.empty_table(), *parts]))
    try:
        with atomic_file(path) as file:
            file.writelines(_lines(rows, columns))
    except (FileNotFoundError, NotADirectoryError):
        raise Refused(f"{path} cannot be written: its folder is not there; create it") from None
    except (IsADirectoryError, PermissionError) as error:
        raise Refused(f"{path} cannot be written ({error.strerror}): name another") from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be written now: {error.strerror or error}") from error
    return len(rows)


def unspeakable(values: Any, type_: str) -> str | None:
    """What the column holds that has no spelling, or None."""
    if type_ == "string":
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            return "a text that is no UTF-8: make it binary"
    if type_ in ("date", "timestamp"):
        raw = pc.cast(values, pa.int64() if type_ == "timestamp" else pa.int32())
        low, high = pc.min_max(raw).as_py().values()
        per_unit = 86_400 * 10**6 if type_ == "date" else 1
        if low is not None and (low * per_unit < TIME_US_MIN or high * per_unit > TIME_US_MAX):
            return f"a {type_} outside the years 1 to 9999"
    return None


def _sorted(rows: pa.Table) -> pa.Table:
    """Rows by all columns in order; doubles brought to the one spelling of zero and of NaN."""
    keys: dict[str, Any] = {}
    for position, name in enumerate(rows.schema.names):
        values = rows.column(name)
        if pa.types.is_floating(values.type):
            values = pc.add(values, 0.0)  # -0.0 + 0.0 is 0.0
            rows = rows.set_column(position, name, values)
            # Arrow would sort NaN next to NULL: first by whether it is NaN, then by value.
            keys[f"{position} is NaN"] = pc.if_else(pc.is_nan(values), 1, 0)
            values = pc.if_else(pc.is_nan(values), 0.0, values)
        keys[f"{position}"] = values
    by = [(key, "ascending", "at_start") for key in keys]
    return rows.take(pc.sort_indices(pa.table(keys), by))


def _lines(rows: pa.Table, columns: Sequence[Column]) -> Iterator[bytes]:
    yield (",".join(c.name for c in columns) + "\n").encode()
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows.slice(start, _ROWS_AT_ONCE).combine_chunks()
        texts = [
            pc.fill_null(field_texts(part.column(c.name).combine_chunks(), c.type), "")
            for c in columns
        ]
        if len(texts) == 1:
            # A line without anything would be no record.
            texts = [pc.if_else(pc.equal(texts[0], ""), '""', texts[0])]
        lines = pc.binary_join_element_wise(*texts, ",")
        yield "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def field_texts(values: Any, type_: str) -> Any:
    """Values of one type as the text of CSV fields, NULL staying NULL."""
    if type_ == "string":
        return _quoted(values)
    if type_ == "double":
        return pa.array([None if v is None else repr(v) for v in values.to_pylist()], pa.string())
    if type_.startswith("decimal"):
        return pa.array([None if v is None else f"{v:f}" for v in values.to_pylist()], pa.string())
    if type_ == "binary":
        listed = [None if v is None else v.hex() or '""' for v in values.to_pylist()]
        return pa.array(listed, pa.string())
    if type_ == "timestamp":
        texts = pc.strftime(values, "%Y-%m-%dT%H:%M:%S")
        return pc.replace_substring_regex(texts, r"(\.000000)?$", "Z")
    return pc.cast(values, pa.string())


def _quoted(texts: Any) -> Any:
    must = pc.or_(pc.equal(texts, ""), pc.match_substring_regex(texts, '[",\r\n]'))
    if not pc.any(must).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.if_else(must, quoted, texts)
