"""Decisions of a supervisor in a line each, and as values for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medusa_core.errors import CheckFailed
from medusa_core.supervising import GiveUp, SupervisingDecision, Wait, lane_of
from medusa_core.supervision import Job
from pipelines.base.time_text import iso
from pipelines.platform.jobs.launch import Launch
from pipelines.platform.jobs.supervision_tick import SupervisionTick


def decision_line(tick: SupervisionTick, decision: SupervisingDecision) -> str:
    """Who, which lane, what, and why."""
    what = _word(decision)
    if isinstance(decision, Wait):
        what += f" {max(0, decision.until_ms - tick.now_ms) / 1_000:.0f} s"
    return f"{tick.participant} ({lane_of(decision).value}): {what}, {decision.because}"


def tick_document(tick: SupervisionTick) -> Mapping[str, Any]:
    """A tick for JSON."""
    return {
        "participant": tick.participant,
        "done": [_document(one) for one in tick.done],
        "pending": [_document(one) for one in tick.pending],
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


def check_given_up(ticks: Sequence[SupervisionTick], launch: Launch) -> None:
    """Raises CheckFailed, with reasons and logs, if something was given up."""
    problems = [
        f"{tick.participant} ({one.lane.value}) is given up, {one.because}; its output is in "
        f"{launch.log(tick.participant, one.lane)}"
        for tick in ticks
        for one in tick.given_up
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
