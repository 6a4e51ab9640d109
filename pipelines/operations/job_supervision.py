"""Supervise jobs: start and stop the jobs of participants as they are desired.

Any number of supervisors may run at once, here and elsewhere: none starts a second job. Jobs
outlive them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from medusa_core.commits import Lane
from medusa_core.errors import Conflict, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.homes.home import known_homes
from pipelines.platform.jobs.launch import Launch, launch_of
from pipelines.platform.jobs.supervised_homes import (
    JobsOfHomes,
    known_participant,
    known_participants,
    open_jobs,
)
from pipelines.platform.jobs.supervision_report import check_given_up, decision_line, tick_document
from pipelines.platform.jobs.supervision_tick import SupervisionTick, explain_home, supervise_home

EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionRequest:
    """Supervise `participant`, or all of the folder if None.

    `every_s`: the pause between two iterations. `lease_s`: how long the leases of jobs last (None:
    as long as those of `medusa run`).
    """

    participant: str | None = None
    every_s: float = EVERY_S
    lease_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionResult:
    """What was done in one iteration over the homes, or would be."""

    ticks: tuple[SupervisionTick, ...]
    launch: Launch

    @property
    def due_ms(self) -> int | None:
        """After how many ms the next thing is due that is waited for; None if nothing is."""
        dues = [tick.due_ms for tick in self.ticks if tick.due_ms is not None]
        return min(dues, default=None)

    def lines(self) -> list[str]:
        """The decisions, a line each."""
        return [
            decision_line(tick, one) for tick in self.ticks for one in (*tick.done, *tick.pending)
        ]

    def check(self) -> None:
        """Raises CheckFailed, with the reason and the log, if a job was given up."""
        check_given_up(self.ticks, self.launch)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsChanged:
    """Jobs of a home were started or stopped."""

    result: SupervisionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGivenUp:
    """A job was given up: a sentence with the reason and the log, reported once."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HomesUnavailable:
    """No home could be reached; supervision tries again."""

    sentence: str


SupervisionEvent = JobsChanged | JobGivenUp | HomesUnavailable
Observer = Callable[[SupervisionEvent], None]


def supervise_once(
    settings: Settings,
    request: SupervisionRequest,
    environ: Mapping[str, str],
    *,
    explain: bool = False,
) -> SupervisionResult:
    """One iteration over the homes; with `explain` nothing is started or stopped.

    `environ` names the master of a cluster, if there is one. Raises Refused for an unknown
    participant, where there is no home, and for a master that is not valid; Unavailable if a home
    cannot be reached or a process cannot be started.
    """
    chosen, launch = _checked(settings, request, environ)
    step = explain_home if explain else supervise_home
    with open_jobs(settings) as jobs:
        ticks = [step(name, jobs.of(name), launch) for name in _names(settings, chosen)]
    return SupervisionResult(ticks=tuple(ticks), launch=launch)


def supervise_forever(
    settings: Settings,
    request: SupervisionRequest,
    environ: Mapping[str, str],
    observer: Observer,
) -> NoReturn:
    """Iterate until interrupted; raises Refused as `supervise_once` does."""
    chosen, launch = _checked(settings, request, environ)
    reported: set[str] = set()
    while True:
        try:
            with open_jobs(settings) as jobs:
                while True:
                    _iterate(_names(settings, chosen), jobs, launch, reported, observer)
                    clock.sleep_s(request.every_s)
        except Unavailable as error:
            observer(HomesUnavailable(sentence=str(error)))
            clock.sleep_s(request.every_s)


def document(result: SupervisionResult) -> list[Mapping[str, Any]]:
    """The result for JSON."""
    return [tick_document(tick) for tick in result.ticks]


def lane_is_held(settings: Settings, participant: Participant, lane: Lane) -> bool:
    """Whether a driver holds the leases of a participant's lane now."""
    with open_jobs(settings) as jobs:
        return any(held.lane is lane for held in jobs.of(participant).read().held)


def _checked(
    settings: Settings, request: SupervisionRequest, environ: Mapping[str, str]
) -> tuple[Participant | None, Launch]:
    chosen = None
    if request.participant is None:
        known_participants(settings)  # refused while there is none
    else:
        chosen = known_participant(settings, request.participant)
    return chosen, launch_of(settings, environ, lease_s=request.lease_s)


def _names(settings: Settings, chosen: Participant | None) -> list[Participant]:
    return sorted(known_homes(settings.directory)) if chosen is None else [chosen]


def _iterate(
    names: list[Participant],
    jobs: JobsOfHomes,
    launch: Launch,
    reported: set[str],
    observer: Observer,
) -> None:
    """Supervise each home; Unavailable if none of them could be reached."""
    away: list[Unavailable] = []
    for name in names:
        try:
            tick = supervise_home(name, jobs.of(name), launch)
        except Conflict:
            continue
        except Unavailable as error:
            away.append(error)
            continue
        if tick.done:
            observer(JobsChanged(result=SupervisionResult(ticks=(tick,), launch=launch)))
        for one in tick.given_up:
            sentence = f"{decision_line(tick, one)}; see {launch.log(name, one.lane)}"
            if sentence not in reported:
                reported.add(sentence)
                observer(JobGivenUp(sentence=sentence))
    if away and len(away) == len(names):
        raise away[0]
