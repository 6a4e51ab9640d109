"""Blocks of records in fields as typed rows: at once where all are valid, with care where not.

The fast way lets pyarrow parse whole numbers, doubles and strings straight into columns. It is
taken back whenever it fails, or meets something that it would read more kindly than
`recorded_text` (hexadecimal, numbers beyond the largest double, NUL bytes). The careful way then
takes records with the wrong number of fields out, reads all fields as bytes and converts them
column by column. What the fast way accepts the careful way accepts with the same values, so a
record reads the same whatever its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from medusa_core.columns import Column
from pipelines.sources.recorded.bound_columns import Bound
from pipelines.sources.recorded.csv_records import RECORD_BYTES_MAX, Block, are_quotes_sound
from pipelines.sources.recorded.instants import convert_instants
from pipelines.sources.recorded.recorded_rows import Problem, Rows
from pipelines.sources.recorded.recorded_text import Failures, convert_text, decode_text
from pipelines.storage.arrow_schema import arrow_type

_PARSED_DIRECTLY = ("int", "bigint", "double", "string")
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|\\)")
_BLOCK_BYTES = 2 * RECORD_BYTES_MAX  # pyarrow wants a record to fit into one of its blocks

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the fields of a file lie: its delimiter, its header, and what fills which column.

    `nulls` are the texts that stand for NULL. `is_quoted`: a field may stand in quotes. `escaped`
    tells of which bound columns `\\x` and two hexadecimal digits are a byte.
    """

    delimiter: str
    names: tuple[str, ...]
    bound: tuple[Bound, ...]
    nulls: tuple[str, ...] = ("",)
    is_quoted: bool = True
    escaped: frozenset[str] = frozenset()

    @property
    def raw_types(self) -> list[str]:
        """As what each column is read at once: text, where pyarrow's reading is not ours."""
        return [
            b.column.type if b.column.type in _PARSED_DIRECTLY and not b.conversion else "string"
            for b in self.bound
        ]

    def as_text(self, name: str) -> Layout:
        """The layout with one column alone, as the text that stands in the file."""
        (bound,) = (b for b in self.bound if b.column.name == name)
        text = Bound(column=Column(name, "string"), name=bound.name)
        return replace(self, bound=(text,))


@dataclass(frozen=True, slots=True)
class Parsed:
    """Rows, and which record of the block each is; records that never became rows, and why."""

    rows: Rows
    records: Int64s
    malformed: Mapping[int, Problem]


def parse_block(block: Block, layout: Layout) -> Parsed:
    """The records of a block as rows of the declared columns."""
    is_plain = not layout.escaped or b"\\" not in block.text
    if is_plain and not block.broken and b"\0" not in block.text:
        rows = _parse_fast(block, layout)
        if rows:
            return Parsed(rows, np.arange(len(block.ends)), {})
    return _parse_carefully(block, layout)


def _read(text: bytes, layout: Layout, types: list[pa.DataType], has_newlines: bool) -> pa.Table:
    names = [str(i) for i in range(len(layout.names))]
    columns = [names[layout.names.index(bound.name)] for bound in layout.bound]
    return pyarrow.csv.read_csv(
        pa.BufferReader(text),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=layout.delimiter,
            quote_char='"' if layout.is_quoted else False,
            newlines_in_values=has_newlines and layout.is_quoted,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict(zip(columns, types, strict=True)),
            include_columns=columns,
            null_values=list(layout.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


def _parse_fast(block: Block, layout: Layout) -> Rows | None:
    """All records as rows, or None if they do not go as simply as that."""
    types = layout.raw_types
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
    for bound, type_, given in zip(layout.bound, types, table.columns, strict=True):
        if bound.column.type == type_ and not bound.conversion:
            if type_ == "double" and pc.any(pc.is_inf(given)).as_py():
                return None
            values.append(given)
            continue
        converted, failures = convert_bound(given.combine_chunks(), bound)
        values.append(converted)
        note_problems(problems, bound.column, failures)
    return Rows(tuple(values), problems)


def _parse_carefully(block: Block, layout: Layout) -> Parsed:
    starts = block.starts
    malformed = {i: Problem("", why) for i, why in block.broken.items()}
    is_sound = np.ones(len(block.ends), np.bool_)
    is_sound[list(malformed)] = False
    is_sound &= ~_are_blank(block, starts)
    counts = _field_counts(block, starts, layout)
    expected = len(layout.names)
    for i in np.flatnonzero(is_sound & (counts != expected)).tolist():
        noun = "field" if counts[i] == 1 else "fields"
        malformed[i] = Problem("", f"{counts[i]} {noun} where the header has {expected}")
        is_sound[i] = False
    records = np.flatnonzero(is_sound)
    values: list[Any] = []
    problems: dict[int, Problem] = {}
    if not len(records):
        values = [pa.array([], arrow_type(bound.column.type)) for bound in layout.bound]
        return Parsed(Rows(tuple(values), {}), records, malformed)
    types = [pa.binary()] * len(layout.bound)
    table = _read(_only(block, starts, is_sound), layout, types, True)
    if len(table) != len(records):
        raise pa.ArrowInvalid(f"{len(table)} records where {len(records)} were counted")
    for bound, given in zip(layout.bound, table.columns, strict=True):
        raw = given.combine_chunks()
        if bound.column.name in layout.escaped:
            raw = unescaped(raw)
        texts, undecoded = decode_text(raw)
        converted, failures = convert_bound(texts, bound)
        values.append(converted)
        note_problems(problems, bound.column, undecoded | failures)
    return Parsed(Rows(tuple(values), problems), records, malformed)


def convert_bound(texts: Any, bound: Bound) -> tuple[Any, Failures]:
    """Text of a file's column as values of the declared one, NULL where it will not go, and why."""
    if bound.conversion is None:
        return convert_text(texts, bound.column.type, bound.zone)
    return convert_instants(texts, bound)


def unescaped(raw: Any) -> Any:
    """A binary array with the byte itself for `\\x` and its two digits, one `\\` for two."""
    if not pc.any(pc.match_substring(raw, b"\\")).as_py():
        return raw
    listed = [
        value if value is None or b"\\" not in value else _ESCAPE.sub(_byte, value)
        for value in raw.to_pylist()
    ]
    return pa.array(listed, pa.binary())


def _byte(match: re.Match[bytes]) -> bytes:
    digits = match[1]
    return bytes.fromhex(digits.decode()) if digits else b"\\"


def note_problems(
    problems: dict[int, Problem], column: Column, failures: Mapping[int, str]
) -> None:
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


def _field_counts(block: Block, starts: Int64s, layout: Layout) -> Int64s:
    """Fields per record: delimiters outside quotes, and one."""
    array, delimiter = np.frombuffer(block.text, np.uint8), layout.delimiter
    places = np.flatnonzero(array == ord(delimiter))
    quotes = np.flatnonzero(array == b'"'[0]) if layout.is_quoted else places[:0]
    # Lines of a broken record may end inside quotes: no counting over them then.
    is_sound = not layout.is_quoted or (
        not block.broken and are_quotes_sound(array, quotes, delimiter)
    )
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
