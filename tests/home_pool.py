"""Empty homes on the suite's server: one that a test is done with is emptied and lent again.

To make a home takes Postgres a third of a second, to empty one a hundredth. Rows go and sessions
end; who changes what a home is made of (its tables, rights or settings) must make one of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from weakref import WeakKeyDictionary

from sqlalchemy import make_url

from medusa_core.names import Participant
from pipelines.base.secret_files import secret_file
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import ROLES, HomeUrls, create_home, home_urls
from pipelines.homes.home import RECORD, storage_of
from tests.catalog.homes_under_test import end_sessions, watcher_of, wipe

PASSWORDS = {role: f"password-of-a-lent-home-{role}" for role in ROLES}
"""Those of every home that is lent; homes that `apply` makes draw their own."""

_SPARE: WeakKeyDictionary[EmbeddedServer, list[str]] = WeakKeyDictionary()
_NUMBERS = count()


def spare_homes(server: EmbeddedServer) -> list[str]:
    """The databases of homes that nobody uses now; what is taken from the list is not lent."""
    return _SPARE.setdefault(server, [])


@contextmanager
def lent_homes(
    server: EmbeddedServer, *participants: Participant
) -> Iterator[Mapping[Participant, HomeUrls]]:
    """Homes as if just made, but for their numbers, which go on."""
    lent = {name: _an_empty_one(server, name) for name in participants}
    yield lent
    spare_homes(server).extend(urls.database for urls in lent.values())


@contextmanager
def home_pool(
    server: EmbeddedServer, folder: Path, *participants: Participant
) -> Iterator[Settings]:
    """Such homes in the folder."""
    with lent_homes(server, *participants) as lent:
        record_homes(folder, lent)
        for name in participants:
            storage_of(folder, name).mkdir(parents=True, exist_ok=True)
        yield replace(
            Settings.from_environment({}), catalog_url=server.superuser_url(), directory=folder
        )


def record_homes(folder: Path, homes: Mapping[Participant, HomeUrls]) -> None:
    """Write what a folder has of homes that are made: their databases and their passwords."""
    folder.mkdir(parents=True, exist_ok=True)
    databases = {name: urls.database for name, urls in homes.items()}
    (folder / RECORD).write_text(json.dumps({"participants": databases}))
    for name, urls in homes.items():
        for role in ROLES:
            password = str(make_url(getattr(urls, role)).password)
            secret_file(folder, name, "logins", role).make(lambda password=password: password)


def _an_empty_one(server: EmbeddedServer, participant: Participant) -> HomeUrls:
    admin_url, spare = server.superuser_url(), spare_homes(server)
    if not spare:
        return create_home(admin_url, participant, f"medusa_lent_{next(_NUMBERS)}", PASSWORDS)
    database = spare.pop()
    with watcher_of(server.superuser_url(database)) as watcher:
        end_sessions(watcher)
        wipe(watcher, participant)
    return home_urls(admin_url, participant, database, PASSWORDS)
