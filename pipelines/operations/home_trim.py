"""Trim a home: remove unneeded buckets, compact small files, remove orphans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.names import Participant
from medusa_core.segments import Segment
from medusa_core.suggest import did_you_mean
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.time_text import duration, iso
from pipelines.catalog.records import LineStatus
from pipelines.contracts.storage_roots import check_owner
from pipelines.homes.home import Home, chosen_participant, open_home
from pipelines.participant.trimming import (
    Before,
    Freed,
    before_of,
    before_of_retentions,
    explain_trim,
    furthest_us,
    needs_here,
    trim_line,
)
from pipelines.storage.compaction import Compacted, compact_run, runs_of_line
from pipelines.storage.object_settings import read_settings
from pipelines.storage.orphans import GRACE_S, GRACE_S_MIN, Orphan, find_orphans, remove_orphans


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimRequest:
    """What to do in one home; each part is independent of the others.

    `participant`: None for the only one of the folder. `streams`: names, all if empty.
    Rows are trimmed before the event time `before_us`, or `keep_us` behind the end of the stable
    prefix, or, with `by_retention`, behind the retention that each stream declares.
    `grace_s`: minimum age of an orphan. `explain`: compute the result and change nothing.
    """

    participant: str | None = None
    streams: tuple[str, ...] = ()
    keep_us: int | None = None
    before_us: int | None = None
    by_retention: bool = False
    compacts: bool = False
    removes_orphans: bool = False
    grace_s: float = GRACE_S
    explain: bool = False

    def check(self) -> None:
        """Refused for a grace period in which a running step may still commit its files."""
        if self.grace_s < GRACE_S_MIN:
            given = duration(int(self.grace_s * 1_000_000))
            raise Refused(
                f"a grace period of {given} could remove files that a running step has yet to "
                f"commit: give {GRACE_S_MIN:g}s or more"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedRun:
    """Neighbouring segments of one line whose small files become one; `path` None: explained."""

    line: LineStatus
    segments: int
    files: int
    path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimResult:
    """What was done, or would be (`is_explained`); None for a part that was not requested."""

    participant: Participant
    is_explained: bool
    freed: tuple[Freed, ...] | None = None
    compacted: tuple[CompactedRun, ...] | None = None
    orphans: tuple[Orphan, ...] | None = None


def trim_home(settings: Settings, request: TrimRequest) -> TrimResult:
    """Trim, compact and remove orphans as requested.

    Raises Refused for an unknown participant or stream, for a short grace period, and where no
    stream declares the retention to trim by; Unavailable if the home cannot be reached.
    """
    request.check()
    with open_home(settings, chosen_participant(settings, request.participant)) as home:
        return trim_opened(home, request)


def trim_opened(home: Home, request: TrimRequest) -> TrimResult:
    """As `trim_home`, of a home that is open."""
    request.check()
    lines = _lines(home, request.streams)
    freed: Sequence[Freed] | None = None
    compacted: Sequence[CompactedRun] | None = None
    orphans: tuple[Orphan, ...] | None = None
    before = _before(home, lines, request)
    if before is not None:
        freed = _trim(home, lines, before, explain=request.explain)
    if request.compacts:
        compacted = _compact(home, lines, explain=request.explain)
    if request.removes_orphans:
        orphans = _remove_orphans(home, request.grace_s, explain=request.explain)
    return TrimResult(
        participant=home.participant,
        is_explained=request.explain,
        freed=None if freed is None else tuple(freed),
        compacted=None if compacted is None else tuple(compacted),
        orphans=orphans,
    )


def document(result: TrimResult) -> dict[str, Any]:
    """The result for JSON; a part that was not requested is absent."""
    found: dict[str, Any] = {
        "participant": result.participant,
        "explained": result.is_explained,
    }
    if result.freed is not None:
        found["lines"] = [_freed_document(one) for one in result.freed]
    if result.compacted is not None:
        found["compacted"] = [
            {
                "stream": run.line.stream.name,
                "producer": str(run.line.producer),
                "segments": run.segments,
                "files": run.files,
                "path": run.path,
            }
            for run in result.compacted
        ]
    if result.orphans is not None:
        found["orphans"] = [{"path": o.path, "size_bytes": o.size_bytes} for o in result.orphans]
    return found


def _lines(home: Home, streams: Sequence[str]) -> list[LineStatus]:
    """The lines of these streams, all by default; Refused for a stream that the home lacks."""
    lines = home.catalog.lines()
    known = sorted({str(line.stream.name) for line in lines})
    for name in streams:
        if name not in known:
            hint = did_you_mean(name, known, "it has " + (", ".join(known) or "none"))
            raise Refused(f"the home of {home.participant} has no stream {name!r}: {hint}")
    return [line for line in lines if not streams or line.stream.name in streams]


def _before(home: Home, lines: Sequence[LineStatus], request: TrimRequest) -> Before | None:
    """Before when each line is trimmed; None if trimming was not requested."""
    if request.keep_us is not None or request.before_us is not None:
        return before_of(request.keep_us, request.before_us)
    if not request.by_retention:
        return None
    retentions = home.catalog.retentions()
    if not any(line.stream.name in retentions for line in lines):
        raise Refused(
            f"the home of {home.participant} declares no retention for these streams: say what to "
            "trim with --keep DURATION, --before TIME, --compact or --orphans, or declare a "
            "retention in the stream's contract"
        )
    return before_of_retentions(retentions)


def _trim(home: Home, lines: Sequence[LineStatus], before: Before, *, explain: bool) -> list[Freed]:
    needs = needs_here(home.catalog)
    freed: list[Freed] = []
    for line in lines:
        line_before_us = before(line)
        if line_before_us is None:
            continue  # it has not begun, or is kept for good
        line_before_us = min(max(line_before_us, BEGINNING_US), FOREVER_US)
        if explain:
            freed.append(explain_trim(home.catalog, line, line_before_us, needs))
        else:
            freed.append(trim_line(home.catalog, home.storage, line, line_before_us, needs))
    return freed


def _compact(home: Home, lines: Sequence[LineStatus], *, explain: bool) -> list[CompactedRun]:
    needs = needs_here(home.catalog)
    compacted: list[CompactedRun] = []
    for line in lines:
        upto_us = furthest_us(home.catalog, line, needs)
        for run in runs_of_line(home.catalog, line, upto_us):
            done = run if explain else compact_run(home.catalog, home.storage, line, run)
            if done is not None:
                compacted.append(_compacted_run(line, done))
    return compacted


def _compacted_run(line: LineStatus, done: Compacted | tuple[Segment, ...]) -> CompactedRun:
    if isinstance(done, Compacted):
        return CompactedRun(
            line=line, segments=done.segments, files=len(done.olds), path=done.file.path
        )
    files = {file for segment in done for file in segment.files}
    return CompactedRun(line=line, segments=len(done), files=len(files), path=None)


def _remove_orphans(home: Home, grace_s: float, *, explain: bool) -> tuple[Orphan, ...]:
    objects = read_settings(home.storage)
    if objects is not None:
        # Objects of another home are orphans by this catalog.
        check_owner(home.directory, home.participant, home.storage, objects)
    now_s = clock.wall_s()
    found = find_orphans(home.storage, home.catalog.named_files, now_s, grace_s)
    return found if explain else remove_orphans(home.storage, found, now_s, grace_s)


def _freed_document(one: Freed) -> Mapping[str, Any]:
    trimmed, held = one.trimmed, one.trimmed.held_by
    return {
        "stream": one.status.stream.name,
        "producer": str(one.status.producer),
        "trimmed_before_us": trimmed.trimmed_us,
        "trimmed_before": None if trimmed.trimmed_us is None else iso(trimmed.trimmed_us),
        "segments": trimmed.segments,
        "rows": trimmed.rows,
        "files": len(trimmed.files),
        "files_removed": one.removed,
        "bytes": one.freed_bytes,
        "held_by": None
        if held is None
        else {
            "holder": held.holder,
            "purpose": held.purpose,
            "from_us": held.from_us,
            "since_ms": held.since_ms,
            "limit_ms": held.limit_ms,
        },
    }
