"""`medusa quarantine export|retry` and `medusa read --quarantine`: records in quarantine.

The content of a record is not trusted: a terminal shows it escaped, JSON as it is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.catalog.records import QuarantineEntry

HELP = "records in quarantine: export them, land repaired ones"
FIELDS = (
    "stream", "origin", "position", "field", "reason", "content", "size_bytes", "sha256", "outputs",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa quarantine`."""
    what = "export: write them as JSON lines; retry: land those that were given values"
    parser.add_argument("what", choices=("export", "retry"), help=what)
    parser.add_argument("stream", metavar="STREAM", help="the source")
    file = "the file to write, or the file with the repaired records"
    parser.add_argument("file", type=Path, metavar="FILE", help=file)
    parser.add_argument("--explain", action="store_true", help="print what would land")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Export records in quarantine, or land repaired ones."""
    if options.what == "retry":
        return _retry(options, settings)
    if options.explain:
        raise Refused("an export changes nothing: leave --explain out")
    return _export(options, settings)


def run_read(options: argparse.Namespace, settings: Settings) -> int:
    """Print the first records in quarantine, and how many there are.

    If a stream is given, those that it lacks.
    """
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.participant.repairs_export import known_stream

    with open_home(settings, chosen_participant(settings, options.participant)) as home:
        stream = None if options.stream is None else known_stream(home, options.stream)
        count = home.catalog.quarantine_count(stream)
        entries = home.catalog.quarantine_entries(stream, limit=options.limit)
    if options.json:
        found = [_found(entry) for entry in entries]
        document = {"participant": home.participant, "count": count, "records": found}
        print(json.dumps(document, indent=1, allow_nan=False))
        return 0
    of_stream = "" if stream is None else f" of {stream}"
    if not entries:
        print(f"no record{of_stream} is in quarantine")
        return 0
    headings = ("number", "stream", "from", *FIELDS[2:7], "outputs", "landed")
    print(table(headings, map(_shown, entries)))
    print(f"\n{len(entries):,} of {count:,} records{of_stream} in quarantine")
    return 0


def _export(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.participant.repairs_export import export_quarantined

    stream, file = options.stream, options.file
    with open_home(settings, chosen_participant(settings, options.participant)) as home:
        count = export_quarantined(home, stream, file)
    if options.json:
        print(json.dumps({"stream": stream, "file": str(file), "records": count}, indent=1))
    else:
        print(f"{counted(count, 'record')} of {stream}: give their values in `record`, then")
        print(f"medusa quarantine retry {stream} FILE")
    return 0


def _retry(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.participant.repairs import CLOSED, import_repaired

    stream, explain = options.stream, options.explain
    with open_home(settings, chosen_participant(settings, options.participant)) as home:
        results = import_repaired(home, stream, options.file, explain=explain)
    landed = [one for one in results if one.why_not is None]
    if options.json:
        stayed = [
            {"line": one.line, "number": one.number, "reason": one.why_not}
            for one in results
            if one.why_not is not None
        ]
        numbers = [one.number for one in landed]
        document = {"stream": stream, "explained": explain, "landed": numbers, "stayed": stayed}
        print(json.dumps(document, indent=1))
        return 0
    rows = [
        (one.line, str(one.number), one.why_not or ("would land" if explain else "landed"))
        for one in results
    ]
    if rows:
        print(table(("line", "number", "result"), rows) + "\n")
    verb, stayed_count = "would land" if explain else "landed", len(results) - len(landed)
    print(f"{verb}: {counted(len(landed), 'record')} of {stream}, {stayed_count} stayed")
    if any(one.why_not == CLOSED for one in results):
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
    return (str(entry.number), r.stream, Path(r.origin).name or r.origin, place, r.field, r.reason,
            r.content, size, ", ".join(r.outputs), entry.result)  # fmt: skip
