"""The backlog lane: opened for corrections that are owed after a failure has healed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from medusa_core.commits import Lane
from medusa_core.names import Participant
from medusa_core.states import State
from pipelines.commands.job import Asked, desire
from pipelines.commands.supervise import check_given_up
from pipelines.home import Home, open_home
from pipelines.orders.supervising import supervise
from pipelines.settings import Settings
from pipelines.supervising.launching import launch_of
from pipelines.supervising.opening import open_jobs
from pipelines.supervising.turn import explain_home


def owed_in(home: Home) -> list[str]:
    """A sentence for each stream of the home's own with tentative rows behind its stable prefix."""
    return [
        f"{line.stream.name} is tentative"
        for line in home.catalog.lines()
        if line.producer.participant == home.participant
        and not line.producer.is_import
        and line.tentative_us is not None
    ]


def open_backlog(
    settings: Settings, participant: Participant, *, who: str, always: bool
) -> Mapping[str, Any]:
    """Have a job correct what is owed, beside the live one, if anything is (or `always`).

    What is desired is None where there was nothing to do: where nothing is tentative, and where an
    input is still missing, which no correction can mend.
    """
    with open_home(settings, participant) as home:
        owed = owed_in(home)
        failing = [s for s in home.catalog.states() if s.state is State.UP_FAILURE]
    if not always and (not owed or failing):
        because = "; ".join(
            f"{s.fragment}: {s.because}" for s in failing
        ) or "nothing is tentative"  # fmt: skip
        return {"participant": participant, "desired": None, "because": because}
    asked = Asked(
        what="start",
        lane=Lane.BACKLOG,
        because="; ".join(owed)[:1_000] or "it was asked for",
        who=who,
    )
    with open_jobs(settings) as jobs:
        number = desire(jobs, participant, asked, renews=True)
    supervise(settings, participant)
    return {"participant": participant, "desired": number, "because": asked.because}


def backlog_standing(settings: Settings, participant: Participant, desired: int) -> str | None:
    """How corrections that were asked for have ended; None: not yet.

    Raises CheckFailed if they were given up, with the reason and the log.
    """
    launch = launch_of(settings, os.environ)
    with open_jobs(settings) as jobs:
        turn = explain_home(participant, jobs.of(participant))
        known = jobs.of(participant).read()
    check_given_up([turn], launch)
    tried = [job for job in known.jobs if job.desired == desired]
    if tried and tried[0].exit_code == 0:
        return "what was owed is corrected"
    newest = next((one for one in known.desired if one.lane is Lane.BACKLOG), None)
    if newest is None or newest.number != desired:
        return "it was asked for anew, or called off"
    return None
