"""Quarantined records: exported (`repairs_export`), repaired by hand, imported again.

A repaired record is read by its source's declaration as any other. It lands if its bucket is
still open: its source has not promised a boundary after that bucket. A closed bucket is stable
and never changes, so its records stay in quarantine. A repaired record is late for its source's
own sequence all the same, and takes no part in how lateness is judged.

All that lands is one batch, logged together with the numbers of its records in quarantine: killed
anywhere and imported again, each of them lands once. The lease is that of the lane `backlog`, so
a running driver continues landing meanwhile; the database orders the two, and the promises.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from medusa_core.commits import Lane, LeaseKey
from medusa_core.errors import Refused
from medusa_core.fragments import landing_fragment
from medusa_core.names import StreamName
from medusa_core.network import Source
from medusa_core.segments import Producer
from medusa_core.suggest import did_you_mean
from pipelines.catalog.records import LineStatus
from pipelines.homes.home import Home
from pipelines.participant.repairs_export import PAGE, source_of
from pipelines.sources.landing import landed_batch, log_batch
from pipelines.sources.recorded.json_records import Bad, parse_line, text_of
from pipelines.sources.recorded.reader import read_recorded_file
from pipelines.storage.arrow_schema import STIME, columns_of, record_schema

FILE_BYTES_MAX = 64 << 20
LEASE_MS = 10_000
CLOSED = "its bucket is closed: what is stable never changes"
LANDED_BEFORE = "has landed before"
LEFT = "is left as it is: no value was given"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOutcome:
    """What becomes of a line of the file: `number` in quarantine, and why it does not land."""

    line: int
    number: int
    why_not: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The file: its lines, and the values given for them as text."""

    file: Path
    numbers: Mapping[int, int]
    values: Mapping[int, Mapping[str, str | None]]


def import_repaired(
    home: Home, stream: str, file: Path, *, explain: bool
) -> tuple[RepairOutcome, ...]:
    """Land repaired records (with `explain` only report); the outcome of each line, in order.

    Refused if the file was not written by `export_quarantined` (and edited); Conflict while another
    process imports records of this stream.
    """
    source = source_of(home, stream)
    given = _read(file, source)
    landed = _landed(home, given, StreamName(stream))
    why_not = {line: LANDED_BEFORE for line, number in given.numbers.items() if number in landed}
    records, lines, bad = _records(source, given, set(why_not))
    why_not |= bad | {
        line: LEFT for line in given.numbers if line not in given.values and line not in why_not
    }
    why_not |= _land(home, source, given, records, lines, explain=explain)
    return tuple(
        RepairOutcome(line=line, number=number, why_not=why_not.get(line))
        for line, number in given.numbers.items()
    )


def _landed(home: Home, given: _Given, stream: StreamName) -> set[int]:
    """Which of the records have landed; Refused, with its line, for one that is not there."""
    lines = list(given.numbers.items())
    landed: set[int] = set()
    for at in range(0, len(lines), PAGE):
        page = lines[at : at + PAGE]
        found = home.catalog.quarantine_entries(stream, numbers=[number for _, number in page])
        there = {entry.number for entry in found}
        for line, number in page:
            if number not in there:
                raise Refused(
                    f"{given.file}, line {line}: {stream} has no record {number} in quarantine"
                )
        landed |= {entry.number for entry in found if entry.landed_as}
    return landed


def _read(file: Path, source: Source) -> _Given:
    try:
        if not file.is_file():
            raise Refused(f"there is no file {file}: give one that `quarantine export` wrote")
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Refused(f"{file} cannot be read ({error.strerror}): check its rights") from None
    if len(content) > FILE_BYTES_MAX:
        raise Refused(f"{file} is longer than {FILE_BYTES_MAX >> 20} MiB: hand in parts of it")
    numbers: dict[int, int] = {}
    values: dict[int, Mapping[str, str | None]] = {}
    lines_of: dict[int, int] = {}
    for line, text in enumerate(content.split(b"\n"), 1):
        if not text.strip():
            continue
        place = f"{file}, line {line}"
        number, record = _entry(place, text)
        if number in lines_of:
            raise Refused(f"{place}: record {number} is in line {lines_of[number]} already")
        for name in record.keys() - source.columns.keys():
            near = did_you_mean(name, source.columns, f"it has {', '.join(source.columns)}")
            raise Refused(f"{place}: {source.name} has no column {name!r}: {near}")
        numbers[line] = number
        lines_of[number] = line
        if any(value is not None for value in record.values()):
            values[line] = record
    return _Given(file=file, numbers=numbers, values=values)


def _entry(place: str, text: bytes) -> tuple[int, Mapping[str, str | None]]:
    """The number and the values of a line."""
    found = parse_line(text)
    if isinstance(found, Bad):
        raise Refused(f"{place} {found.problem.reason}: write it as it was exported")
    number, record = text_of(found.get("quarantine")), found.get("record")
    is_number = number is not None and number.isascii() and number.isdigit() and len(number) < 19
    if not is_number or not isinstance(record, dict | None):
        raise Refused(f"{place} has no number `quarantine` or no object `record`: leave them there")
    assert number is not None
    return int(number), {name: text_of(value) for name, value in (record or {}).items()}


def _records(
    source: Source, given: _Given, done: set[int]
) -> tuple[pa.Table, list[int], dict[int, str]]:
    """What was given, read as a file of the source: records, their lines, and why others are none.

    Lines stay where they are, so that an error names the operator's line.
    """
    last = max(given.values, default=0)
    remaining = {line: values for line, values in given.values.items() if line not in done}
    tables = [record_schema(columns_of(source.name, source.columns)).empty_table()]
    lines: list[int] = []
    bad: dict[int, str] = {}
    if not remaining:
        return tables[0], lines, bad
    with tempfile.TemporaryDirectory(prefix="medusa-repairs-") as folder:
        path = Path(folder) / "records.json"
        text = "".join(
            (json.dumps(dict(remaining[line])) if line in remaining else "") + "\n"
            for line in range(1, last + 1)
        )
        path.write_text(text, encoding="utf-8")
        try:
            for chunk in read_recorded_file(source, path):
                tables.append(chunk.records)
                lines += chunk.positions.tolist()
                bad |= {
                    q.position: f"{q.field} {q.reason}".strip()
                    for q in chunk.quarantined
                    if q.position is not None
                }
        except Refused as error:
            raise Refused(str(error).replace(str(path), str(given.file))) from None
    return pa.concat_tables(tables), lines, bad


def _land(
    home: Home,
    source: Source,
    given: _Given,
    records: pa.Table,
    lines: Sequence[int],
    *,
    explain: bool,
) -> dict[int, str]:
    """Land the records whose buckets are open; the others' lines, and why not."""
    stream = StreamName(source.name)
    producer = Producer(home.participant)
    key = LeaseKey(fragment=landing_fragment(stream), producer=producer, lane=Lane.BACKLOG)
    epochs = [a.epoch for a in home.catalog.assignments() if a.fragment == key.fragment]
    line = _line(home, stream, producer)
    if line is None or not epochs:
        raise Refused(f"{home.participant} does not land {stream}: hand it in where it is landed")
    closed = _closed(line, records)
    if explain or len(closed) == len(lines):
        return {lines[row]: CLOSED for row in closed}
    lease = home.catalog.acquire_lease(key, max(epochs), f"repairs {os.urandom(6).hex()}", LEASE_MS)
    try:
        while True:
            rows = [row for row in range(len(lines)) if row not in closed]
            if rows:
                numbers = [given.numbers[lines[row]] for row in rows]
                batch = landed_batch(
                    home.storage, stream, _query_id(given, lines, rows), 0,
                    records.take(pa.array(rows, pa.int64())),
                    columns_of(source.name, source.columns),
                    line.stream.width_us,
                )  # fmt: skip
                try:
                    log_batch(home.catalog, lease, replace(batch, retried=tuple(numbers)))
                except Refused:
                    # The source may have promised more meanwhile.
                    line = _line(home, stream, producer) or line
                    now_closed = _closed(line, records)
                    if now_closed == closed:
                        raise
                    closed = now_closed
                    continue
            return {lines[row]: CLOSED for row in closed}
    finally:
        home.catalog.release_lease(lease)


def _line(home: Home, stream: StreamName, producer: Producer) -> LineStatus | None:
    key = (stream, producer)
    lines: Iterable[LineStatus] = home.catalog.lines(stream)
    return next((s for s in lines if (s.stream.name, s.producer) == key), None)


def _closed(line: LineStatus, records: pa.Table) -> set[int]:
    """The rows whose buckets take no record any more."""
    width_us, promised_us = line.stream.width_us, line.promised_us
    found = set()
    for row, time_us in enumerate(records[STIME].to_pylist()):
        at_us = time_us - time_us % width_us
        is_promised = promised_us is not None and at_us + width_us <= promised_us
        if at_us < line.boundary_us or is_promised:
            found.add(row)
    return found


def _query_id(given: _Given, lines: Sequence[int], rows: Sequence[int]) -> str:
    """The same for the same records with the same values, whatever file they stand in."""
    query_ids = sorted(
        (given.numbers[lines[row]], sorted(given.values[lines[row]].items(), key=repr))
        for row in rows
    )
    return "retry-" + sha256(json.dumps(query_ids).encode()).hexdigest()[:32]
