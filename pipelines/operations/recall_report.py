"""What a recall has done, or would do, as the command and the form of a DAG tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.suggest import counted
from pipelines.base.text_table import table
from pipelines.base.time_text import iso

if TYPE_CHECKING:
    from medusa_core.recalls import RecallResult
    from pipelines.operations.stream_recall import StreamRecallResult


def document(result: StreamRecallResult) -> Mapping[str, Any]:
    """The result for JSON."""
    return {
        "participant": result.participant,
        "explained": not result.is_done,
        "because": result.because,
        "who": result.who,
        "follows": result.follows,
        "lines": [_line(one) for one in result.lines],
    }


def outcome(result: StreamRecallResult) -> list[str]:
    """What was done and what follows, a sentence each."""
    from pipelines.participant.recalling import total_rows

    parts = []
    if any(line.from_us > result.from_us for line in result.lines):
        parts.append(
            "rows before these buckets stay: they are trimmed here, or what they were computed "
            "from is"
        )
    if not result.is_done:
        parts.append("nothing was changed")
    elif result.follows is not None:
        parts.append("agreed: it is taken back when the partner's news comes")
    else:
        parts.append(
            f"taken back: {counted(total_rows(result.lines), 'row')}; computed again from here on"
        )
    return parts


def plan_table(result: StreamRecallResult) -> str:
    """The lines that are taken back, with what they lose."""
    names = ("stream", "producer", "from", "generation", "segments", "rows")
    rows = [
        (r.stream, str(r.producer), iso(r.from_us), str(r.generation), r.segments, r.rows)
        for r in result.lines
    ]
    return table(names, rows)


def _line(one: RecallResult) -> Mapping[str, Any]:
    return {
        "stream": one.stream,
        "producer": str(one.producer),
        "generation": one.generation,
        "from_us": one.from_us,
        "from": iso(one.from_us),
        "version": one.version,
        "segments": one.segments,
        "rows": one.rows,
    }
