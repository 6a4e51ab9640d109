"""What a revision, or following one, has done or would do, as the command and the form of a DAG
tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.suggest import counted
from pipelines.base.text_table import table
from pipelines.base.time_text import iso

if TYPE_CHECKING:
    from medusa_core.line_revisions import RevisionReach
    from pipelines.operations.revision_following import RevisionFollowResult
    from pipelines.operations.stream_revision import StreamRevisionResult

NOTHING_CHANGED = "nothing was changed"


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
