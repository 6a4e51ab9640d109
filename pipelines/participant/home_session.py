"""A participant's session in the federation: its own home, and where its partners' homes are.

Homes of one installation lie in one folder (MEDUSA_DIR), each in a database of its own. A driver
logs in to its own home as `job` and to a partner's as `reader`, and to none as anything else. It
reads the passwords of these logins, and never the administrator's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.exchange.in_process import Partner
from pipelines.homes.home import (
    Home,
    HomeServer,
    home_server,
    known_homes,
    role_url,
    storage_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeSession:
    """An open home, and its partners'; `revive` restarts an embedded server that has ended."""

    home: Home
    partners: Mapping[Participant, Partner]
    urls: tuple[str, ...]
    revive: Callable[[], None]


@contextmanager
def open_session(settings: Settings, participant: Participant) -> Iterator[HomeSession]:
    """Open a participant's home and find its partners'; Refused if there is no such home."""
    homes = known_homes(settings.directory)
    if participant not in homes:
        names = ", ".join(sorted(homes)) or "none"
        raise Refused(
            f"there is no participant {participant} in {settings.directory} (there: {names}): "
            + did_you_mean(participant, homes, "apply its contracts with medusa apply")
        )
    with (
        home_server(settings, participant) as server,
        _opened(settings, participant, homes, server) as home_session,
    ):
        yield home_session


@contextmanager
def _opened(
    settings: Settings,
    participant: Participant,
    homes: Mapping[Participant, str],
    server: HomeServer,
) -> Iterator[HomeSession]:
    partners = {
        name: Partner(
            reader_url=role_url(settings.directory, server.address, name, "reader"),
            storage=storage_of(settings.directory, name),
        )
        for name in homes
        if name != participant
    }
    storage = storage_of(settings.directory, participant)
    try:
        storage.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"storage root {storage} cannot be made ({error.strerror}): mend the folder, then try "
            "again"
        ) from error
    job_url = server.login_url("job")
    catalog = PostgresCatalog(job_url, participant)
    try:
        yield HomeSession(
            home=Home(
                participant=participant,
                directory=settings.directory,
                storage=storage,
                catalog=catalog,
            ),
            partners=partners,
            urls=(job_url, *(p.reader_url for p in partners.values())),
            revive=server.revive,
        )
    finally:
        catalog.close()
