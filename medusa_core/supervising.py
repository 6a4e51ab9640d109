"""What shall run and what runs: which jobs of a participant are started, stopped or left alone.

Pure and level-triggered: only what stands now counts (what is desired, the open job of each lane,
those tried before, leases, the catalog's clock), so any two supervisors decide alike, and one that
was away decides right at its first look. Every decision says why. That no two drivers write is not
decided here: leases see to it.

The one thing that a catalog cannot tell is what became of a process; a supervisor looks at those of
its own machine, and of others' it knows when they were last heard of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from medusa_core.commits import Lane
from medusa_core.errors import Conflict, Diverged, Refused
from medusa_core.restart import back_off_ms
from medusa_core.supervision import DesiredJob, Job, Seen, Supervision


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long what is waited for (ms).

    A process that was made says that it is there within `begin_ms_max`, and then every
    `quiet_ms_max`. After `failures_max` jobs in a row that did not run for `ran_well_ms` it is
    given up.
    """

    spawn_ms_max: int = 15_000
    begin_ms_max: int = 120_000
    quiet_ms_max: int = 30_000
    stop_ms_max: int = 20_000
    ran_well_ms: int = 60_000
    back_off_ms: int = 2_000
    back_off_ms_max: int = 300_000
    conflict_ms: int = 10_000
    failures_max: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Make a process for what is desired."""

    desired: DesiredJob
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ask a job's process to end."""

    job: Job
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End a job's process at once."""

    job: Job
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Write down that a job has ended."""

    job: Job
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """It is as it shall be."""

    lane: Lane
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Look again at that time of the catalog's clock."""

    lane: Lane
    until_ms: int
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """A person has to look; only what is desired anew is tried again."""

    lane: Lane
    because: str


SupervisingDecision = Start | Stop | Kill | Close | Keep | Wait | GiveUp

_HOPELESS = (Refused.exit_code, Diverged.exit_code)


def decide_supervision(
    known: Supervision, patience: Patience | None = None
) -> tuple[SupervisingDecision, ...]:
    """One decision for each lane in which something is desired or open."""
    patience = patience or Patience()
    decided: list[SupervisingDecision] = []
    for lane in Lane:
        newest = next((j for j in known.jobs if j.lane is lane), None)
        desired = known.desired.get(lane)
        if newest is not None and newest.ended_at_ms is None:
            decided.append(_of_open(known, patience, newest, desired))
            continue
        former = _of_former(known, patience, lane, newest, desired)
        if former is not None:
            decided.append(former)
        elif desired is not None:
            decided.append(_of_absent(known, patience, desired))
    return tuple(decided)


def lane_of(decision: SupervisingDecision) -> Lane:
    """Which lane it is about."""
    match decision:
        case Start():
            return decision.desired.lane
        case Stop() | Kill() | Close():
            return decision.job.lane
        case Keep() | Wait() | GiveUp():
            return decision.lane
        case _:
            assert_never(decision)


# ------------------------------------------------------------ a job that is open


def _of_open(
    known: Supervision, patience: Patience, job: Job, desired: DesiredJob | None
) -> SupervisingDecision:
    seen = known.seen[job.id]
    heard_ms = max(job.heard_at_ms or job.intended_at_ms, known.reachable_since_ms)
    quiet_ms = known.now_ms - heard_ms
    if seen is Seen.GONE:
        return Close(job=job, because=f"process {job.pid} is gone")
    if seen is Seen.NONE:
        if quiet_ms > patience.spawn_ms_max:
            said = f"no process took it up within {_s(patience.spawn_ms_max)}"
            return Close(job=job, because=said)
        until_ms = heard_ms + patience.spawn_ms_max
        return Wait(lane=job.lane, until_ms=until_ms, because="its process is being made")
    has_begun = job.begun_at_ms is not None
    if quiet_ms > (patience.quiet_ms_max if has_begun else patience.begin_ms_max):
        if seen is Seen.ELSEWHERE:
            said = f"{job.host} was not heard of for {_s(quiet_ms)}; there, it ends by itself"
            return Close(job=job, because=said)
        stands = seen.value if seen is Seen.FROZEN else "is there"
        said = f"process {job.pid} {stands}, and was not heard of for {_s(quiet_ms)}"
        return Kill(job=job, because=said)
    if job.stop_asked_at_ms is not None:
        until_ms = job.stop_asked_at_ms + patience.stop_ms_max
        if known.now_ms > until_ms and seen is not Seen.ELSEWHERE:
            said = f"it was asked to stop {_s(known.now_ms - job.stop_asked_at_ms)} ago"
            return Kill(job=job, because=said)
        return Wait(lane=job.lane, until_ms=until_ms, because=f"it is stopping: {job.because}")
    if desired is None or not desired.is_wanted:
        said = "nobody wants it" if desired is None else _said(desired)
        return Stop(job=job, because=said)
    return Keep(lane=job.lane, because=f"process {job.pid} on {job.host} runs it")


# ------------------------------------------------------------ a lane without a job


def _of_former(
    known: Supervision,
    patience: Patience,
    lane: Lane,
    last: Job | None,
    desired: DesiredJob | None,
) -> SupervisingDecision | None:
    """What to do about a process that is there although its job has ended; None if none is.

    Until it is gone no other is made: what a job has written down is not what the system has done.
    """
    if last is not None and known.seen.get(last.id) in (Seen.RUNS, Seen.FROZEN):
        until_ms = _ended_ms(last) + patience.stop_ms_max
        if known.now_ms > until_ms:
            said = f"its job ended {_s(known.now_ms - _ended_ms(last))} ago"
            return Kill(job=last, because=f"process {last.pid} is there, and {said}")
        said = f"process {last.pid} of job {last.id} has yet to end"
        return Wait(lane=lane, until_ms=until_ms, because=said)
    if lane not in known.occupied or desired is None or not desired.is_wanted:
        return None
    ended_ms = 0 if last is None else _ended_ms(last)
    since_ms = max(known.now_ms - known.occupied[lane], ended_ms)
    until_ms = since_ms + patience.begin_ms_max
    if known.now_ms > until_ms:
        said = f"for {_s(known.now_ms - since_ms)} a process has been there that no job names"
        return GiveUp(lane=lane, because=f"{said}: find it, and end it")
    said = "a process that no job names has yet to end"
    return Wait(lane=lane, until_ms=until_ms, because=said)


def _of_absent(known: Supervision, patience: Patience, desired: DesiredJob) -> SupervisingDecision:
    lane = desired.lane
    if not desired.is_wanted:
        return Keep(lane=lane, because=f"it shall not run: {_said(desired)}")
    tried = [job for job in known.jobs if job.desired == desired.number]
    last = tried[0] if tried else None
    if last is not None and last.exit_code == 0 and not desired.is_lasting:
        return Keep(lane=lane, because="it has ended well, and is done")
    if last is not None and last.exit_code == Conflict.exit_code:
        until_ms = _ended_ms(last) + patience.conflict_ms
        if known.now_ms < until_ms:
            said = f"job {last.id} found that another driver has its leases"
            return Wait(lane=lane, until_ms=until_ms, because=said)
    failures = _failures(tried, patience)
    if last is not None and failures:
        told = f"exit code {last.exit_code}" if last.exit_code is not None else last.because
        if last.exit_code in _HOPELESS:
            return GiveUp(lane=lane, because=f"job {last.id} ended with {told}")
        if failures >= patience.failures_max:
            return GiveUp(lane=lane, because=f"{failures} jobs in a row failed, the last: {told}")
        until_ms = _ended_ms(last) + _back_off_ms(last, failures, patience)
        if known.now_ms < until_ms:
            said = f"{failures} in a row failed, the last: {told}"
            return Wait(lane=lane, until_ms=until_ms, because=said)
    own = {job.holder for job in known.jobs if job.pid is not None}
    for held in known.held:
        if held.lane is lane and not held.holder.startswith(tuple(own)):
            said = f"{held.holder} drives it, which no supervisor started"
            return Wait(lane=lane, until_ms=held.until_ms, because=said)
    return Start(desired=desired, because=_why_start(last, desired))


def _why_start(last: Job | None, desired: DesiredJob) -> str:
    if last is None:
        return _said(desired)
    ended = last.because or f"exit code {last.exit_code}"
    return f"job {last.id} has ended ({ended}), and {_said(desired)}"


def _failures(tried: Sequence[Job], patience: Patience) -> int:
    """How many in a row, up to the last, ended without having run well.

    One that found another driver at work is none.
    """
    count = 0
    for job in tried:
        if job.exit_code == Conflict.exit_code:
            continue
        began_ms = job.begun_at_ms
        ran_ms = 0 if began_ms is None else _ended_ms(job) - began_ms
        was_hopeless = job.exit_code in _HOPELESS
        if ran_ms >= patience.ran_well_ms and not was_hopeless:
            break
        count += 1
    return count


def _back_off_ms(last: Job, failures: int, patience: Patience) -> int:
    if failures == 1 and last.exit_code is None:
        return 0  # killed, or its machine: what is away at its first failure comes back at once
    return back_off_ms(failures, first_ms=patience.back_off_ms, most_ms=patience.back_off_ms_max)


def _ended_ms(job: Job) -> int:
    assert job.ended_at_ms is not None, "only jobs that have ended were tried"
    return job.ended_at_ms


def _said(desired: DesiredJob) -> str:
    verb = "wants it" if desired.is_wanted else "does not want it"
    return f"{desired.who} {verb}: {desired.because}"


def _s(ms: int) -> str:
    return f"{ms / 1_000:g} s"
