"""`medusa deliver`: deliver what there is now to the sinks of a home, once.

Sinks come from the streams' contracts; one can also be declared here, for a home that has none,
such as that of a replay that was kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import MedusaError, Refused
from medusa_core.names import StreamName
from medusa_core.sinks import SinkRecord
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.homes.home import Home
    from pipelines.sinks.delivery import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for, as written: which sinks, or a target to declare one for."""

    stream: str | None = None
    sink: str | None = None
    parquet: Path | None = None
    csv: Path | None = None
    postgres: str | None = None
    table: str | None = None
    key: str | None = None
    begins: str | None = None
    withdraw: bool = False


def run_deliver(settings: Settings, participant: str | None, asked: Asked, *, as_json: bool) -> int:
    """Deliver, and print how far each sink has come; returns the exit code of the first failure."""
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.sinks.delivery_workers import deliver_once
    from pipelines.sinks.registration import declare, sinks_wanted
    from pipelines.sinks.sink_declaration import document_of

    document = _document(asked)
    with open_home(settings, chosen_participant(settings, participant)) as home:
        if asked.withdraw:
            return _withdraw(home, asked)
        name = asked.sink
        if document is not None:
            name = asked.sink or str(document["kind"])
            assert asked.stream is not None
            stream, text = StreamName(asked.stream), document_of(document)
            _check_stays(home, stream, name, text)
            declare(home.catalog, stream, name, text)
        sinks = sinks_wanted(home.catalog, asked.stream, name)
        rows = dict.fromkeys(((s.stream, s.name) for s in sinks), 0)

        def told(turn: Turn) -> None:
            if turn.run is not None:
                rows[turn.sink.stream, turn.sink.name] += turn.run.rows

        failed = deliver_once(home.catalog, home.storage, home.directory, sinks, os.environ, told)
        errors = {(sink.stream, sink.name): error for sink, error in failed}
        delivered = [s for s in home.catalog.sinks() if (s.stream, s.name) in rows]
        facts = [
            _facts(s, rows[s.stream, s.name], errors.get((s.stream, s.name))) for s in delivered
        ]
    if as_json:
        print(json.dumps({"participant": home.participant, "sinks": facts}, indent=1))
    else:
        print(_text(facts))
        for _, error in failed:
            print(f"medusa: {error}", file=sys.stderr)
    return failed[0][1].exit_code if failed else 0


def _document(asked: Asked) -> dict[str, object] | None:
    """The declaration that the options make; None if they name no target."""
    targets = [word for word in ("parquet", "csv", "postgres") if getattr(asked, word) is not None]
    if not targets:
        beside = [w for w in ("table", "key", "begins") if getattr(asked, w) is not None]
        if beside:
            option = "from" if beside[0] == "begins" else beside[0]
            raise Refused(f"--{option} goes with a target: give --parquet, --csv or --postgres too")
        return None
    if len(targets) > 1 or asked.withdraw:
        raise Refused("give one of --parquet DIR, --csv DIR, --postgres URL and --withdraw")
    if asked.stream is None:
        raise Refused(f"--{targets[0]} needs the stream to deliver: give --stream S")
    document: dict[str, object] = {"kind": targets[0]}
    if asked.begins is not None:
        document["from"] = asked.begins
    folder = asked.parquet or asked.csv
    if folder is not None:
        if asked.table is not None or asked.key is not None:
            raise Refused("--table and --key go with --postgres: a folder has neither")
        return document | {"path": str(folder.absolute())}
    if asked.table is None:
        raise Refused("--postgres needs the table to deliver into: give --table SCHEMA.TABLE")
    document |= {"url": asked.postgres, "table": asked.table}
    if asked.key is not None:
        document["key"] = [name.strip() for name in asked.key.split(",")]
    return document


def _check_stays(home: Home, stream: StreamName, name: str, document: str) -> None:
    """Refuse to give a sink another target by the way: the old one would get no more."""
    from pipelines.sinks.registration import target_of
    from pipelines.sinks.sink_declaration import parse_sink

    wanted = parse_sink(stream, document)
    for sink in home.catalog.sinks():
        if (sink.stream, sink.name) != (stream, name):
            continue
        stands = parse_sink(stream, sink.document)
        if target_of(stands) != target_of(wanted):
            raise Refused(
                f"sink {name} of {stream} delivers into {stands.target} already: give another "
                f"--sink NAME for a second one, or end that one first with --stream {stream} "
                f"--sink {name} --withdraw"
            )


def _withdraw(home: Home, asked: Asked) -> int:
    from pipelines.sinks.registration import sinks_wanted

    if asked.stream is None or asked.sink is None:
        raise Refused("--withdraw needs the sink to withdraw: give --stream S and --sink NAME")
    for sink in sinks_wanted(home.catalog, asked.stream, asked.sink):
        home.catalog.withdraw_sink(sink.stream, sink.name)
        print(f"sink {sink.name} of {sink.stream} is withdrawn; what it delivered stays")
    return 0


def _facts(sink: SinkRecord, rows: int, error: MedusaError | None) -> Mapping[str, Any]:
    from pipelines.sinks.sink_declaration import declaration_of

    declared = declaration_of(sink)
    return {
        "stream": sink.stream,
        "sink": sink.name,
        "kind": declared.kind,
        "target": declared.target,
        "through": None if sink.through_us is None else iso(sink.through_us),
        "through_us": sink.through_us,
        "rows": sink.rows,
        "rows_now": rows,
        "lost_us": sink.lost_us,
        "problem": None if error is None else str(error),
    }


def _text(facts: list[Mapping[str, Any]]) -> str:
    names = ("stream", "sink", "into", "delivered through", "rows", "of them now")
    rows = [
        (f["stream"], f["sink"], f["target"], f["through"] or "nothing", f["rows"], f["rows_now"])
        for f in facts
    ]
    return table(names, rows)


HELP = "deliver what there is now to the sinks of a home, once"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa deliver`."""
    parser.add_argument("--stream", metavar="STREAM", help="only its sinks (default: all)")
    parser.add_argument("--sink", metavar="NAME", help="only the sink of this name")
    target = parser.add_argument_group("a sink of a home without contracts")
    target.add_argument("--parquet", type=Path, metavar="DIR", help="Parquet files there")
    target.add_argument("--csv", type=Path, metavar="DIR", help="CSV files there")
    named = "a table there; write what is secret as '${NAME}', a variable of the environment"
    target.add_argument("--postgres", metavar="URL", help=named)
    target.add_argument("--table", metavar="SCHEMA.TABLE", help="which; it is made if need be")
    unique = "columns by which its rows are replaced (default: the stream's key)"
    target.add_argument("--key", metavar="COLUMN,…", help=unique)
    begins = "event time to begin at: origin (default), now, or ISO 8601"
    target.add_argument("--from", dest="from_", metavar="TIME", help=begins)
    target.add_argument("--withdraw", action="store_true", help="deliver there no more, instead")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Deliver to the sinks of a home, or withdraw one."""
    asked = Asked(
        stream=options.stream,
        sink=options.sink,
        parquet=options.parquet,
        csv=options.csv,
        postgres=options.postgres,
        table=options.table,
        key=options.key,
        begins=options.from_,
        withdraw=options.withdraw,
    )
    return run_deliver(settings, options.participant, asked, as_json=options.json)
