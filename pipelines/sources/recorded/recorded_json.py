"""JSON lines as records: an object a line, whose keys need not be the same in every line.

There is no header, so the first 1,000 records say which keys fill which columns
(`bound_columns`). A column that a record does not name is NULL there, since JSON omits values in
this way; a file is refused if none of these records names event time. A column that none of them
names is filled by the key of exactly its name; another key that may fill a column, but was in
none of them, sends its record to quarantine instead of being missed.

Records that name `ts` and `uid` with `id.orig_h`, or `ts` and `_path`, are Zeek's: its times may
be numbers or ISO-8601, its lengths of time are in seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.sources.recorded.bound_columns import (
    Bound,
    Kind,
    bind,
    bind_columns,
    counts_time,
    find_columns,
    listed,
    longest_ending,
)
from pipelines.sources.recorded.csv_fields import Parsed, convert_bound, note_problems
from pipelines.sources.recorded.csv_records import RECORD_BYTES_MAX, Block
from pipelines.sources.recorded.event_times import SAMPLE_RECORDS, named_unit
from pipelines.sources.recorded.instants import settle_unit
from pipelines.sources.recorded.json_records import Bad, Repeating, parse_line, text_of
from pipelines.sources.recorded.recorded_rows import Problem, Rows, Target
from pipelines.sources.recorded.recorded_text import Failures, convert_text
from pipelines.sources.recorded.text_chunks import Records, read_chunks
from pipelines.sources.recorded.text_lines import split_lines

_NAMES_MAX = 10_000
_ZEEK = ({"ts", "uid", "id.orig_h"}, {"ts", "_path"})
Object = dict[str, Any]


def read_json(
    target: Target, head: bytes, texts: Iterator[bytes], line: int, chunk_records: int, skip: int
) -> Iterator[Records]:
    """The records of JSON lines, chunk by chunk (`text_chunks`), without the first `skip` chunks.

    `head` is the text's beginning, from line `line` on; `texts` are the pieces behind. Raises
    Refused if the first records name no event time, or do not tell its unit.
    """
    if head[: head.find(b"\n") + 1].strip() in (b"{", b"["):
        raise Refused(
            f"{target.file} is JSON over several lines: write one object a line, without line ends "
            "inside"
        )
    first = next(split_lines([head[: 2 * RECORD_BYTES_MAX]]), None)
    if first is None:
        return
    parser = JsonParser(target, first)
    blocks = split_lines(itertools.chain([head], texts), line)
    yield from read_chunks(target, blocks, parser, chunk_records, skip)


class JsonParser:
    """See `text_chunks.Parser`; `first` holds the text's first records."""

    def __init__(self, target: Target, first: Block) -> None:
        self._target = target
        objects = [o for o in _objects(first, 2 * SAMPLE_RECORDS) if isinstance(o, dict)]
        sample = objects[:SAMPLE_RECORDS]
        names = list(dict.fromkeys(itertools.chain.from_iterable(sample)))
        is_zeek = any(keys <= set(names) for keys in _ZEEK)
        kinds = dict.fromkeys(names, Kind.SECONDS) | {"ts": Kind.INSTANT} if is_zeek else {}
        self._bound, self.unit = self._bind(names, kinds, sample)
        self._keys = [b.name for b in self._bound]
        self._open = {
            b.column.name for b in self._bound if b.name != b.column.name or b.name not in names
        }
        # Keys about which nothing is left to find out.
        self._known = {*names, *self._keys}

    def pass_over(self, block: Block) -> None:
        """What was passed over tells nothing of what follows."""

    def parse(self, block: Block) -> Parsed:
        """The lines as rows; blank ones are nothing."""
        malformed: dict[int, Problem] = {i: Problem("", why) for i, why in block.broken.items()}
        records: list[int] = []
        texts: list[list[str | None]] = [[] for _ in self._bound]
        for number, found in enumerate(_objects(block)):
            if found is None or number in malformed:
                continue
            problem = found.problem if isinstance(found, Bad) else self._problem_of(found)
            if problem:
                malformed[number] = problem
                continue
            assert not isinstance(found, Bad)
            records.append(number)
            for column, key in zip(texts, self._keys, strict=True):
                value = found.get(key)
                column.append(value if type(value) is str else text_of(value))
        values: list[Any] = []
        problems: dict[int, Problem] = {}
        for bound, column in zip(self._bound, texts, strict=True):
            strings, undecoded = _strings(column)
            converted, failures = convert_bound(strings, bound)
            values.append(converted)
            note_problems(problems, bound.column, undecoded | failures)
        rows = Rows(tuple(values), problems)
        return Parsed(rows, np.array(records, np.int64), malformed)

    def _problem_of(self, found: Object) -> Problem | None:
        """Why an object is no record although it is one."""
        if not found.keys() <= self._known:
            for name in found.keys() - self._known:
                if filled := self._may_fill(name):
                    first = f"in none of the first {SAMPLE_RECORDS:,} records"
                    return Problem(filled, f"may be given by {name[:80]!r}, which was {first}")
        if isinstance(found, Repeating):
            for bound in self._bound:
                if bound.name in found.repeated:
                    return Problem(bound.column.name, "is given twice")
        return None

    def _may_fill(self, name: str) -> str | None:
        filled = name if name in self._open else longest_ending(name, self._open)
        if filled is None and len(self._known) < _NAMES_MAX:
            self._known.add(name)
        return filled

    def _bind(
        self, names: Sequence[str], kinds: dict[str, Kind], sample: Sequence[Object]
    ) -> tuple[tuple[Bound, ...], str]:
        """What fills which column, and the unit of event time."""
        target, time = self._target, self._target.source.time
        if not names:
            raise Refused(f"{target.file} holds no JSON object a line: write one record a line")
        found = find_columns(target, names, kinds)
        if not found[time]:
            raise Refused(
                f"{target.file} has no column {time!r} in its first records, which have "
                f"{listed(names)}: rename one, or declare the source's columns as the file names "
                "them"
            )
        bound = []
        for column in target.columns:
            filling = found[column.name]
            if len(filling) > 1:
                bind_columns(target, names, kinds)  # refuses it in the same words as any file
            name = filling[0] if filling else self._unnamed(column, kinds)
            bound.append(bind(target, column, name, kinds.get(name)))
        at = target.time_position
        texts, _ = _strings([text_of(o.get(bound[at].name)) for o in sample])
        if bound[at].conversion is None:
            texts, _ = convert_text(texts, bound[at].column.type, bound[at].zone)
        bound[at], unit = settle_unit(target.source, target.file, bound[at], texts)
        return tuple(bound), unit

    @staticmethod
    def _unnamed(column: Column, kinds: dict[str, Kind]) -> str:
        """The key that fills a column which no record of the sample names."""
        base = column.name.removesuffix(f"_{named_unit(column.name)}")
        if kinds and counts_time(column) and base not in kinds:
            kinds[base] = Kind.SECONDS
            return base
        return column.name


def _objects(block: Block, most: int | None = None) -> Iterator[Object | Bad | None]:
    """What each line holds; None for a blank one."""
    ends = block.ends.tolist()
    start = 0
    for end in ends[:most]:
        line = block.text[start:end]
        start = end
        yield None if line.isspace() else parse_line(line)


def _strings(column: list[str | None]) -> tuple[Any, Failures]:
    """Text as an Arrow array, NULL where it is no UTF-8, and which rows those are."""
    try:
        return pa.array(column, pa.string()), {}
    except UnicodeEncodeError:
        pass
    failures: Failures = {}
    kept: list[str | None] = []
    for row, text in enumerate(column):
        try:
            kept.append(text if text is None else text.encode().decode())
        except UnicodeEncodeError:
            kept.append(None)
            failures[row] = "is not valid UTF-8"
    return pa.array(kept, pa.string()), failures
