"""Empty homes on the suite's server: one that a test is done with is emptied and lent again.

To make a home takes Postgres a third of a second, to empty one a hundredth. Rows go and sessions
end; who changes what a home is made of (its tables, rights or settings) must make one of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from weakref import WeakKeyDictionary

from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import create_home
from pipelines.homes.home import RECORD, storage_of
from tests.catalog.homes_under_test import end_sessions, watcher_of, wipe

_SPARE: WeakKeyDictionary[EmbeddedServer, list[str]] = WeakKeyDictionary()
_NUMBERS = count()


@contextmanager
def home_pool(
    server: EmbeddedServer, folder: Path, *participants: Participant
) -> Iterator[Settings]:
    """Homes as if just made in the folder, but for their numbers, which go on."""
    spare = _SPARE.setdefault(server, [])
    lent = {name: _an_empty_one(server, spare, name) for name in participants}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORD).write_text(json.dumps({"participants": lent}))
    for name in participants:
        storage_of(folder, name).mkdir(parents=True, exist_ok=True)
    yield replace(
        Settings.from_environment({}), catalog_url=server.superuser_url(), directory=folder
    )
    spare.extend(lent.values())


def _an_empty_one(server: EmbeddedServer, spare: list[str], participant: Participant) -> str:
    """The name of its database."""
    if not spare:
        admin_url, database = server.superuser_url(), f"medusa_lent_{next(_NUMBERS)}"
        return create_home(admin_url, participant, database).database
    database = spare.pop()
    with watcher_of(server.superuser_url(database)) as watcher:
        end_sessions(watcher)
        wipe(watcher, participant)
    return database
