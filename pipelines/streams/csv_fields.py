"""Blocks of CSV records as typed rows: at once where all goes well, with care where it does not.

The fast way lets pyarrow parse whole numbers, doubles and strings straight into columns. It is
taken back whenever it fails, or meets something that it would read more kindly than
`recorded_text` (hexadecimal, numbers beyond the largest double, NUL bytes). The careful way then
takes records with the wrong number of fields out, reads all fields as bytes and converts them
column by column. What the fast way accepts the careful way accepts with the same values, so a
record reads the same whatever records stand beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from medusa_core.columns import Column
from pipelines.streams.csv_records import RECORD_BYTES_MAX, Block, are_quotes_sound
from pipelines.streams.recorded_rows import Problem, Rows
from pipelines.streams.recorded_text import convert_text, decode_text
from pipelines.streams.schemas import arrow_type

_PARSED_DIRECTLY = ("int", "bigint", "double", "string")
_BLOCK_BYTES = 2 * RECORD_BYTES_MAX  # pyarrow wants a record to fit into one of its blocks

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the fields of a file lie: its delimiter, its header, where each declared column is."""

    delimiter: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """Rows, and which record of the block each is; records that never became rows, and why."""

    rows: Rows
    records: Int64s
    malformed: Mapping[int, Problem]


def parse_block(block: Block, layout: Layout) -> Parsed:
    """The records of a block as rows of the declared columns."""
    if not block.broken and b"\0" not in block.text:
        rows = _parse_fast(block, layout)
        if rows:
            return Parsed(rows, np.arange(len(block.ends)), {})
    return _parse_carefully(block, layout)


def _read(text: bytes, layout: Layout, types: list[pa.DataType], has_newlines: bool) -> pa.Table:
    names = [str(i) for i in range(len(layout.names))]
    wanted = [names[position] for position in layout.positions]
    return pyarrow.csv.read_csv(
        pa.BufferReader(text),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=layout.delimiter, newlines_in_values=has_newlines
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict(zip(wanted, types, strict=True)),
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


def _parse_fast(block: Block, layout: Layout) -> Rows | None:
    """All records as rows, or None if they do not go as simply as that."""
    types = [c.type if c.type in _PARSED_DIRECTLY else "string" for c in layout.columns]
    is_integer = any(t in ("int", "bigint") for t in types)
    if is_integer and (b"0x" in block.text or b"0X" in block.text):
        return None
    try:
        table = _read(block.text, layout, [arrow_type(t) for t in types], _has_newlines(block))
    except pa.ArrowInvalid:
        return None
    if len(table) != len(block.ends):
        return None  # blank lines
    values: list[Any] = []
    problems: dict[int, Problem] = {}
    for column, type_, given in zip(layout.columns, types, table.columns, strict=True):
        if column.type == type_:
            if type_ == "double" and pc.any(pc.is_inf(given)).as_py():
                return None
            values.append(given)
            continue
        converted, failures = convert_text(given.combine_chunks(), column.type)
        values.append(converted)
        _note(problems, column, failures)
    return Rows(tuple(values), problems)


def _parse_carefully(block: Block, layout: Layout) -> Parsed:
    starts = block.starts
    malformed = {i: Problem("", why) for i, why in block.broken.items()}
    is_sound = np.ones(len(block.ends), np.bool_)
    is_sound[list(malformed)] = False
    is_sound &= ~_are_blank(block, starts)
    counts = _field_counts(block, starts, layout.delimiter)
    expected = len(layout.names)
    for i in np.flatnonzero(is_sound & (counts != expected)).tolist():
        noun = "field" if counts[i] == 1 else "fields"
        malformed[i] = Problem("", f"{counts[i]} {noun} where the header has {expected}")
        is_sound[i] = False
    records = np.flatnonzero(is_sound)
    values: list[Any] = []
    problems: dict[int, Problem] = {}
    if not len(records):
        values = [pa.array([], arrow_type(column.type)) for column in layout.columns]
        return Parsed(Rows(tuple(values), {}), records, malformed)
    types = [pa.binary()] * len(layout.columns)
    table = _read(_only(block, starts, is_sound), layout, types, True)
    assert len(table) == len(records), "pyarrow sees other records than we do"
    for column, given in zip(layout.columns, table.columns, strict=True):
        texts, undecoded = decode_text(given.combine_chunks())
        converted, failures = convert_text(texts, column.type)
        values.append(converted)
        _note(problems, column, undecoded | failures)
    return Parsed(Rows(tuple(values), problems), records, malformed)


def _note(problems: dict[int, Problem], column: Column, failures: Mapping[int, str]) -> None:
    for row, why in failures.items():
        problems.setdefault(row, Problem(column.name, why))


def _has_newlines(block: Block) -> bool:
    """Whether some record goes over several lines."""
    return len(block.lines) > 0 and bool(
        block.lines[-1] - block.lines[0] != len(block.lines) - 1
        or block.text.count(b"\n", int(block.starts[-1])) > 1
    )


def _are_blank(block: Block, starts: Int64s) -> NDArray[np.bool_]:
    array = np.frombuffer(block.text, np.uint8)
    first = array[starts]
    length = block.ends - starts
    is_blank: NDArray[np.bool_] = (first == b"\n"[0]) | ((first == b"\r"[0]) & (length <= 2))
    return is_blank


def _field_counts(block: Block, starts: Int64s, delimiter: str) -> Int64s:
    """Fields per record: delimiters outside quotes, and one."""
    array = np.frombuffer(block.text, np.uint8)
    places = np.flatnonzero(array == ord(delimiter))
    quotes = np.flatnonzero(array == b'"'[0])
    # Lines of a broken record may end inside quotes: no counting over them then.
    is_sound = not block.broken and are_quotes_sound(array, quotes, delimiter)
    if is_sound and len(quotes):
        places = places[np.searchsorted(quotes, places) % 2 == 0]
    counts: Int64s = np.diff(np.searchsorted(places, block.ends), prepend=0) + 1
    if is_sound:
        return counts
    d = re.escape(delimiter.encode())
    quoted = re.compile(rb'(?:\A|(?<=%b))"(?:[^"]++|"")*+"' % d)
    for i in np.unique(np.searchsorted(block.ends, quotes, "right")).tolist():
        record = block.text[int(starts[i]) : int(block.ends[i])]
        counts[i] = quoted.sub(b"", record).count(delimiter.encode()) + 1
    return counts


def _only(block: Block, starts: Int64s, is_kept: NDArray[np.bool_]) -> bytes:
    """The text of some records: runs of them are copied at once."""
    edges = np.flatnonzero(np.diff(is_kept.astype(np.int8), prepend=0, append=0))
    runs = [
        block.text[int(starts[first]) : int(block.ends[stop - 1])]
        for first, stop in edges.reshape(-1, 2).tolist()
    ]
    return b"".join(run if run.endswith(b"\n") else run + b"\n" for run in runs)
