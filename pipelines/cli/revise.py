"""`medusa revise`: add, remove or replace final records of a source, and nothing else; or follow
the revisions that a partner has made of a stream.

The plan is printed first. Without --yes the command asks; where there is no terminal it refuses.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.agreement import is_agreed
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from medusa_core.line_revisions import RevisionReach
    from pipelines.operations.revision_following import RevisionFollowResult
    from pipelines.operations.stream_revision import StreamRevisionResult

HELP = "add, remove or replace final records of a source, and compute what needs them again"
NOTHING_CHANGED = "nothing was changed"


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


def followed_outcome(result: RevisionFollowResult) -> str:
    """What was agreed to and what follows, in a sentence."""
    if not result.is_done:
        return NOTHING_CHANGED
    return (
        f"agreed up to generation {result.generation}: the copy is revised when the partner's "
        "news arrives"
    )


def document_followed(result: RevisionFollowResult) -> Mapping[str, Any]:
    """The agreement for JSON."""
    return {
        "participant": result.participant,
        "partner": result.partner,
        "stream": result.stream,
        "explained": not result.is_done,
        "because": result.because,
        "who": result.who,
        "follows": result.generation,
        "ranges": [{"from": iso(p.from_us), "to": iso(p.to_us)} for p in result.ranges],
        "behind": _behind(result.behind),
    }


def followed_table(result: RevisionFollowResult) -> str:
    """What the partner revised, and what may be computed again here."""
    ranges = counted(len(result.ranges), "range")
    what = f"revised by {result.partner}: {result.because}"
    rows = [(str(result.stream), iso(result.ranges[0].from_us), ranges, what)]
    return table(("stream", "from", "size", "what"), [*rows, *_rows_behind(result.behind)])


def _behind(reach: RevisionReach) -> list[Mapping[str, Any]]:
    return [
        {"stream": one.stream, "from": iso(one.from_us), "buckets": one.buckets}
        for one in reach.streams
    ]


def _rows_behind(reach: RevisionReach) -> list[tuple[str, str, str, str]]:
    again = "may be computed again"
    return [
        (one.stream, iso(one.from_us), counted(one.buckets, "bucket"), again)
        for one in reach.streams
    ]


def _is_agreed(plan: StreamRevisionResult) -> bool:
    rows = counted(plan.rows_before, "row")
    effect = f"revising {plan.stream} replaces {rows} that were final"
    return is_agreed(plan_table(plan), "revise this?", effect)


def document(result: StreamRevisionResult) -> Mapping[str, Any]:
    """The result for JSON."""
    done = result.done
    return {
        "participant": result.participant,
        "stream": result.stream,
        "explained": done is None,
        "because": result.because,
        "who": result.who,
        "generation": None if done is None else done.generation,
        "version": None if done is None else done.version,
        "ranges": [{"from": iso(p.from_us), "to": iso(p.to_us)} for p in result.ranges],
        "rows_before": result.rows_before,
        "rows_after": result.rows_after,
        "behind": _behind(result.behind),
    }


def render(result: StreamRevisionResult) -> str:
    """The result for a terminal."""
    return f"{plan_table(result)}\n\n{outcome(result)}"


def outcome(result: StreamRevisionResult) -> str:
    """What was done, in a sentence."""
    done = result.done
    if done is None:
        return NOTHING_CHANGED
    return f"revised: generation {done.generation}, version {done.version}"


def plan_table(result: StreamRevisionResult) -> str:
    """The buckets that are replaced, and what may be computed again."""
    own = f"{counted(result.rows_before, 'row')} before, {counted(result.rows_after, 'row')} after"
    ranges = counted(len(result.ranges), "range")
    rows = [(str(result.stream), iso(result.ranges[0].from_us), ranges, own)]
    return table(("stream", "from", "size", "what"), [*rows, *_rows_behind(result.behind)])
