"""`medusa read --quarantine`, `medusa quarantine export|retry`: records put aside, and repaired.

What a record holds may come from anybody: in a terminal it is shown escaped, in JSON as it is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import counted
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.catalog.records import QuarantineEntry

FIELDS = ("stream", "origin", "position", "field", "reason", "content", "size_bytes", "sha256")


def show_quarantine(
    settings: Settings, participant: str | None, stream: str | None, *, limit: int, as_json: bool
) -> int:
    """Print the first records in quarantine (of a stream, if given), and how many there are."""
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.participant.repairs_export import known_stream

    with open_home(settings, chosen_participant(settings, participant)) as home:
        wanted = None if stream is None else known_stream(home, stream)
        count = home.catalog.quarantine_count(wanted)
        entries = home.catalog.quarantine_entries(wanted, limit=limit)
    if as_json:
        found = [_found(entry) for entry in entries]
        document = {"participant": home.participant, "count": count, "records": found}
        print(json.dumps(document, indent=1, allow_nan=False))
        return 0
    if not entries:
        print("no record is in quarantine" if stream is None else f"none of {stream} is there")
        return 0
    print(table(("number", "stream", "from", *FIELDS[2:7], "landed"), map(_shown, entries)))
    of_which = "" if stream is None else f" of {stream}"
    print(f"\n{len(entries):,} of {count:,} records{of_which} in quarantine")
    return 0


def export_quarantine(
    settings: Settings, participant: str | None, stream: str, file: Path, *, as_json: bool
) -> int:
    """Write a source's records in quarantine as JSON lines to be repaired."""
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.participant.repairs_export import hand_out

    with open_home(settings, chosen_participant(settings, participant)) as home:
        count = hand_out(home, stream, file)
    if as_json:
        print(json.dumps({"stream": stream, "file": str(file), "records": count}, indent=1))
    else:
        print(f"{counted(count, 'record')} of {stream}: give their values in `record`, then")
        print(f"medusa quarantine retry {stream} FILE")
    return 0


def retry_quarantine(
    settings: Settings,
    participant: str | None,
    stream: str,
    file: Path,
    *,
    explain: bool,
    as_json: bool,
) -> int:
    """Hand repaired records in, and print what became of each."""
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.participant.repairs import CLOSED, hand_in

    with open_home(settings, chosen_participant(settings, participant)) as home:
        told = hand_in(home, stream, file, explain=explain)
    landed = [one for one in told if one.why_not is None]
    if as_json:
        stayed = [
            {"line": one.line, "number": one.number, "reason": one.why_not}
            for one in told
            if one.why_not is not None
        ]
        numbers = [one.number for one in landed]
        document = {"stream": stream, "explained": explain, "landed": numbers, "stayed": stayed}
        print(json.dumps(document, indent=1))
        return 0
    rows = [
        (one.line, str(one.number), one.why_not or ("would land" if explain else "landed"))
        for one in told
    ]
    if rows:
        print(table(("line", "number", "what became of it"), rows) + "\n")
    verb = "would land" if explain else "landed"
    print(f"{verb}: {counted(len(landed), 'record')} of {stream}, {len(told) - len(landed)} stayed")
    if any(one.why_not == CLOSED for one in told):
        print("records of closed buckets stay in quarantine for good")
    return 0


def _found(entry: QuarantineEntry) -> Mapping[str, Any]:
    record = entry.record
    fields = {name: getattr(record, name) for name in FIELDS}
    return {"number": entry.number, **fields, "landed_as": entry.landed_as}


def _shown(entry: QuarantineEntry) -> tuple[object, ...]:
    r = entry.record
    place = "" if r.position is None else str(r.position)
    size = "not known" if r.size_bytes is None else r.size_bytes
    landed = "repaired" if entry.landed_as else ""
    return (str(entry.number), r.stream, Path(r.origin).name or r.origin, place, r.field, r.reason,
            r.content, size, landed)  # fmt: skip


HELP = "records put aside: export them, hand in repaired ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa quarantine`."""
    what = "write them as JSON lines, or land those whose values were given"
    parser.add_argument("what", choices=("export", "retry"), help=what)
    parser.add_argument("stream", metavar="STREAM", help="of which source")
    parser.add_argument("file", type=Path, metavar="FILE", help="written anew, or as it was edited")
    parser.add_argument("--explain", action="store_true", help="tell what would land")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Export records in quarantine, or land repaired ones."""
    if options.what == "export":
        if options.explain:
            raise Refused("an export changes nothing: leave --explain out")
        return export_quarantine(
            settings, options.participant, options.stream, options.file, as_json=options.json
        )
    return retry_quarantine(
        settings,
        options.participant,
        options.stream,
        options.file,
        explain=options.explain,
        as_json=options.json,
    )
