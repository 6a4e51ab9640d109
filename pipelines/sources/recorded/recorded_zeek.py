r"""Zeek logs as Zeek writes them: tab-separated (or otherwise) under a header in the log.

An unset field is NULL; an empty one is empty text, which is NULL as in every format. Sets and
vectors are their text as written; in all other text `\x` and two hexadecimal digits are a byte.
Times and intervals are in seconds, and are converted for columns of another unit. In concatenated
logs each line is read by the header above it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from medusa_core.errors import Refused
from pipelines.sources.recorded.bound_columns import bind_columns
from pipelines.sources.recorded.csv_fields import Layout, Parsed, parse_block
from pipelines.sources.recorded.csv_records import STRAY_RETURN, Block
from pipelines.sources.recorded.event_times import Int64s
from pipelines.sources.recorded.recorded_csv import settle_layout
from pipelines.sources.recorded.recorded_rows import Problem, Rows, Target
from pipelines.sources.recorded.text_chunks import Records, read_chunks
from pipelines.sources.recorded.text_lines import split_lines
from pipelines.sources.recorded.zeek_header import (
    SEPARATOR_BYTES_MAX,
    ZeekHeader,
    header_behind,
    is_zeek,
)
from pipelines.storage.arrow_schema import arrow_type
from pipelines.storage.file_limits import check_column_count

_STAND_IN = b"\x1f"
"""Stands for a separator of several bytes; Zeek writes no such byte itself."""

_LAYOUTS_MAX = 100
_CHANGES_MAX = 10_000
_NO_RECORD = "is a line of the header"
_HASH, _RETURN, _NEWLINE = b"#"[0], b"\r"[0], b"\n"[0]


def read_zeek(
    target: Target, head: bytes, texts: Iterator[bytes], line: int, chunk_records: int, skip: int
) -> Iterator[Records]:
    """The records of a Zeek log, chunk by chunk (`text_chunks`), without the first `skip` chunks.

    `head` is its beginning, from line `line` on; `texts` are the pieces behind. Raises Refused if a
    header names no fields or none that fill a declared column.
    """
    blocks = split_lines(itertools.chain([head], texts), line)
    yield from read_chunks(target, blocks, ZeekParser(target), chunk_records, skip)


class ZeekParser:
    """See `text_chunks.Parser`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._header = ZeekHeader()
        self._layouts: dict[ZeekHeader, Layout] = {}
        self._unit = ""
        self._changes = 0

    @property
    def unit(self) -> str:
        """Settled by the first records; before there are any it says nothing."""
        return self._unit or "us"

    def pass_over(self, block: Block) -> None:
        """Follow the headers."""
        for header, part, _ in self._under_headers(block):
            if not self._unit:
                self._layout(header, part)

    def parse(self, block: Block) -> Parsed:
        """The lines as rows; those of headers are nothing."""
        parts: list[tuple[int, Parsed]] = []
        for header, part, others in self._under_headers(block):
            parsed = parse_block(part, self._layout(header, part))
            malformed = {i: why for i, why in parsed.malformed.items() if i not in others}
            start = int(part.lines[0] - block.lines[0])
            parts.append((start, replace(parsed, malformed=malformed)))
        return _joined(parts, self._target)

    def _under_headers(self, block: Block) -> Iterator[tuple[ZeekHeader, Block, frozenset[int]]]:
        """The records under each header, and which lines among them are none.

        A header that says the same again begins nothing anew: joined logs are read at once.
        """
        found: list[tuple[ZeekHeader, range]] = []
        for lines, run in _runs(block):
            header = header_behind(lines, self._header)
            self._changes += header != self._header
            self._header = header
            if run:
                found.append((header, run))
        if self._changes > _CHANGES_MAX:
            raise Refused(
                f"{self._target.file} changes its header more than {_CHANGES_MAX:,} times: split it"
            )
        for header, group in itertools.groupby(found, lambda item: item[0]):
            runs = [run for _, run in group]
            start, stop = runs[0].start, runs[-1].stop
            is_record = np.zeros(stop - start, np.bool_)
            for run in runs:
                is_record[run.start - start : run.stop - start] = True
            others = frozenset(np.flatnonzero(~is_record).tolist())
            part = block.part(start, stop)
            part = replace(part, broken={**part.broken, **dict.fromkeys(others, _NO_RECORD)})
            yield header, _made_plain(part, header.separator), others

    def _layout(self, header: ZeekHeader, part: Block) -> Layout:
        """How fields lie under a header; its first records settle event time's unit."""
        if header not in self._layouts:
            if len(self._layouts) >= _LAYOUTS_MAX:
                self._layouts.clear()
            layout = _layout_of(self._target, header)
            self._layouts[header], unit = settle_layout(self._target, part, layout)
            self._unit = self._unit or unit
        return self._layouts[header]


def _layout_of(target: Target, header: ZeekHeader) -> Layout:
    """What a header says, checked."""
    separator = header.separator
    if header.fields is None:
        raise Refused(f"{target.file} has records above any line of #fields: keep a log's header")
    check_column_count(target.file, len(header.fields))
    if not 0 < len(separator) <= SEPARATOR_BYTES_MAX or set(separator) & {_NEWLINE, _RETURN, 0}:
        raise Refused(
            f"{target.file} says #separator {separator[:40]!r}: write 1 to {SEPARATOR_BYTES_MAX} "
            "bytes that end no line"
        )
    if len(separator) == 1 and separator[0] > 0x7F:
        raise Refused(f"{target.file} says #separator {separator!r}: write one of ASCII")
    bound = bind_columns(target, header.fields, header.kinds)
    return Layout(
        separator.decode() if len(separator) == 1 else _STAND_IN.decode(),
        header.fields,
        bound,
        nulls=("", header.empty, header.unset),
        is_quoted=False,
        escaped=frozenset(
            b.column.name
            for b in bound
            if b.name not in header.containers and b.column.type in ("string", "binary")
        ),
    )


def _runs(block: Block) -> Iterator[tuple[list[bytes], range]]:
    """Header lines and the records behind them, in order; the first may have no header lines."""
    starts = block.starts
    array = np.frombuffer(block.text, np.uint8)
    is_header = (array[starts] == _HASH) if len(array) else np.zeros(0, np.bool_)
    for i in np.flatnonzero(is_header).tolist():
        # Any other line that begins so is a record: it must not vanish without being counted.
        is_header[i] = is_zeek(block.text[int(starts[i]) : int(block.ends[i])])
    edges = np.flatnonzero(np.diff(is_header.astype(np.int8)))
    cuts = [0, *(int(edge) + 1 for edge in edges), len(starts)]
    lines: list[bytes] = []
    for start, stop in itertools.pairwise(cuts):
        if start < stop and is_header[start]:
            lines = [
                block.text[int(starts[i]) : int(block.ends[i])]
                for i in range(start, stop)
                if i not in block.broken
            ]
        else:
            yield lines, range(start, stop)
            lines = []
    yield lines, range(len(starts), len(starts))


def _made_plain(block: Block, separator: bytes) -> Block:
    """The block with a separator of one byte, and without stray returns, for `parse_block`."""
    return _without_returns(block if len(separator) == 1 else _with_one_byte(block, separator))


def _with_one_byte(block: Block, separator: bytes) -> Block:
    """The block with a separator of one byte; a line that has that byte already is broken."""
    starts, ends = block.starts.tolist(), block.ends.tolist()
    lines = [block.text[start:end] for start, end in zip(starts, ends, strict=True)]
    broken = {i: "holds a control character" for i, text in enumerate(lines) if _STAND_IN in text}
    replaced = [text.replace(separator, _STAND_IN) for text in lines]
    lengths = np.array([len(text) for text in replaced], np.int64)
    return Block(b"".join(replaced), np.cumsum(lengths), block.lines, broken | dict(block.broken))


def _without_returns(block: Block) -> Block:
    """The block with lines broken that hold a carriage return elsewhere than at their end."""
    if block.text.count(b"\r") == block.text.count(b"\r\n"):
        return block
    array = np.frombuffer(block.text, np.uint8)
    returns = np.flatnonzero(array == _RETURN)
    is_lone = array[np.minimum(returns + 1, len(array) - 1)] != _NEWLINE
    owners = np.searchsorted(block.ends, returns[is_lone], "right")
    broken = {int(i): STRAY_RETURN for i in np.unique(owners)} | dict(block.broken)
    return replace(block, broken=broken)


def _joined(parts: list[tuple[int, Parsed]], target: Target) -> Parsed:
    """Rows of several runs of one block as those of the block."""
    values: list[list[Any]] = [[] for _ in target.columns]
    records: list[Int64s] = [np.zeros(0, np.int64)]
    problems: dict[int, Problem] = {}
    malformed: dict[int, Problem] = {}
    rows = 0
    for start, parsed in parts:
        for at, array in enumerate(parsed.rows.values):
            chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
            values[at].extend(chunks)
        problems |= {rows + row: problem for row, problem in parsed.rows.problems.items()}
        malformed |= {start + record: problem for record, problem in parsed.malformed.items()}
        records.append(parsed.records + start)
        rows += len(parsed.records)
    columns = tuple(
        pa.chunked_array(found, arrow_type(column.type))
        for column, found in zip(target.columns, values, strict=True)
    )
    return Parsed(Rows(columns, problems), np.concatenate(records), malformed)
