"""One look at what shall run of a participant, and at who drives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medusa_core.commits import Lane
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.platform.jobs.launch import launch_of
from pipelines.platform.jobs.supervised_homes import open_jobs
from pipelines.platform.jobs.supervision_report import check_given_up, decision_line, turn_document
from pipelines.platform.jobs.supervision_tick import supervise_home


def supervise(
    settings: Settings, participant: Participant, environ: Mapping[str, str]
) -> Mapping[str, Any]:
    """Start and stop jobs of a participant as they are desired; `due_ms` tells after how long
    something that is waited for is due, None if nothing is.

    Raises CheckFailed, with the reason and the log, if something was given up.
    """
    launch = launch_of(settings, environ)
    with open_jobs(settings) as jobs:
        turn = supervise_home(participant, jobs.of(participant), launch)
    check_given_up([turn], launch)
    lines = [decision_line(turn, one) for one in (*turn.done, *turn.standing)]
    return {**turn_document(turn), "said": lines, "due_ms": turn.due_ms}


def lane_is_held(settings: Settings, participant: Participant, lane: Lane) -> bool:
    """Whether somebody drives a participant in a lane now."""
    with open_jobs(settings) as jobs:
        return any(held.lane is lane for held in jobs.of(participant).read().held)
