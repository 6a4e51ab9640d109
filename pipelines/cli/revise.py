"""`medusa revise`: add, remove or replace final records of a source, and nothing else; or follow
the revisions that a partner has made of a stream.

The plan is printed first. Without --yes the command asks; where there is no terminal it refuses.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.cli.agreement import is_agreed
from pipelines.cli.arguments import add_home, add_json
from pipelines.operations.revision_report import (
    NOTHING_CHANGED,
    document,
    document_followed,
    followed_outcome,
    followed_table,
    outcome,
    plan_table,
)

if TYPE_CHECKING:
    from pipelines.operations.stream_revision import StreamRevisionResult

HELP = "add, remove or replace final records of a source, and compute what needs them again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa revise`."""
    parser.add_argument("stream", metavar="STREAM")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--add", metavar="FILE", help="add the records of this file")
    action.add_argument("--remove", metavar="FILE", help="remove the records of this file")
    replace = "let the records of this file be all that the buckets hold which they lie in"
    action.add_argument("--replace", metavar="FILE", help=replace)
    partner = "agree to what this partner has revised, and take it over"
    action.add_argument("--follow", metavar="P", help=partner)
    why = "the reason, in a sentence; it is kept and shown to the readers of the stream"
    parser.add_argument("--because", metavar="TEXT", help=why)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    explain = "print what would be revised, change nothing"
    parser.add_argument("--explain", action="store_true", help=explain)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Revise, or with --explain print the plan."""
    if options.follow is not None:
        return _follow(options, settings)
    from pipelines.operations.stream_revision import StreamRevisionRequest, prepare_revision
    from pipelines.participant.revising import RevisionAction

    action = next(a for a in RevisionAction if getattr(options, a.value) is not None)
    request = StreamRevisionRequest(
        participant=options.participant,
        stream=options.stream,
        action=action,
        file=Path(getattr(options, action.value)),
        because=options.because,
    )
    with prepare_revision(settings, request) as prepared:
        result = prepared.plan
        if not options.explain:
            if not options.yes and not _is_agreed(result):
                print(NOTHING_CHANGED)
                return 0
            result = prepared.carry_out()
    if options.json:
        print(json.dumps(document(result), indent=1, allow_nan=False))
    else:
        print(render(result))
    return 0


def _follow(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.operations.revision_following import RevisionFollowRequest, prepare_following

    request = RevisionFollowRequest(
        participant=options.participant,
        stream=options.stream,
        follow=options.follow,
        because=options.because,
    )
    with prepare_following(settings, request) as prepared:
        result = prepared.plan
        if not options.explain:
            effect = f"following {result.partner} replaces rows of {result.stream} that were final"
            if not options.yes and not is_agreed(followed_table(result), "follow it?", effect):
                print(NOTHING_CHANGED)
                return 0
            result = prepared.carry_out()
    if options.json:
        print(json.dumps(document_followed(result), indent=1, allow_nan=False))
    else:
        print(f"{followed_table(result)}\n\n{followed_outcome(result)}")
    return 0


def _is_agreed(plan: StreamRevisionResult) -> bool:
    rows = counted(plan.rows_before, "row")
    effect = f"revising {plan.stream} replaces {rows} that were final"
    return is_agreed(plan_table(plan), "revise this?", effect)


def render(result: StreamRevisionResult) -> str:
    """The result for a terminal."""
    return f"{plan_table(result)}\n\n{outcome(result)}"
