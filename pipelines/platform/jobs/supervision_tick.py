"""A tick of supervision over one home: read, decide, do; until there is nothing left to do.

It may be cut short anywhere and made by any number of supervisors at once. A job is started in
this order: 0 take the lane's lock, which is free once every process of the lane has ended · 1
write the intent, by one of them · 2 start the process, which has the lock from then on · 3 record
its owner · 4 the process takes the intent up. Cut between 1 and 2 nothing runs, and the intent is
closed after a while; between 2 and 3 the process itself reports its identity, or that it is too
late; no second one is started.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from medusa_core.commits import Lane
from medusa_core.errors import Conflict
from medusa_core.names import Participant
from medusa_core.supervising import (
    Close,
    GiveUp,
    JobPolicy,
    Keep,
    Kill,
    Start,
    Stop,
    SupervisingDecision,
    Wait,
    decide_supervision,
)
from medusa_core.supervision import Job, ProcessState, Supervision
from pipelines.base import clock, failpoints
from pipelines.catalog.postgres.supervision import PostgresSupervision
from pipelines.platform.jobs.job_processes import host_here, inspect_process, reap, signal_process
from pipelines.platform.jobs.lane_lock import occupied_ms, reserved
from pipelines.platform.jobs.launch import Launch

ROUNDS_MAX = 12
"""More than it takes to end a job of each lane and start another."""

LOOK_S, LOOKS_MAX = 0.02, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionTick:
    """What was done, in order, and how it stands with each lane now, at a time of its clock."""

    participant: Participant
    done: tuple[SupervisingDecision, ...]
    pending: tuple[SupervisingDecision, ...]
    now_ms: int

    @property
    def given_up(self) -> tuple[GiveUp, ...]:
        """What a person has to look at."""
        return tuple(one for one in self.pending if isinstance(one, GiveUp))

    @property
    def due_ms(self) -> int | None:
        """After how long something that is waited for is due; None if nothing is."""
        waits = [one.until_ms - self.now_ms for one in self.pending if isinstance(one, Wait)]
        return max(min(waits), 0) if waits else None


def supervise_home(
    participant: Participant,
    jobs: PostgresSupervision,
    launch: Launch,
    policy: JobPolicy | None = None,
) -> SupervisionTick:
    """Make what runs of a participant what shall run.

    Raises Unavailable if the catalog is away, or a process cannot be made or ended.
    """
    done: list[SupervisingDecision] = []
    for _ in range(ROUNDS_MAX):
        known = read_supervision(participant, jobs, launch.settings.directory)
        decided = decide_supervision(known, policy)
        acts = [one for one in decided if not isinstance(one, Keep | Wait | GiveUp)]
        if not acts:
            break
        for decision in acts:
            try:
                _apply(participant, jobs, launch, decision)
            except Conflict:
                continue  # another supervisor was first: what stands now is read again
            done.append(decision)
    return SupervisionTick(
        participant=participant, done=tuple(done), pending=decided, now_ms=known.now_ms
    )


def explain_home(
    participant: Participant, jobs: PostgresSupervision, launch: Launch
) -> SupervisionTick:
    """What would be done now; nothing is."""
    known = read_supervision(participant, jobs, launch.settings.directory)
    decided = decide_supervision(known)
    return SupervisionTick(participant=participant, done=(), pending=decided, now_ms=known.now_ms)


def read_supervision(
    participant: Participant, jobs: PostgresSupervision, directory: Path
) -> Supervision:
    """What the home says, and what is to be seen of its jobs' processes from here."""
    reap()
    rows = jobs.read()
    newest = {job.lane: job for job in reversed(rows.jobs)}
    return Supervision(
        now_ms=rows.now_ms,
        reachable_since_ms=rows.reachable_since_ms,
        desired={one.lane: one for one in rows.desired},
        jobs=rows.jobs,
        seen={job.id: inspect_process(job) for job in newest.values()},
        held=rows.held,
        occupied={
            lane: ms
            for lane in Lane
            if (lane not in newest or newest[lane].ended_at_ms is not None)
            and (ms := occupied_ms(directory, participant, lane)) is not None
        },
    )


def _apply(
    participant: Participant,
    jobs: PostgresSupervision,
    launch: Launch,
    decision: Start | Stop | Kill | Close,
) -> None:
    match decision:
        case Start(desired=desired):
            with reserved(launch.settings.directory, participant, desired.lane) as lock:  # 0
                job = jobs.intend(desired.number, f"{host_here()}-{os.getpid()}")  # 1
                failpoints.reached("supervise.intended")
                process = launch.make(participant, desired, job, lock)  # 2
            failpoints.reached("supervise.spawned")
            is_ours = jobs.take_up(  # 3
                job, process.host, process.pid, process.started, begins=False
            )
            if not is_ours:
                signal_process(process, signal.SIGKILL)
        case Stop(job=job_, because=because):
            jobs.stop(job_.id, because)
            signal_process(job_, signal.SIGTERM)
        case Kill(job=job_, because=because):
            jobs.stop(job_.id, because)
            signal_process(job_, signal.SIGKILL)
            _let_go(job_)
        case Close(job=job_, because=because):
            jobs.end(job_.id, None, because)


def _let_go(job: Job) -> None:
    """Give a process that was killed a moment to be gone; the next round looks."""
    for _ in range(LOOKS_MAX):
        if inspect_process(job) not in (ProcessState.RUNS, ProcessState.FROZEN):
            return
        clock.sleep_s(LOOK_S)
