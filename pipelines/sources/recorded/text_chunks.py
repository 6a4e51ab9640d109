"""Chunks of a text's records, whatever the text's format: the same however it arrives.

A chunk is `chunk_records` records of the text, good, bad or blank, or fewer where these make up
256 MiB of it; so it depends on nothing but the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from medusa_core.commits import QuarantinedRecord
from pipelines.sources.recorded.csv_fields import Parsed
from pipelines.sources.recorded.csv_records import Block
from pipelines.sources.recorded.event_times import Int64s
from pipelines.sources.recorded.recorded_rows import Target, make_records

CHUNK_BYTES_MAX = 256 << 20

Records = tuple[pa.Table, Int64s, tuple[QuarantinedRecord, ...]]


class Parser(Protocol):
    """Blocks of a text in their order as rows; `unit` is that of event time's numbers."""

    @property
    def unit(self) -> str: ...

    def parse(self, block: Block) -> Parsed: ...

    def pass_over(self, block: Block) -> None:
        """Count a block whose records are skipped."""


def read_chunks(
    target: Target, blocks: Iterable[Block], parser: Parser, chunk_records: int, skip: int
) -> Iterator[Records]:
    """The records of blocks, chunk by chunk, without the first `skip` chunks."""
    pieces: list[pa.Table] = []
    lines: list[Int64s] = []
    quarantined: list[QuarantinedRecord] = []
    for block, is_end in _cut_chunks(blocks, chunk_records):
        if skip:
            parser.pass_over(block)
            skip -= is_end
            continue
        table, at, bad = _make_records(target, block, parser)
        pieces.append(table)
        lines.append(at)
        quarantined += bad
        if is_end:
            yield pa.concat_tables(pieces), np.concatenate(lines), tuple(quarantined)
            pieces, lines, quarantined = [], [], []


def _cut_chunks(blocks: Iterable[Block], chunk_records: int) -> Iterator[tuple[Block, bool]]:
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
    target: Target, block: Block, parser: Parser
) -> tuple[pa.Table, Int64s, list[QuarantinedRecord]]:
    content, parsed = content_of(block), parser.parse(block)
    table, lines, bad = make_records(
        target,
        parsed.rows,
        parser.unit,
        np.asarray(block.lines[parsed.records], np.int64),
        lambda row: content(int(parsed.records[row])),
    )
    bad += [
        target.quarantined(problem, int(block.lines[record]), content(record))
        for record, problem in parsed.malformed.items()
    ]
    return table, lines, sorted(bad, key=lambda record: record.position or 0)


def content_of(block: Block) -> Callable[[int], bytes]:
    """What stands in a record of the block, without its line end."""
    starts = block.starts

    def content(record: int) -> bytes:
        return block.text[starts[record] : block.ends[record]].rstrip(b"\r\n")

    return content
