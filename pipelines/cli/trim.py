"""`medusa trim`: let go of what nobody needs, compact small files, remove what nothing names.

Compaction and orphans are asked for by options of their own. What goes is what --keep or --before
say, without them and without those options what lies behind the declared retentions. With --explain
everything is told and nothing is done.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, parse_duration_us
from medusa_core.segments import Segment
from medusa_core.suggest import did_you_mean
from medusa_core.trims import HeldBack
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.text_table import facts, table
from pipelines.base.time_text import counted, duration, iso, parse_time_us, size_of
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.storage.orphans import Orphan

if TYPE_CHECKING:
    from pipelines.catalog.records import LineStatus

if TYPE_CHECKING:
    from pipelines.homes.home import Home
    from pipelines.participant.trimming import Before, Freed
    from pipelines.storage.compaction import Compacted


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for: durations and times as written."""

    streams: Sequence[str] = ()
    keep: str | None = None
    before: str | None = None
    compact: bool = False
    orphans: bool = False
    grace: str | None = None
    explain: bool = False


def run_trim(settings: Settings, participant: str | None, wanted: Wanted, *, as_json: bool) -> int:
    """Do what is wanted in a home, and print what was done, or with --explain would be."""
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.participant.trimming import before_of
    from pipelines.storage.orphans import GRACE_S, GRACE_S_MIN

    keep_us = None if wanted.keep is None else parse_duration_us(wanted.keep)
    before_us = None if wanted.before is None else parse_time_us("--before", wanted.before)
    grace_s = GRACE_S if wanted.grace is None else parse_duration_us(wanted.grace) / 1_000_000
    if grace_s < GRACE_S_MIN:
        raise Refused(
            f"--grace {wanted.grace} could take files that a running step has yet to commit: give "
            "1m or more"
        )
    says_what = keep_us is not None or before_us is not None
    trims = says_what or not (wanted.compact or wanted.orphans)
    with open_home(settings, chosen_participant(settings, participant)) as home:
        lines = _lines(home, wanted.streams)
        document: dict[str, Any] = {"participant": home.participant, "explained": wanted.explain}
        texts: list[str] = []
        if trims:
            before = before_of(keep_us, before_us) if says_what else _before_retained(home, lines)
            freed = _trim(home, lines, before, explain=wanted.explain)
            document["lines"] = [_freed_document(one) for one in freed]
            texts.append(_freed_text(freed, explain=wanted.explain))
        if wanted.compact:
            made = _compact(home, lines, explain=wanted.explain)
            document["compacted"] = [_made_document(status, one) for status, one in made]
            texts.append(_made_text(made, explain=wanted.explain))
        if wanted.orphans:
            gone = _orphans(home, grace_s, explain=wanted.explain)
            document["orphans"] = [{"path": o.path, "size_bytes": o.size_bytes} for o in gone]
            texts.append(_orphans_text(gone, explain=wanted.explain))
    print(json.dumps(document, indent=1, allow_nan=False) if as_json else "\n\n".join(texts))
    return 0


def _lines(home: Home, wanted: Sequence[str]) -> list[LineStatus]:
    """The lines of the streams asked for, all by default; Refused for a stream that is not here."""
    lines = home.catalog.lines()
    known = sorted({str(line.stream.name) for line in lines})
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known, "it has " + (", ".join(known) or "none"))
            raise Refused(f"the home of {home.participant} has no stream {name!r}: {hint}")
    return [line for line in lines if not wanted or line.stream.name in wanted]


def _before_retained(home: Home, lines: Sequence[LineStatus]) -> Before:
    """By the declared retentions; Refused if none of the lines has one."""
    from pipelines.participant.trimming import before_of_retentions

    retentions = home.catalog.retentions()
    if not any(line.stream.name in retentions for line in lines):
        raise Refused(
            f"what was asked for is kept for good in the home of {home.participant}: say what to "
            "let go with --keep DURATION, --before TIME, --compact or --orphans, or declare a "
            "retention in the stream's contract"
        )
    return before_of_retentions(retentions)


# ------------------------------------------------------------ doing


def _trim(home: Home, lines: Sequence[LineStatus], before: Before, *, explain: bool) -> list[Freed]:
    from pipelines.participant.trimming import explain_trim, needs_here, trim_line

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


Made: TypeAlias = "list[tuple[LineStatus, Compacted | tuple[Segment, ...]]]"


def _compact(home: Home, lines: Sequence[LineStatus], *, explain: bool) -> Made:
    from pipelines.participant.trimming import furthest_us, needs_here
    from pipelines.storage.compaction import compact_run, runs_of_line

    needs = needs_here(home.catalog)
    made: Made = []
    for line in lines:
        upto_us = furthest_us(home.catalog, line, needs)
        for run in runs_of_line(home.catalog, line, upto_us):
            done = run if explain else compact_run(home.catalog, home.storage, line, run)
            if done is not None:
                made.append((line, done))
    return made


def _orphans(home: Home, grace_s: float, *, explain: bool) -> tuple[Orphan, ...]:
    from pipelines.storage.orphans import find_orphans, remove_orphans

    now_s = clock.wall_s()
    found = find_orphans(home.storage, home.catalog.named_files, now_s, grace_s)
    return found if explain else remove_orphans(home.storage, found, now_s, grace_s)


# ------------------------------------------------------------ telling


def _held(held: HeldBack | None) -> str:
    if held is None:
        return ""
    if held.holder is None:
        return {"tentative": "tentative from there on", "boundary": "has come no further"}[
            held.purpose
        ]
    limit = "" if held.limit_ms is None else f", for {duration(held.limit_ms * 1_000)}"
    since = "" if held.since_ms is None else f" since {iso(held.since_ms // 1_000 * 1_000_000)}"
    return f"{held.holder} ({held.purpose}){since}{limit}"


def _freed_text(freed: Sequence[Freed], *, explain: bool) -> str:
    if not freed:
        return "no stream has begun: nothing to trim"
    names = ("stream", "producer", "trimmed before", "rows", "files", "bytes")
    rows = [
        (
            one.status.stream.name,
            str(one.status.producer),
            "nothing" if one.trimmed.trimmed_us is None else iso(one.trimmed.trimmed_us),
            one.trimmed.rows,
            len(one.trimmed.files),
            size_of(one.freed_bytes),
        )
        for one in freed
    ]
    held = [
        (str(one.status.stream.name), "held back by", _held(one.trimmed.held_by))
        for one in freed
        if one.trimmed.held_by is not None
    ]
    text = table(names, rows)
    if held:
        text += "\n\n" + facts(held)
    return text + "\n\nnothing was changed" if explain else text


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


def _segments_and_files(done: Compacted | tuple[Segment, ...]) -> tuple[int, int]:
    from pipelines.storage.compaction import Compacted

    if isinstance(done, Compacted):
        return done.segments, len(done.olds)
    return len(done), len({file for segment in done for file in segment.files})


def _made_text(made: Made, *, explain: bool) -> str:
    if not made:
        return "no small files to make one of"
    would = "would become" if explain else "became"
    lines = []
    for status, done in made:
        segments, files = _segments_and_files(done)
        lines.append(
            f"{counted(files, 'file')} of {counted(segments, 'segment')} of {status.stream.name} "
            f"{would} one"
        )
    return "\n".join(lines)


def _made_document(status: LineStatus, done: Compacted | tuple[Segment, ...]) -> Mapping[str, Any]:
    from pipelines.storage.compaction import Compacted

    segments, files = _segments_and_files(done)
    path = done.file.path if isinstance(done, Compacted) else None
    return {
        "stream": status.stream.name,
        "producer": str(status.producer),
        "segments": segments,
        "files": files,
        "path": path,
    }


def _orphans_text(orphans: Sequence[Orphan], *, explain: bool) -> str:
    if not orphans:
        return "no orphans"
    size = size_of(sum(o.size_bytes for o in orphans))
    if explain:
        return f"{counted(len(orphans), 'orphan')} of {size} would be removed"
    return f"{counted(len(orphans), 'orphan')} of {size} removed"


HELP = "let go of what nobody needs, compact files, remove orphans"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa trim`."""
    parser.add_argument("streams", metavar="STREAM", nargs="*", help="which (default: all)")
    until = parser.add_mutually_exclusive_group()
    keep = "event time to keep behind the end of what is stable, such as 7d (default: as declared)"
    until.add_argument("--keep", metavar="DURATION", help=keep)
    until.add_argument("--before", metavar="TIME", help="event time: ISO 8601 or Unix seconds")
    parser.add_argument("--compact", action="store_true", help="make one file of many small ones")
    parser.add_argument("--orphans", action="store_true", help="remove files that nothing names")
    grace = "how old an orphan is at least (default: 1h)"
    parser.add_argument("--grace", metavar="DURATION", help=grace)
    parser.add_argument("--explain", action="store_true", help="print it all, change nothing")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Trim, compact or remove orphans in a home."""
    wanted = Wanted(
        streams=options.streams,
        keep=options.keep,
        before=options.before,
        compact=options.compact,
        orphans=options.orphans,
        grace=options.grace,
        explain=options.explain,
    )
    return run_trim(settings, options.participant, wanted, as_json=options.json)
