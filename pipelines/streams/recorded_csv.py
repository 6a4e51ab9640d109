"""Recorded CSV: a header that names the columns in any order, then one record after the other.

The delimiter is the one of comma, tab and semicolon by which the header names most declared
columns. Columns that are not declared are passed over unread. Text is UTF-8; line ends are LF or
CRLF; a byte order mark is dropped; blank lines are nothing, though they count as lines.
"""

from __future__ import annotations

import csv
import difflib
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from medusa_core.commits import QuarantinedRecord
from medusa_core.errors import Refused
from pipelines.streams.csv_fields import Layout, Parsed, parse_block
from pipelines.streams.csv_records import RECORD_BYTES_MAX, Block, record_pattern, split_records
from pipelines.streams.recorded_rows import Target, make_records
from pipelines.streams.times import SAMPLE_RECORDS, Int64s, recognise_unit

CHUNK_BYTES_MAX = 256 << 20
_BOM = b"\xef\xbb\xbf"
_DELIMITERS = (",", "\t", ";")
_SHOWN_NAMES_MAX = 40

Records = tuple[pa.Table, Int64s, tuple[QuarantinedRecord, ...]]


def read_csv(
    target: Target, texts: Iterator[bytes], chunk_records: int, skip: int
) -> Iterator[Records]:
    """The records of a CSV text, chunk by chunk, without the first `skip` chunks.

    A chunk is `chunk_records` records of the text, good, bad or blank, or fewer where these make up
    256 MiB of it; so it depends on nothing but the text. Raises Refused if the header will not do.
    """
    head, texts = _read_head(texts)
    line = 1
    while head.startswith((b"\n", b"\r\n")):
        head, line = head[head.index(b"\n") + 1 :], line + 1
    layout, length = read_layout(target, head)
    blocks = split_records(
        itertools.chain([head[length:]], texts),
        layout.delimiter,
        line + head.count(b"\n", 0, length),
    )
    first = next(blocks, None)
    if first is None:
        return
    unit = _recognise_unit(target, first, layout)
    pieces: list[pa.Table] = []
    lines: list[Int64s] = []
    quarantined: list[QuarantinedRecord] = []
    for block, is_end in _cut_chunks(itertools.chain([first], blocks), chunk_records):
        if skip:
            skip -= is_end
            continue
        table, at, bad = _make_records(target, block, parse_block(block, layout), unit)
        pieces.append(table)
        lines.append(at)
        quarantined += bad
        if is_end:
            yield pa.concat_tables(pieces), np.concatenate(lines), tuple(quarantined)
            pieces, lines, quarantined = [], [], []


def _read_head(texts: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The text's beginning, long enough to hold the header, and the pieces behind it."""
    head = b""
    for piece in texts:
        head += piece
        if len(head) > 2 * RECORD_BYTES_MAX:
            break
    return head.removeprefix(_BOM), texts


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
    delimiter, names, length = max(found, key=lambda f: len(set(declared) & set(f[1])))
    missing = [name for name in declared if name not in names]
    if len(missing) == len(declared):
        delimiter, names, length = max(found, key=lambda f: len(f[1]))
        line = head[:length].decode(errors="replace").strip()[:80]
        raise Refused(
            f"{target.file} has no header that names a column of source {target.source.name!r}: "
            f"its first line is {line!r}; write a first line that names {', '.join(declared)}"
        )
    if missing:
        raise _no_column(target.file, missing[0], names)
    for name in declared:
        if names.count(name) > 1:
            raise Refused(f"{target.file} has {names.count(name)} columns {name!r}: rename all "
                          "but one")  # fmt: skip
    positions = tuple(names.index(name) for name in declared)
    return Layout(delimiter, tuple(names), target.columns, positions), length


def _header_names(text: bytes, delimiter: str) -> list[str] | None:
    try:
        line = text.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        return None
    if any(ord(c) < 32 and c not in "\t\r\n" for c in line):
        return None
    fields = next(csv.reader([line], delimiter=delimiter), [])
    return [name.strip() for name in fields]


def _not_csv(file: Path, head: bytes) -> Refused:
    line = head[:4_096]
    if b"\r" in line and b"\n" not in line:
        return Refused(f"{file} ends its lines with a lone carriage return: write line feeds")
    if line.startswith(b"PAR1"):
        return Refused(f"{file} is a Parquet file inside gzip: unpack it")
    return Refused(f"{file} is neither Parquet, gzip nor CSV text with a header: convert it to one")


def _no_column(file: Path, name: str, names: list[str]) -> Refused:
    near = difflib.get_close_matches(name, names, 1)
    more = len(names) - _SHOWN_NAMES_MAX
    has = ", ".join(names[:_SHOWN_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
    hint = f"is it {near[0]!r}? " if near else ""
    return Refused(
        f"{file} has no column {name!r}; {hint}It has {has}: rename one, or declare the source's "
        "columns as the file names them"
    )


def _recognise_unit(target: Target, block: Block, layout: Layout) -> str:
    parsed = parse_block(block.part(0, min(len(block.ends), 2 * SAMPLE_RECORDS)), layout)
    times = parsed.rows.values[target.time_position]
    sample = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    return recognise_unit(target.source, target.file, sample)


def _cut_chunks(blocks: Iterator[Block], chunk_records: int) -> Iterator[tuple[Block, bool]]:
    """Parts of blocks, each with whether it ends a chunk; the last part of all does."""
    records, size = chunk_records, CHUNK_BYTES_MAX
    waiting: Block | None = None
    for block in blocks:
        start, count = 0, len(block.ends)
        while start < count:
            if waiting:
                yield waiting, False
            before = int(block.ends[start - 1]) if start else 0
            full = int(np.searchsorted(block.ends, before + size)) + 1
            stop = min(start + records, full, count)
            part = block.part(start, stop)
            waiting, start = part, stop
            records -= len(part.ends)
            size -= len(part.text)
            if not records or size <= 0:
                yield part, True
                waiting, records, size = None, chunk_records, CHUNK_BYTES_MAX
    if waiting:
        yield waiting, True


def _make_records(
    target: Target, block: Block, parsed: Parsed, unit: str
) -> tuple[pa.Table, Int64s, list[QuarantinedRecord]]:
    starts = block.starts

    def content(record: int) -> str:
        text = block.text[starts[record] : block.ends[record]][: 4 * 1_024]
        return text.decode(errors="replace").rstrip("\r\n")

    table, lines, bad = make_records(
        target,
        parsed.rows,
        unit,
        np.asarray(block.lines[parsed.records], np.int64),
        lambda row: content(int(parsed.records[row])),
    )
    bad += [
        target.quarantined(problem, int(block.lines[record]), content(record))
        for record, problem in parsed.malformed.items()
    ]
    return table, lines, sorted(bad, key=lambda record: record.position or 0)
