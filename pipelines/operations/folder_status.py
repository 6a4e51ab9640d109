"""The status of every home of a folder and of its platform, read once or again and again."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.homes.home import Home, chosen_participant, known_homes, open_home
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.watching.home_status import home_status

PLATFORM_FIELDS = ("phase", "doing", "url", "database_answers", "notes", "components")

Homes = Mapping[Participant, Home | MedusaError]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeReport:
    """The status of one home, as `home_status` describes it, or why it cannot be read."""

    participant: Participant
    status: Mapping[str, Any] | None
    error: MedusaError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderStatus:
    """The homes of a folder, and its platform if `medusa up` was ever run there."""

    homes: tuple[HomeReport, ...]
    platform: Mapping[str, Any] | None

    @property
    def error(self) -> MedusaError | None:
        """The error of the first home that cannot be read."""
        return next((home.error for home in self.homes if home.error is not None), None)


def read_status(settings: Settings, participant: str | None) -> FolderStatus:
    """The status of one home, or of all of the folder. Refused if there is none."""
    with closing(watch_status(settings, participant)) as reports:
        return next(reports)


def watch_status(
    settings: Settings, participant: str | None
) -> Generator[FolderStatus, None, None]:
    """The status now, whenever the next one is requested, without end.

    Homes stay open in between. After an error, and when the folder has other homes, all are opened
    again. Nothing is written and no lease is taken.
    """
    while True:
        names = _names(settings, participant)
        with _opened(settings, names) as homes:
            status = _status(settings, homes)
            yield status
            while status.error is None and names == _names(settings, participant):
                status = _status(settings, homes)
                yield status


def _names(settings: Settings, participant: str | None) -> list[Participant]:
    """The homes to read; none where a platform runs that has no homes yet."""
    homes = sorted(known_homes(settings.directory)) if participant is None else []
    if participant is None and not homes and platform_status(settings) is not None:
        return []
    return homes or [chosen_participant(settings, participant)]


@contextmanager
def _opened(settings: Settings, names: Sequence[Participant]) -> Iterator[Homes]:
    with ExitStack() as stack:
        homes: dict[Participant, Home | MedusaError] = {}
        for name in names:
            try:
                homes[name] = stack.enter_context(open_home(settings, name))
            except MedusaError as error:
                homes[name] = error
        yield homes


def _status(settings: Settings, homes: Homes) -> FolderStatus:
    reports = tuple(_report(name, home) for name, home in homes.items())
    return FolderStatus(homes=reports, platform=platform_status(settings))


def _report(name: Participant, home: Home | MedusaError) -> HomeReport:
    if isinstance(home, MedusaError):
        return HomeReport(participant=name, status=None, error=home)
    try:
        return HomeReport(participant=name, status=home_status(home), error=None)
    except MedusaError as error:
        return HomeReport(participant=name, status=None, error=error)


def platform_status(settings: Settings) -> Mapping[str, Any] | None:
    """What the platform's supervisor reports, or that it does not run; None if it never did."""
    folder = PlatformFolder(settings.directory)
    state = folder.state() if folder.is_made else None
    if not state:
        return None
    if not folder.is_supervised():
        # The state of a supervisor that was killed still says that it is up.
        was_lost = state.get("phase") not in ("ended", "failed")
        phase = "lost" if was_lost else state["phase"]
        return {"phase": phase, "sentence": state.get("sentence"), "components": []}
    return {name: state.get(name) for name in PLATFORM_FIELDS}
