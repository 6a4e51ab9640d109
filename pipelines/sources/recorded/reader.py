"""Recorded files as the records of a source: good ones in file order, bad ones in quarantine.

A file is Parquet, CSV text with a header, a Zeek log, JSON lines, or such text in gzip; its
content shows which. It is read in chunks, so memory is bounded by a chunk and not by the file,
and a chunk depends on the file and `chunk_records` only: a reader killed after n chunks continues
with `skip=n` and sees the same rest.

* All formats read the same: empty text or binary is NULL in each; columns are found by one rule
  (`bound_columns`), values converted by one grammar (`recorded_text`), times by one rule
  (`event_times`).
* A record that cannot be used (malformed, a value of the wrong type or out of range, no time, a
  time outside the years 1 to 9999, invalid UTF-8, NUL, more than 1 MiB) goes to quarantine with
  its place: the physical line on which it begins, the header's being 1; in Parquet its row, from
  1. All other records are read.
* A file that asks for more than an honest one does (`file_limits`) is refused as soon as it does.
* A file that cannot be used raises `Refused` (or `Unavailable` where the machine is at fault)
  with a sentence that names it. Files that break off are noticed where they do; chunks read
  before that are not the whole, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from medusa_core.commits import QuarantinedRecord
from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.sources.recorded.event_times import Int64s
from pipelines.sources.recorded.parquet_rows import read_parquet
from pipelines.sources.recorded.recorded_files import open_recorded, text_pieces
from pipelines.sources.recorded.recorded_formats import Format, format_of, read_text
from pipelines.sources.recorded.recorded_rows import Target
from pipelines.sources.recorded.time_zones import NO_ZONE
from pipelines.storage.file_limits import FileLimits, check_usable

CHUNK_RECORDS = 250_000
LIMITS = FileLimits()
REASON_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of a file's records, the `index`-th (from 0).

    `records` holds the declared columns in declared order and type, then `_stime`, in file order;
    `positions` is where each of them stands in the file: line or row.
    """

    file: Path
    index: int
    records: pa.Table
    positions: Int64s
    quarantined: tuple[QuarantinedRecord, ...]


def read_recorded(
    source: Source,
    files: Sequence[Path],
    *,
    chunk_records: int = CHUNK_RECORDS,
    skip: Mapping[Path, int] | None = None,
    limits: FileLimits = LIMITS,
) -> Iterator[Chunk]:
    """The chunks of several files, one file after the other, in the order given.

    `skip` is how many chunks of a file are done and not read again. Raises Refused for a file
    that is named twice.
    """
    check_named_once(files)
    for file in files:
        done = (skip or {}).get(file, 0)
        yield from read_recorded_file(
            source, file, chunk_records=chunk_records, skip=done, limits=limits
        )


def check_named_once(files: Sequence[Path]) -> None:
    """Raise Refused if two paths are one file: its records would count twice."""
    seen: dict[Path, Path] = {}
    for file in files:
        other = seen.setdefault(file.resolve(), file)
        if other is not file:
            raise Refused(f"{file} is given twice (also as {other}): name it once")


def read_recorded_file(
    source: Source,
    file: Path,
    *,
    chunk_records: int = CHUNK_RECORDS,
    skip: int = 0,
    limits: FileLimits = LIMITS,
) -> Iterator[Chunk]:
    """The chunks of one file from number `skip` on; those before are passed over unparsed."""
    assert chunk_records > 0
    target = Target.of(source, file)
    usable = unusable = 0
    with open_recorded(file) as (stream, first), _readable(file):
        if format_of(first) is Format.PARQUET:
            chunks = read_parquet(target, stream, chunk_records, skip, limits)
        else:
            texts = text_pieces(file, stream, first, limits)
            chunks = read_text(target, texts, chunk_records, skip)
        for index, (records, positions, quarantined) in enumerate(chunks, skip):
            usable += records.num_rows
            unusable += len(quarantined)
            if not usable:
                _check_zones(source, file, quarantined)
            check_usable(file, usable, unusable, quarantined)
            yield Chunk(file, index, records, positions, quarantined)


def _check_zones(source: Source, file: Path, quarantined: Sequence[QuarantinedRecord]) -> None:
    """Refuse a file whose times have no zone, rather than every record of it."""
    zoneless = [q for q in quarantined if q.reason == NO_ZONE]
    if zoneless and 2 * len(zoneless) > len(quarantined):
        raise Refused(
            f"{file}: the times in column {zoneless[0].field!r} have no time zone; declare "
            f"time_zone (UTC, +01:00 or Europe/Berlin, for example) for source {source.name!r}"
        )


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Refused for what a parser cannot take and has no sentence of its own for."""
    try:
        yield
    except (pa.ArrowException, UnicodeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:REASON_LENGTH_MAX] or type(error).__name__
        raise Refused(
            f"{file} cannot be read ({reason}): write it again as CSV, JSON lines or Parquet"
        ) from error
