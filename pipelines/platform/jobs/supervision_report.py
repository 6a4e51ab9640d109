"""Decisions of a supervisor in a line each, and as values for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medusa_core.errors import CheckFailed
from medusa_core.supervising import GiveUp, SupervisingDecision, Wait, lane_of
from medusa_core.supervision import Job
from pipelines.base.time_text import iso
from pipelines.platform.jobs.launch import Launch
from pipelines.platform.jobs.supervision_tick import Turn


def decision_line(turn: Turn, decision: SupervisingDecision) -> str:
    """Who, which lane, what, and why."""
    what = _word(decision)
    if isinstance(decision, Wait):
        what += f" {max(0, decision.until_ms - turn.now_ms) / 1_000:.0f} s"
    return f"{turn.participant} ({lane_of(decision).value}): {what}, {decision.because}"


def turn_document(turn: Turn) -> Mapping[str, Any]:
    """A turn for JSON."""
    return {
        "participant": turn.participant,
        "done": [_document(one) for one in turn.done],
        "standing": [_document(one) for one in turn.standing],
    }


def job_document(job: Job) -> Mapping[str, Any]:
    """A job for JSON."""
    return {
        "job": job.id,
        "lane": job.lane.value,
        "host": job.host,
        "pid": job.pid,
        "begun_at": _at(job.begun_at_ms),
        "heard_at": _at(job.heard_at_ms),
        "ended_at": _at(job.ended_at_ms),
        "exit_code": job.exit_code,
        "because": job.because,
    }


def check_given_up(turns: Sequence[Turn], launch: Launch) -> None:
    """Raises CheckFailed, with reasons and logs, if something was given up."""
    problems = [
        f"{turn.participant} ({one.lane.value}) is given up, {one.because}; what it said is in "
        f"{launch.log(turn.participant, one.lane)}"
        for turn in turns
        for one in turn.given_up
    ]
    if problems:
        raise CheckFailed(
            "; ".join(problems) + "; mend it, then have it tried again with medusa job start"
        )


def _at(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms * 1_000)


def _word(decision: SupervisingDecision) -> str:
    return "give up" if isinstance(decision, GiveUp) else type(decision).__name__.lower()


def _document(decision: SupervisingDecision) -> Mapping[str, Any]:
    document = {"lane": lane_of(decision).value, "what": _word(decision)}
    if isinstance(decision, Wait):
        document["until"] = iso(decision.until_ms * 1_000)
    return {**document, "because": decision.because}
