"""A participant's home: its catalog, its storage root, and the folder that both are found from.

`home.json` in the folder names the participants that live there and their databases. The server is
the one that MEDUSA_CATALOG_URL names, or an embedded one under the folder, started on demand and
stopped by whoever started it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.names import Epoch, Participant, check_name
from pipelines.catalog.homes import create_home, database_of, drop_home
from pipelines.catalog.postgres import PostgresCatalog
from pipelines.catalog.server import EmbeddedServer
from pipelines.deploying import FIRST_EPOCH
from pipelines.settings import Settings

RECORD = "home.json"
SERVER = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """An open home; paths in the catalog are relative to `storage`."""

    participant: Participant
    directory: Path
    storage: Path
    catalog: PostgresCatalog
    epoch: Epoch = FIRST_EPOCH


def known_homes(directory: Path) -> Mapping[Participant, str]:
    """Participant -> database, of the homes that were made in this folder."""
    record = directory / RECORD
    try:
        document = json.loads(record.read_text())
        return {Participant(str(p)): str(d) for p, d in document["participants"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise Refused(
            f"{record} cannot be read as Medusa wrote it: restore it, or remove the folder"
        ) from error


def chosen_participant(settings: Settings, wanted: str | None) -> Participant:
    """The participant asked for, or the only one that there is; Refused if that is not clear."""
    if wanted is not None:
        return Participant(check_name("participant", wanted))
    homes = known_homes(settings.directory)
    if len(homes) == 1:
        return next(iter(homes))
    if settings.catalog_url and not homes:
        raise Refused("name the participant whose home this is with --participant")
    if not homes:
        raise Refused(
            f"there is no home in {settings.directory}: run `medusa replay … --keep DIR` or "
            "`medusa demo`, and set MEDUSA_DIR to its folder"
        )
    raise Refused(f"choose one of {', '.join(sorted(homes))} with --participant")


@contextmanager
def open_home(settings: Settings, participant: Participant) -> Iterator[Home]:
    """Open a home that is there; Refused if there is none of this participant."""
    homes = known_homes(settings.directory)
    if participant in homes:
        with _server_of(settings) as admin_url:
            urls = create_home(admin_url, participant, homes[participant])
            with _opened(settings.directory, participant, urls.job) as home:
                yield home
        return
    url = settings.catalog_url_of(participant)
    if url is None:
        names = ", ".join(sorted(homes)) or "none"
        raise Refused(f"there is no home of {participant} in {settings.directory}; it has {names}")
    with _opened(settings.directory, participant, url) as home:
        yield home


@contextmanager
def migration_url(settings: Settings, participant: Participant) -> Iterator[str]:
    """The URL under which a home's catalog may be migrated: its owner's."""
    homes = known_homes(settings.directory)
    url = settings.catalog_url_of(participant)
    if participant in homes or url is None:
        with _server_of(settings) as admin_url:
            # Creating a home that is there changes nothing but brings it up to date.
            yield create_home(admin_url, participant, homes.get(participant)).owner
        return
    yield url


@contextmanager
def make_home(settings: Settings, participant: Participant, *, keep: bool) -> Iterator[Home]:
    """Make a home in the folder (or go on with it) and hold it alone; `keep` False drops it.

    Raises Conflict if another process holds the folder, Unavailable if it cannot be written.
    """
    directory = settings.directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "lock").touch()
    except (FileExistsError, NotADirectoryError) as error:
        raise Refused(f"{directory} is not a folder: choose another") from error
    except OSError as error:
        raise Unavailable(
            f"folder {directory} cannot be written ({error.strerror}): choose another"
        ) from error
    with _held_alone(directory), _server_of(settings, keep=keep) as admin_url:
        homes = dict(known_homes(directory))
        embedded = settings.catalog_url is None
        own = database_of(participant) if embedded else f"medusa_{os.urandom(6).hex()}"
        database = homes.setdefault(participant, own)
        _record(directory, homes)
        urls = create_home(admin_url, participant, database)
        try:
            with _opened(directory, participant, urls.job) as home:
                yield home
        finally:
            if not keep and not embedded:
                drop_home(admin_url, database)


@contextmanager
def _opened(directory: Path, participant: Participant, url: str) -> Iterator[Home]:
    storage = directory / "storage" / participant
    storage.mkdir(parents=True, exist_ok=True)
    catalog = PostgresCatalog(url, participant)
    try:
        yield Home(participant=participant, directory=directory, storage=storage, catalog=catalog)
    finally:
        catalog.close()


@contextmanager
def _server_of(settings: Settings, *, keep: bool = True) -> Iterator[str]:
    """The URL of an administrator of the server that the folder's homes lie in.

    `keep` False removes an embedded server with all its files, wherever they lie.
    """
    if settings.catalog_url is not None:
        yield settings.catalog_url_of("postgres") or ""
        return
    with EmbeddedServer(settings.directory / SERVER) as server:
        try:
            yield server.superuser_url()
        finally:
            if not keep:
                server.discard()


@contextmanager
def _held_alone(directory: Path) -> Iterator[None]:
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Conflict(
                f"another process works in {directory}: wait for it, or choose another folder"
            ) from error
        yield


def _record(directory: Path, homes: Mapping[Participant, str]) -> None:
    temporary = directory / f"{RECORD}.new"
    temporary.write_text(json.dumps({"participants": homes}, indent=1) + "\n")
    temporary.replace(directory / RECORD)
