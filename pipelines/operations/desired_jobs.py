"""Desired jobs of participants, recorded in their homes for supervisors to read."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medusa_core.commits import Lane
from medusa_core.names import Participant
from medusa_core.supervision import DesiredJob, Job
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.platform.jobs.supervised_homes import JobsOfHomes, known_participants, open_jobs
from pipelines.platform.jobs.supervision_report import job_document


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """Start (`is_desired`) or stop the jobs of participants in a lane, all of the folder if none.

    `until_ended`: the job is done when all streams have ended, and is not started again.
    `because`: the reason, recorded in the homes with `who` (None: the user of this process).
    `renews`: starting a job that is desired already gives one that was given up another try.
    `is_once`: of one `who` the first request counts, even if it changed nothing; a participant that
    has it is left alone.
    """

    participants: tuple[str, ...] = ()
    is_desired: bool
    lane: Lane = Lane.LIVE
    until_ended: bool = False
    because: str
    who: str | None = None
    renews: bool = True
    is_once: bool = False

    def sentence(self, participant: Participant) -> str:
        """What is desired of one of the participants, and when it begins."""
        shall = "shall run" if self.is_desired else "shall not run"
        return f"{participant} ({self.lane.value}) {shall}, as soon as a supervisor looks"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """What is desired of a participant, and its jobs, newest first."""

    participant: Participant
    desired: tuple[DesiredJob, ...]
    jobs: tuple[Job, ...]


def desire_jobs(settings: Settings, request: JobRequest) -> tuple[Participant, ...]:
    """Record that jobs shall run, or not; supervisors start and stop them.

    Returns the participants of which it was recorded. Raises Refused for an unknown one,
    Unavailable if a home cannot be reached.
    """
    participants = known_participants(settings, request.participants)
    done = []
    with open_jobs(settings) as jobs:
        for participant in participants:
            if request.is_once and _has_desired(jobs, participant, request):
                continue
            desire_job(
                jobs,
                participant,
                request.lane,
                is_desired=request.is_desired,
                until_ended=request.until_ended,
                because=request.because,
                who=request.who,
                renews=request.is_once or (request.renews and request.is_desired),
            )
            done.append(participant)
    return tuple(done)


def _has_desired(jobs: JobsOfHomes, participant: Participant, request: JobRequest) -> bool:
    return jobs.of(participant).is_desired_by(request.lane, request.who or _user())


def list_jobs(settings: Settings, participants: Sequence[str] = ()) -> tuple[JobStatus, ...]:
    """The desired jobs and the jobs of participants; raises as `desire_jobs` does."""
    names = known_participants(settings, participants)
    with open_jobs(settings) as jobs:
        known = [(name, jobs.of(name).read()) for name in names]
    return tuple(
        JobStatus(participant=name, desired=tuple(one.desired), jobs=tuple(one.jobs))
        for name, one in known
    )


def document(statuses: Sequence[JobStatus]) -> list[Mapping[str, Any]]:
    """The jobs for JSON."""
    return [
        {
            "participant": status.participant,
            "desired": [
                {
                    "lane": one.lane.value,
                    "is_desired": one.is_desired,
                    "is_lasting": one.is_lasting,
                    "since": iso(one.since_ms * 1_000),
                    "who": one.who,
                    "because": one.because,
                }
                for one in status.desired
            ],
            "jobs": [job_document(job) for job in status.jobs],
        }
        for status in statuses
    ]


def desire_job(
    jobs: JobsOfHomes,
    participant: Participant,
    lane: Lane,
    *,
    is_desired: bool,
    until_ended: bool = False,
    because: str,
    who: str | None = None,
    renews: bool = True,
) -> int:
    """Record whether a job shall run in a lane; returns the number of the entry.

    `who` is the user of this process if it is None. The same again is recorded if it `renews`.
    """
    return jobs.of(participant).desire(
        lane,
        is_desired=is_desired,
        is_lasting=lane is Lane.LIVE and not until_ended,
        because=because,
        who=who or _user(),
        renews=renews,
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "a user without a name"
