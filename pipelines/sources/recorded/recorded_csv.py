"""Recorded CSV: a header that names the columns in any order, then one record after the other.

The delimiter is the one of comma, tab and semicolon by which the header fills most declared columns
(`bound_columns`). What fills none is passed over unread. Text is UTF-8; line ends are LF or CRLF;
blank lines are nothing, though they count as lines.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from medusa_core.errors import Refused
from pipelines.sources.recorded.bound_columns import bind_columns, find_columns
from pipelines.sources.recorded.csv_fields import Layout, Parsed, parse_block
from pipelines.sources.recorded.csv_records import (
    RECORD_BYTES_MAX,
    Block,
    record_pattern,
    split_records,
)
from pipelines.sources.recorded.event_times import SAMPLE_RECORDS
from pipelines.sources.recorded.instants import settle_unit
from pipelines.sources.recorded.recorded_rows import Target
from pipelines.sources.recorded.text_chunks import Records, read_chunks
from pipelines.storage.file_limits import check_column_count

_DELIMITERS = (",", "\t", ";")


def read_csv(
    target: Target, head: bytes, texts: Iterator[bytes], line: int, chunk_records: int, skip: int
) -> Iterator[Records]:
    """The records of a CSV text, chunk by chunk (`text_chunks`), without the first `skip` chunks.

    `head` is its beginning from the header on, which stands on line `line`, and holds all of it;
    `texts` are the pieces behind. Raises Refused if the header will not do.
    """
    layout, length = read_layout(target, head)
    blocks = split_records(
        itertools.chain([head[length:]], texts),
        layout.delimiter,
        line + head.count(b"\n", 0, length),
    )
    first = next(blocks, None)
    if first is None:
        return
    layout, unit = settle_layout(target, first, layout)
    parser = _CsvParser(layout, unit)
    yield from read_chunks(target, itertools.chain([first], blocks), parser, chunk_records, skip)


@dataclass(frozen=True, slots=True)
class _CsvParser:
    """See `text_chunks.Parser`."""

    layout: Layout
    unit: str

    def parse(self, block: Block) -> Parsed:
        return parse_block(block, self.layout)

    def pass_over(self, block: Block) -> None:
        """What was passed over tells nothing of what follows."""


def read_layout(target: Target, head: bytes) -> tuple[Layout, int]:
    """How the fields lie, from the header at the beginning of `head`, and its length in bytes.

    Raises Refused, naming the file and the column, if it is no header or lacks a declared column.
    """
    declared = [c.name for c in target.columns]
    found: list[tuple[str, list[str], int]] = []
    for delimiter in _DELIMITERS:
        match = record_pattern(delimiter).match(head, 0, RECORD_BYTES_MAX)
        names = _header_names(match.group(), delimiter) if match else None
        if match and names:
            found.append((delimiter, names, match.end()))
    if not found:
        raise _not_csv(target.file, head)
    filled = [sum(map(bool, find_columns(target, f[1], {}).values())) for f in found]
    most = max(filled)
    delimiter, names, length = found[filled.index(most)]
    if not most:
        delimiter, names, length = max(found, key=lambda f: len(f[1]))
        line = head[:length].decode(errors="replace").strip()[:80]
        raise Refused(
            f"{target.file} has no header that names a column of source {target.source.name!r}: "
            f"its first line is {line!r}; write a first line that names {', '.join(declared)}"
        )
    check_column_count(target.file, len(names))
    return Layout(delimiter, tuple(names), bind_columns(target, names)), length


def _header_names(text: bytes, delimiter: str) -> list[str] | None:
    try:
        line = text.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        return None
    if any(ord(c) < 32 and c not in "\t\r\n" for c in line):
        return None
    try:
        fields = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a name longer than any that could be meant
        return None
    return [name.strip() for name in fields]


def _not_csv(file: Path, head: bytes) -> Refused:
    line = head[:4_096]
    if b"\r" in line and b"\n" not in line:
        return Refused(f"{file} ends its lines with a lone carriage return: write line feeds")
    if line.startswith(b"PAR1"):
        return Refused(f"{file} is a Parquet file inside gzip: unpack it")
    return Refused(f"{file} is neither Parquet, gzip nor CSV text with a header: convert it to one")


def settle_layout(target: Target, first: Block, layout: Layout) -> tuple[Layout, str]:
    """The layout with the unit of event time settled by the first records, and that unit.

    Raises Refused, asking for `time_unit`, if they do not tell.
    """
    (bound,) = (b for b in layout.bound if b.column.name == target.source.time)
    looked = layout.as_text(target.source.time) if bound.conversion else layout
    sample = parse_block(first.part(0, min(len(first.ends), 2 * SAMPLE_RECORDS)), looked)
    values = sample.rows.values[0 if bound.conversion else target.time_position]
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    settled, unit = settle_unit(target.source, target.file, bound, values)
    columns = tuple(settled if b is bound else b for b in layout.bound)
    return replace(layout, bound=columns), unit
