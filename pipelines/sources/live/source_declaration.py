"""The declared feed of a source: a directory, a paced replay, the generator, or Spark's sources.

A declaration is read from a stream's contract as a mapping of plain values, strictly: an unknown
field, or a value of another kind, is refused with the stream, the field and what to write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from medusa_core.suggest import did_you_mean
from pipelines.base.foreign_documents import parse_json
from pipelines.sources.live.declared_fields import RECORDS_PER_S_MAX, Fields, Timing, Where
from pipelines.sources.live.spark_feed import SparkFeed, spark_feed
from pipelines.storage.file_limits import UNPACKED_RATIO_MAX, FileLimits

RATE_PER_S_MAX = 65_536
FILES_PER_POLL_MAX = 100_000
UNPACKED_RATIO_MOST = 1_000_000_000
FORMATS = ("csv", "json", "parquet", "zeek")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedDirectory:
    """A folder into which whole files are moved; `format` (one of FORMATS) refuses all others.

    `files_per_poll` and `records_per_s` are limits (None: as many as a batch holds), and so are
    `files` for each file. `where`: which records are this stream's (None: all).
    """

    path: Path
    format: str | None
    timing: Timing
    where: Where | None = None
    files_per_poll: int | None = None
    records_per_s: int | None = None
    files: FileLimits = field(default_factory=FileLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedReplay:
    """Recorded files, one behind the other; an hour of event time takes an hour / `speed`.

    `records_per_s` is a limit (None: as many as are due), and so are `files` for each file.
    """

    paths: tuple[Path, ...]
    speed: float
    timing: Timing
    records_per_s: int | None = None
    files: FileLimits = field(default_factory=FileLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGenerator:
    """Made-up connections in the clock's time, `rate_per_s` on average from `sources` addresses.

    `records` is after how many it ends (None: never).
    """

    seed: int
    rate_per_s: int
    sources: int
    records: int | None
    timing: Timing


SourceDeclaration = WatchedDirectory | PacedReplay | LiveGenerator | SparkFeed


def parse_declaration(
    stream: StreamName, document: Mapping[str, object] | str
) -> SourceDeclaration:
    """The declaration of what feeds `stream`, from plain values or their JSON text.

    Raises Refused, naming the stream and the field, for anything that is not one.
    """
    if isinstance(document, str):
        document = parse_json(document, f"the source of {stream}", "declare it again")
    if not isinstance(document, Mapping):
        raise Refused(f"the source of {stream} is {document!r}: write a mapping with its kind")
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in _PARSERS:
        hint = did_you_mean(kind, _PARSERS, f"write one of {', '.join(_PARSERS)}")
        raise Refused(f"the source of {stream} has kind {kind!r}: {hint}")
    return _PARSERS[kind](Fields(stream, document))


def _directory(fields: Fields) -> WatchedDirectory:
    path = fields.path("path", fields.take("path"))
    format_ = fields.text("format")
    if format_ not in (None, *FORMATS):
        raise fields.refused("format", format_, f"{', '.join(FORMATS)}, or nothing for all")
    files_per_poll = fields.whole("files_per_poll", None, 1, FILES_PER_POLL_MAX)
    records_per_s = fields.whole("records_per_s", None, 1, RECORDS_PER_S_MAX)
    files = _file_limits(fields)
    timing, where = fields.timing(), fields.where()
    fields.check_all_known()
    return WatchedDirectory(
        path=path,
        format=format_,
        timing=timing,
        where=where,
        files_per_poll=files_per_poll,
        records_per_s=records_per_s,
        files=files,
    )


def _file_limits(fields: Fields) -> FileLimits:
    ratio = fields.whole("unpacked_ratio_max", UNPACKED_RATIO_MAX, 1, UNPACKED_RATIO_MOST)
    assert ratio is not None
    return FileLimits(unpacked_ratio_max=ratio)


def _replay(fields: Fields) -> PacedReplay:
    given = fields.take("paths")
    if not isinstance(given, list | tuple) or not given:
        raise fields.refused("paths", given, "a list of recorded files, such as [day.csv.gz]")
    paths = tuple(fields.path("paths", path) for path in given)
    speed = fields.take("speed")
    speed = 1 if speed is None else speed
    if (
        isinstance(speed, bool)
        or not isinstance(speed, int | float)
        or not math.isfinite(speed)
        or speed <= 0
    ):
        raise fields.refused("speed", speed, "how many times as fast as it was, such as 10")
    time, disorder_us = fields.text("time"), fields.duration_us("disorder", or_none_at_all=True)
    max_jump_us = fields.duration_us("max_jump")
    records_per_s = fields.whole("records_per_s", None, 1, RECORDS_PER_S_MAX)
    files = _file_limits(fields)
    fields.check_all_known()
    return PacedReplay(
        paths=paths,
        speed=float(speed),
        timing=Timing(time=time, disorder_us=disorder_us, max_jump_us=max_jump_us),
        records_per_s=records_per_s,
        files=files,
    )


def _generate(fields: Fields) -> LiveGenerator:
    from pipelines.sources.generator import SOURCES_MAX

    seed = fields.whole("seed", 0, 0, 2**63 - 1)
    rate_per_s = fields.whole("rate_per_s", 56, 1, RATE_PER_S_MAX)
    sources = fields.whole("sources", 2_000, 1, SOURCES_MAX)
    records = fields.whole("records", None, 1, 2**53)
    time, disorder_us = fields.text("time"), fields.duration_us("disorder", or_none_at_all=True)
    fields.check_all_known()
    assert seed is not None
    assert rate_per_s is not None
    assert sources is not None
    return LiveGenerator(
        seed=seed,
        rate_per_s=rate_per_s,
        sources=sources,
        records=records,
        timing=Timing(time=time, disorder_us=disorder_us, wall_time=True),
    )


_PARSERS: Mapping[str, Callable[[Fields], SourceDeclaration]] = {
    "directory": _directory,
    "replay": _replay,
    "generate": _generate,
    "spark": spark_feed,
}
