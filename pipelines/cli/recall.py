"""`medusa recall`: recall final rows of a stream, with everything that was computed from them.

The plan is printed first. Without --yes the command asks; where there is no terminal it refuses.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.time_text import parse_time_us
from pipelines.cli.agreement import is_agreed
from pipelines.cli.arguments import add_home, add_json
from pipelines.operations.recall_report import document, outcome, plan_table

if TYPE_CHECKING:
    from pipelines.operations.stream_recall import StreamRecallResult

HELP = "recall final rows of a stream, with everything computed from them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa recall`."""
    parser.add_argument("stream", metavar="STREAM")
    begins = "recall from this bucket on: ISO 8601 or Unix seconds"
    parser.add_argument("--from", dest="from_", metavar="TIME", required=True, help=begins)
    why = "the reason, in a sentence; it is kept and sent to the readers of the stream"
    parser.add_argument("--because", metavar="TEXT", help=why)
    partner = "agree to the recall of this partner, and read its line again from there on"
    parser.add_argument("--follow", metavar="P", help=partner)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    explain = "print what would be recalled, change nothing"
    parser.add_argument("--explain", action="store_true", help=explain)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Recall, or with --explain print the plan."""
    from pipelines.operations.stream_recall import StreamRecallRequest, prepare_recall

    request = StreamRecallRequest(
        participant=options.participant,
        stream=options.stream,
        from_us=parse_time_us("--from", options.from_),
        because=options.because,
        follow=options.follow,
    )
    with prepare_recall(settings, request) as prepared:
        result = prepared.plan
        if not options.explain:
            if not options.yes and not _is_agreed(options.stream, result):
                print("nothing was changed")
                return 0
            result = prepared.carry_out()
    if options.json:
        print(json.dumps(document(result), indent=1, allow_nan=False))
    else:
        print(render(result))
    return 0


def _is_agreed(stream: str, plan: StreamRecallResult) -> bool:
    from pipelines.participant.recalling import total_rows

    rows = counted(total_rows(plan.lines), "row")
    effect = f"recalling {stream} takes back {rows} that were final"
    return is_agreed(plan_table(plan), "take this back?", effect)


def render(result: StreamRecallResult) -> str:
    """The result for a terminal."""
    return "\n".join([plan_table(result), "", *outcome(result)])
