"""What shall run of a participant, written down in its home for supervisors to read."""

from __future__ import annotations

import getpass

from medusa_core.commits import Lane
from medusa_core.names import Participant
from pipelines.platform.jobs.supervised_homes import JobsOfHomes


def desire_job(
    jobs: JobsOfHomes,
    participant: Participant,
    lane: Lane,
    *,
    is_wanted: bool,
    until_ended: bool = False,
    because: str,
    who: str | None = None,
    renews: bool = True,
) -> int:
    """Write down whether a job shall run in a lane; returns the number of the entry.

    `who` is the user of this process if it is None.
    """
    return jobs.of(participant).desire(
        lane,
        is_wanted=is_wanted,
        is_lasting=lane is Lane.LIVE and not until_ended,
        because=because,
        who=who or _user(),
        renews=renews and is_wanted,
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody without a name"
