"""`medusa view make`: keep a named part of a stream for queries."""

from __future__ import annotations

import argparse
import json

from medusa_core.grid import parse_duration_us
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home, add_json, event_times, positive
from pipelines.cli.view_list import document, extent

HELP = "keep a named part of a stream for queries"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa view make`."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--stream", required=True, metavar="STREAM", help="of the home")
    records = "the last N final records; the view moves on with the stream"
    parser.add_argument("--records", type=positive, metavar="N", help=records)
    last = "the last event time, such as 7d, before the end of what is final"
    parser.add_argument("--last", metavar="DURATION", help=last)
    parser.add_argument("--from", dest="from_", metavar="TIME", help="event time, of a range")
    parser.add_argument("--to", metavar="TIME", help="event time, exclusive (default: no end)")
    growing = "if less is kept now, begin with that and grow with the stream"
    parser.add_argument("--growing", action="store_true", help=growing)
    hold = "for how long it is kept after each use (default: 30d)"
    parser.add_argument("--hold", metavar="DURATION", default="30d", help=hold)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Make the view and print it."""
    from medusa_core.views import view_hold_ms_of
    from pipelines.operations.stream_views import ViewRequest, make_view

    view = make_view(
        settings,
        ViewRequest(
            participant=options.participant,
            name=options.name,
            stream=options.stream,
            records=options.records,
            duration_us=None if options.last is None else parse_duration_us(options.last),
            part=event_times(options.from_, options.to),
            hold_ms=view_hold_ms_of(options.hold),
            grows=options.growing,
        ),
    )
    if options.json:
        print(json.dumps(document(view), indent=1))
    else:
        print(f"view {view.name} keeps {extent(view)} of {view.stream}")
    return 0
