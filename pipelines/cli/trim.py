"""`medusa trim`: trim unneeded buckets, compact small files, remove orphans.

Without --keep, --before, --compact and --orphans, streams are trimmed by their declared
retentions. With --explain nothing is changed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medusa_core.grid import parse_duration_us
from medusa_core.suggest import counted
from medusa_core.trims import TrimLimit
from pipelines.base.settings import Settings
from pipelines.base.text_table import facts, table
from pipelines.base.time_text import duration, iso, parse_time_us, size_of
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.operations.home_trim import CompactedRun, TrimRequest, TrimResult
    from pipelines.participant.trimming import Freed
    from pipelines.storage.orphans import Orphan

HELP = "trim what nobody needs, compact files, remove orphans"


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
    """Trim a home and print what was done or, with --explain, would be."""
    from pipelines.operations.home_trim import document, trim_home

    result = trim_home(settings, _request(options))
    if options.json:
        print(json.dumps(document(result), indent=1, allow_nan=False))
    else:
        print(render(result))
    return 0


def _request(options: argparse.Namespace) -> TrimRequest:
    from pipelines.operations.home_trim import TrimRequest
    from pipelines.storage.orphans import GRACE_S

    given = (options.keep, options.before, options.compact, options.orphans)
    grace = options.grace
    return TrimRequest(
        participant=options.participant,
        streams=tuple(options.streams),
        keep_us=None if options.keep is None else parse_duration_us(options.keep),
        before_us=None if options.before is None else parse_time_us("--before", options.before),
        by_retention=not any(given),
        compacts=options.compact,
        removes_orphans=options.orphans,
        grace_s=GRACE_S if grace is None else parse_duration_us(grace) / 1_000_000,
        explain=options.explain,
    )


def render(result: TrimResult) -> str:
    """The result for people."""
    parts: list[str] = []
    if result.freed is not None:
        parts.append(_freed_text(result.freed, explain=result.is_explained))
    if result.compacted is not None:
        parts.append(_compacted_text(result.compacted, explain=result.is_explained))
    if result.orphans is not None:
        parts.append(_orphans_text(result.orphans, explain=result.is_explained))
    return "\n\n".join(parts)


def _held(held: TrimLimit | None) -> str:
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


def _compacted_text(compacted: Sequence[CompactedRun], *, explain: bool) -> str:
    if not compacted:
        return "no small files to compact"
    would = "would become" if explain else "became"
    return "\n".join(
        f"{counted(run.files, 'file')} of {counted(run.segments, 'segment')} of "
        f"{run.line.stream.name} {would} one"
        for run in compacted
    )


def _orphans_text(orphans: Sequence[Orphan], *, explain: bool) -> str:
    if not orphans:
        return "no orphans"
    size = size_of(sum(o.size_bytes for o in orphans))
    if explain:
        return f"{counted(len(orphans), 'orphan')} of {size} would be removed"
    return f"{counted(len(orphans), 'orphan')} of {size} removed"
