"""The backlog lane: opened for corrections that are owed after a failure has healed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from medusa_core.certificates import Suite
from medusa_core.commits import Lane
from medusa_core.grid import floor_us
from medusa_core.names import Participant
from medusa_core.states import State
from medusa_core.supervising import lane_of
from pipelines.base.settings import Settings
from pipelines.homes.home import Home, open_home
from pipelines.operations.certification import CertificationRequest, certify, check_no_failures
from pipelines.operations.closed_windows import WINDOW_US
from pipelines.operations.desired_jobs import desire_job
from pipelines.operations.own_lines import computed_line, computed_lines
from pipelines.platform.jobs.launch import Launch, launch_of
from pipelines.platform.jobs.supervised_homes import open_jobs
from pipelines.platform.jobs.supervision_report import check_given_up
from pipelines.platform.jobs.supervision_tick import explain_home, supervise_home


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRequest:
    """Open the backlog lane of `participant` if corrections are owed, or `always`.

    `who` requests it, as recorded in the home.
    """

    participant: Participant
    who: str
    always: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogResult:
    """The number of the desired job, None where there was nothing to do, and the reason.

    `streams`: from which event time (us) on each stream is to be certified.
    """

    participant: Participant
    desired: int | None
    because: str
    streams: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionCertification:
    """How many checks of corrected streams passed, and their page; empty if there were none."""

    checks: int
    page: str


def owed_in(home: Home) -> dict[str, int]:
    """The home's own streams with tentative rows behind their stable prefix, from when on."""
    return {
        line.stream.name: line.tentative_us
        for line in computed_lines(home)
        if line.tentative_us is not None
    }


def _last_window(home: Home) -> dict[str, int]:
    """The home's own streams, from some time before their end on."""
    return {
        line.stream.name: max(
            line.kept_from_us, floor_us(line.stable_through_us - WINDOW_US, line.stream.width_us)
        )
        for line in computed_lines(home)
        if line.kept_from_us is not None and line.stable_through_us is not None
    }


def open_backlog(
    settings: Settings, request: BacklogRequest, environ: Mapping[str, str]
) -> BacklogResult:
    """Have a job correct what is owed, in parallel with the live job.

    There is nothing to do where nothing is tentative, and where an input is still missing, which no
    correction can mend. `backlog_status` reports whether the corrections were given up. Raises
    Refused where the environment names no master of a cluster.
    """
    participant = request.participant
    with open_home(settings, participant) as home:
        owed = owed_in(home)
        streams = owed or _last_window(home)
        failing = [s for s in home.catalog.states() if s.state is State.UP_FAILURE]
    if not request.always and (not owed or failing):
        reasons = "; ".join(f"{s.fragment}: {s.because}" for s in failing)
        return BacklogResult(
            participant=participant, desired=None, because=reasons or "nothing is tentative"
        )
    because = (", ".join(owed)[:900] + " owed") if owed else "requested"
    launch = launch_of(settings, environ)
    with open_jobs(settings) as jobs:
        number = desire_job(
            jobs, participant, Lane.BACKLOG, is_desired=True, because=because, who=request.who
        )
        supervise_home(participant, jobs.of(participant), launch)
    return BacklogResult(participant=participant, desired=number, because=because, streams=streams)


def document(result: BacklogResult) -> Mapping[str, Any]:
    """The result for JSON."""
    return {
        "participant": result.participant,
        "desired": result.desired,
        "because": result.because,
        "streams": dict(result.streams),
    }


def backlog_status(settings: Settings, participant: Participant, desired: int) -> str | None:
    """How the requested corrections have ended; None: not yet.

    Raises CheckFailed if they were given up, with the reason and the log.
    """
    with open_jobs(settings) as jobs:
        launch = Launch(settings=settings)
        tick = explain_home(participant, jobs.of(participant), launch)
        known = jobs.of(participant).read()
    corrections = [one for one in tick.pending if lane_of(one) is Lane.BACKLOG]
    check_given_up([replace(tick, pending=tuple(corrections))], launch)
    tried = [job for job in known.jobs if job.desired == desired]
    if tried and tried[0].exit_code == 0:
        return "what was owed is corrected"
    newest = next((one for one in known.desired if one.lane is Lane.BACKLOG), None)
    if newest is None or newest.number != desired:
        return "it was requested again, or cancelled"
    return None


def certify_corrected(
    settings: Settings, participant: Participant, streams: Mapping[str, int]
) -> CorrectionCertification:
    """Certify streams from when they were owed on, as far as they are final now.

    Raises CheckFailed, naming the laws that are broken, S6 apart: what was corrected had been late.
    Unavailable if one of the streams is not computed here any more.
    """
    broken: list[str] = []
    checks, page = 0, ""
    for stream, from_us in streams.items():
        with open_home(settings, participant) as home:
            line = computed_line(home, stream)
        from_us = max(from_us, line.kept_from_us or from_us)
        through_us = line.stable_through_us
        if through_us is None or through_us <= from_us:
            continue
        request = CertificationRequest(
            participant=participant, stream=stream, from_us=from_us, to_us=through_us
        )
        result = certify(settings, request)
        checks, page = checks + len(result.found), str(result.page)
        broken += [why for law, why in result.failures() if law != Suite.AVAILABILITY.law]
    check_no_failures(broken)
    return CorrectionCertification(checks=checks, page=page)
