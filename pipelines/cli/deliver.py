"""`medusa deliver`: deliver what is stable now to the sinks of a home, once.

Sinks are declared in the streams' contracts. For a home without contracts, such as that of a replay
that was kept, the options declare one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from pipelines.base.settings import Settings, environment
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.operations.sink_delivery import SinkDelivery, SinkDeliveryResult

HELP = "deliver what is stable now to the sinks of a home, once"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa deliver`."""
    parser.add_argument("--stream", metavar="STREAM", help="only its sinks (default: all)")
    parser.add_argument("--sink", metavar="NAME", help="only the sink of this name")
    target = parser.add_argument_group("a sink of a home without contracts")
    target.add_argument("--parquet", type=Path, metavar="DIR", help="write Parquet files there")
    target.add_argument("--csv", type=Path, metavar="DIR", help="write CSV files there")
    url = (
        "write a table there; give secrets as '${MEDUSA_SINK_NAME}', a variable of the environment"
    )
    target.add_argument("--postgres", metavar="URL", help=url)
    target.add_argument("--table", metavar="SCHEMA.TABLE", help="the table; created if necessary")
    unique = "columns by which its rows are replaced (default: the stream's key)"
    target.add_argument("--key", metavar="COLUMN,…", help=unique)
    begins = "event time to begin at: origin (default), now, or ISO 8601"
    target.add_argument("--from", dest="from_", metavar="TIME", help=begins)
    target.add_argument("--withdraw", action="store_true", help="stop delivering to --sink")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Deliver and print how far each sink is; returns the exit code of the first failure."""
    from pipelines.operations.sink_delivery import DeliveryRequest, deliver

    declaration = declaration_in(options)
    if options.withdraw:
        return _withdraw(options, settings)
    request = DeliveryRequest(
        participant=options.participant,
        stream=options.stream,
        sink=options.sink,
        declaration=declaration,
    )
    result = deliver(settings, request, environment())
    if options.json:
        print(json.dumps(document(result), indent=1))
    else:
        print(render(result))
        for error in result.failures:
            print(f"medusa: {error}", file=sys.stderr)
    return result.failures[0].exit_code if result.failures else 0


def _withdraw(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.operations.sink_delivery import withdraw

    if options.stream is None or options.sink is None:
        raise Refused("--withdraw needs the sink to withdraw: give --stream S and --sink NAME")
    for sink in withdraw(settings, options.participant, options.stream, options.sink):
        print(f"sink {sink.name} of {sink.stream} is withdrawn; what it delivered stays")
    return 0


def declaration_in(options: argparse.Namespace) -> Mapping[str, object] | None:
    """The sink that the options declare; None if they name no target."""
    targets = [
        name for name in ("parquet", "csv", "postgres") if getattr(options, name) is not None
    ]
    if not targets:
        details = {"table": options.table, "key": options.key, "from": options.from_}
        for name, value in details.items():
            if value is not None:
                raise Refused(f"--{name} goes with a target: give --parquet, --csv or --postgres")
        return None
    if len(targets) > 1 or options.withdraw:
        raise Refused("give one of --parquet DIR, --csv DIR, --postgres URL and --withdraw")
    if options.stream is None:
        raise Refused(f"--{targets[0]} needs the stream to deliver: give --stream S")
    declaration: dict[str, object] = {"kind": targets[0]}
    if options.from_ is not None:
        declaration["from"] = options.from_
    folder: Path | None = options.parquet or options.csv
    if folder is not None:
        if options.table is not None or options.key is not None:
            raise Refused("--table and --key go with --postgres: a folder has neither")
        return declaration | {"path": str(folder.absolute())}
    if options.table is None:
        raise Refused("--postgres needs the table to deliver into: give --table SCHEMA.TABLE")
    declaration |= {"url": options.postgres, "table": options.table}
    if options.key is not None:
        declaration["key"] = [name.strip() for name in options.key.split(",")]
    return declaration


def document(result: SinkDeliveryResult) -> Mapping[str, Any]:
    """The result for JSON."""
    return {"participant": result.participant, "sinks": [_facts(one) for one in result.sinks]}


def render(result: SinkDeliveryResult) -> str:
    """The result for a terminal."""
    names = ("stream", "sink", "into", "delivered through", "rows", "of them now")
    rows = [
        (f["stream"], f["sink"], f["target"], f["through"] or "nothing", f["rows"], f["rows_now"])
        for f in map(_facts, result.sinks)
    ]
    return table(names, rows)


def _facts(delivery: SinkDelivery) -> Mapping[str, Any]:
    from pipelines.sinks.sink_declaration import declaration_of

    sink, declared = delivery.sink, declaration_of(delivery.sink)
    return {
        "stream": sink.stream,
        "sink": sink.name,
        "kind": declared.kind,
        "target": declared.target,
        "through": None if sink.through_us is None else iso(sink.through_us),
        "through_us": sink.through_us,
        "rows": sink.rows,
        "rows_now": delivery.rows,
        "lost_us": sink.lost_us,
        "problem": None if delivery.error is None else str(delivery.error),
    }
