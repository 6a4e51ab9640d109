"""Decisions of a supervisor: which jobs of a participant are started, stopped or left alone.

Pure and level-triggered: only the present state counts (the desired jobs, the open job of each
lane, earlier tries, leases, the catalog's clock), so any two supervisors decide alike, and one
that was away decides correctly at its first tick. Every decision gives its reason. That no two
drivers write is not decided here: leases ensure it.

A catalog cannot know whether a process is still running. A supervisor inspects the processes of
its own machine; of others' it knows when they last reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from medusa_core.commits import Lane
from medusa_core.errors import Conflict, Diverged, Refused
from medusa_core.restart import (
    EndSilent,
    RestartLater,
    RestartNever,
    RestartNow,
    RestartPolicy,
    decide_restart,
    decide_silence,
)
from medusa_core.supervision import DesiredJob, Job, ProcessState, Supervision

JOB_RESTARTS = RestartPolicy(back_off_ms=2_000, back_off_ms_max=300_000, failures_max=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPolicy:
    """When jobs are started again, and what else is waited for (ms).

    An intended process is made within `spawn_ms_max`, one whose stop was requested ends within
    `stop_ms_max`; another driver that has the leases is left to it for `conflict_ms` at a time.
    """

    restart: RestartPolicy = JOB_RESTARTS
    spawn_ms_max: int = 15_000
    stop_ms_max: int = 20_000
    conflict_ms: int = 10_000


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
    known: Supervision, policy: JobPolicy | None = None
) -> tuple[SupervisingDecision, ...]:
    """One decision for each lane in which something is desired or open."""
    policy = policy or JobPolicy()
    decided: list[SupervisingDecision] = []
    for lane in Lane:
        newest = next((j for j in known.jobs if j.lane is lane), None)
        desired = known.desired.get(lane)
        if newest is not None and newest.ended_at_ms is None:
            decided.append(_of_open(known, policy, newest, desired))
            continue
        former = _of_former(known, policy, lane, newest, desired)
        if former is not None:
            decided.append(former)
        elif desired is not None:
            decided.append(_of_absent(known, policy, desired))
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
    known: Supervision, policy: JobPolicy, job: Job, desired: DesiredJob | None
) -> SupervisingDecision:
    seen = known.seen[job.id]
    heard_ms = max(job.heard_at_ms or job.intended_at_ms, known.reachable_since_ms)
    if seen is ProcessState.GONE:
        return Close(job=job, because=f"process {job.pid} is gone")
    if seen is ProcessState.NONE:
        if known.now_ms - heard_ms > policy.spawn_ms_max:
            sentence = f"no process took it up within {_s(policy.spawn_ms_max)}"
            return Close(job=job, because=sentence)
        until_ms = heard_ms + policy.spawn_ms_max
        return Wait(lane=job.lane, until_ms=until_ms, because="its process is being made")
    silence = decide_silence(
        policy.restart,
        now_ms=known.now_ms,
        heard_ms=job.heard_at_ms or job.intended_at_ms,
        has_begun=job.begun_at_ms is not None,
        judged_since_ms=known.reachable_since_ms,
    )
    if isinstance(silence, EndSilent):
        if seen is ProcessState.ELSEWHERE:
            sentence = (
                f"{job.host} was not heard of for {_s(silence.silent_ms)}; there, it ends by itself"
            )
            return Close(job=job, because=sentence)
        state = seen.value if seen is ProcessState.FROZEN else "is there"
        sentence = f"process {job.pid} {state}, and was not heard of for {_s(silence.silent_ms)}"
        return Kill(job=job, because=sentence)
    if job.stop_requested_at_ms is not None:
        until_ms = job.stop_requested_at_ms + policy.stop_ms_max
        if known.now_ms > until_ms and seen is not ProcessState.ELSEWHERE:
            sentence = f"its stop was requested {_s(known.now_ms - job.stop_requested_at_ms)} ago"
            return Kill(job=job, because=sentence)
        return Wait(lane=job.lane, until_ms=until_ms, because=f"it is stopping: {job.because}")
    if desired is None or not desired.is_desired:
        sentence = "nobody wants it" if desired is None else _desired_text(desired)
        return Stop(job=job, because=sentence)
    return Keep(lane=job.lane, because=f"process {job.pid} on {job.host} runs it")


# ------------------------------------------------------------ a lane without a job


def _of_former(
    known: Supervision,
    policy: JobPolicy,
    lane: Lane,
    last: Job | None,
    desired: DesiredJob | None,
) -> SupervisingDecision | None:
    """What to do about a process that is there although its job has ended; None if none is.

    Until it is gone no other is made: what a job has written down is not what the system has done.
    """
    if last is not None and known.seen.get(last.id) in (ProcessState.RUNS, ProcessState.FROZEN):
        until_ms = _ended_ms(last) + policy.stop_ms_max
        if known.now_ms > until_ms:
            sentence = f"its job ended {_s(known.now_ms - _ended_ms(last))} ago"
            return Kill(job=last, because=f"process {last.pid} is there, and {sentence}")
        sentence = f"process {last.pid} of job {last.id} has yet to end"
        return Wait(lane=lane, until_ms=until_ms, because=sentence)
    if lane not in known.occupied or desired is None or not desired.is_desired:
        return None
    ended_ms = 0 if last is None else _ended_ms(last)
    since_ms = max(known.now_ms - known.occupied[lane], ended_ms)
    until_ms = since_ms + policy.restart.start_ms_max
    if known.now_ms > until_ms:
        sentence = f"for {_s(known.now_ms - since_ms)} a process has been there that no job names"
        return GiveUp(lane=lane, because=f"{sentence}: find it, and end it")
    sentence = "a process that no job names has yet to end"
    return Wait(lane=lane, until_ms=until_ms, because=sentence)


def _of_absent(known: Supervision, policy: JobPolicy, desired: DesiredJob) -> SupervisingDecision:
    lane = desired.lane
    if not desired.is_desired:
        return Keep(lane=lane, because=f"it shall not run: {_desired_text(desired)}")
    tried = [job for job in known.jobs if job.desired == desired.number]
    last = tried[0] if tried else None
    if last is not None and last.exit_code == 0 and not desired.is_lasting:
        return Keep(lane=lane, because="it has ended well, and is done")
    if last is not None and last.exit_code == Conflict.exit_code:
        until_ms = _ended_ms(last) + policy.conflict_ms
        if known.now_ms < until_ms:
            sentence = f"job {last.id} found that another driver has its leases"
            return Wait(lane=lane, until_ms=until_ms, because=sentence)
    failures = _failures(tried, policy.restart)
    if last is not None and failures:
        text = f"exit code {last.exit_code}" if last.exit_code is not None else last.because
        if last.exit_code in _HOPELESS:
            return GiveUp(lane=lane, because=f"job {last.id} ended with {text}")
        restart = decide_restart(
            policy.restart,
            failures=failures,
            ended_ms=_ended_ms(last),
            now_ms=known.now_ms,
            was_killed=last.exit_code is None,
        )
        match restart:
            case RestartNever():
                sentence = f"{failures} jobs in a row failed, the last: {text}"
                return GiveUp(lane=lane, because=sentence)
            case RestartLater(until_ms=until_ms):
                sentence = f"{failures} in a row failed, the last: {text}"
                return Wait(lane=lane, until_ms=until_ms, because=sentence)
            case RestartNow():
                pass
            case _:
                assert_never(restart)
    own = {job.holder for job in known.jobs if job.pid is not None}
    for held in known.held:
        if held.lane is lane and not held.holder.startswith(tuple(own)):
            sentence = f"{held.holder} drives it, which no supervisor started"
            return Wait(lane=lane, until_ms=held.until_ms, because=sentence)
    return Start(desired=desired, because=_why_start(last, desired))


def _why_start(last: Job | None, desired: DesiredJob) -> str:
    if last is None:
        return _desired_text(desired)
    ended = last.because or f"exit code {last.exit_code}"
    return f"job {last.id} has ended ({ended}), and {_desired_text(desired)}"


def _failures(tried: Sequence[Job], policy: RestartPolicy) -> int:
    """How many in a row failed, up to the last; jobs are newest first.

    One that found another driver at work says nothing. One that was refused has failed, however
    long it ran.
    """
    failures = 0
    for job in reversed(tried):
        if job.exit_code == Conflict.exit_code:
            continue
        ran_ms = 0 if job.begun_at_ms is None else _ended_ms(job) - job.begun_at_ms
        if job.exit_code in _HOPELESS:
            failures += 1
        else:
            failures = policy.failures_after(failures, ran_ms)
    return failures


def _ended_ms(job: Job) -> int:
    assert job.ended_at_ms is not None, "only jobs that have ended were tried"
    return job.ended_at_ms


def _desired_text(desired: DesiredJob) -> str:
    verb = "wants it" if desired.is_desired else "does not want it"
    return f"{desired.who} {verb}: {desired.because}"


def _s(ms: int) -> str:
    return f"{ms / 1_000:g} s"
