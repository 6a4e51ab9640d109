"""Which participants there are to supervise, and the connections to their homes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.supervision import PostgresSupervision
from pipelines.catalog.server.migrations import check_migrated
from pipelines.homes.home import Homes, known_homes, open_homes


def known_participant(settings: Settings, name: object) -> Participant:
    """The participant of a name whose home is here; Refused, with the nearest, if there is none."""
    homes = known_homes(settings.directory)
    for known in homes:
        if known == name:
            return known
    there = ", ".join(sorted(homes)) or "none"
    hint = did_you_mean(name, homes, "apply its contracts with medusa apply")
    raise Refused(
        f"there is no participant {name!r} in {settings.directory} (there: {there}): {hint}"
    )


def known_participants(settings: Settings, names: Iterable[object] = ()) -> list[Participant]:
    """The participants of these names, each once, or all of the folder if none is named.

    Refused for a name that no home has, and where there is no home at all.
    """
    found = [known_participant(settings, name) for name in dict.fromkeys(names)]
    found = found or sorted(known_homes(settings.directory))
    if not found:
        raise Refused(
            f"there is no home in {settings.directory}: apply contracts with medusa apply, or "
            "medusa_deploy"
        )
    return found


class JobsOfHomes:
    """The jobs of each home of a folder; connections are made at first use."""

    def __init__(self, homes: Homes, stack: ExitStack) -> None:
        self._homes = homes
        self._stack = stack
        self._opened: dict[Participant, PostgresSupervision] = {}

    def of(self, participant: Participant) -> PostgresSupervision:
        """The jobs of one participant; Unavailable if its home is away or lacks a migration."""
        if participant not in self._opened:
            job, airflow = (self._homes.url(participant, role) for role in ("job", "airflow"))
            if job is None or airflow is None:
                raise Unavailable(f"the home of {participant} is gone: apply its contracts again")
            check_migrated(job)
            jobs = PostgresSupervision(airflow)
            self._stack.callback(jobs.close)
            self._opened[participant] = jobs
        return self._opened[participant]


@contextmanager
def open_jobs(settings: Settings) -> Iterator[JobsOfHomes]:
    """The jobs of the folder's homes, for as long as the block lasts."""
    with open_homes(settings, alone=False) as homes, ExitStack() as stack:
        yield JobsOfHomes(homes, stack)
