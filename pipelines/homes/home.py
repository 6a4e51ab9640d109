"""A participant's home: its catalog, its storage root, and the folder that both are found from.

`home.json` in the folder names the participants that live there, their databases, and where their
storage roots are if not in `storage/<participant>`. The server is the one that MEDUSA_CATALOG_URL
names, or an embedded one under the folder, started on demand and stopped by the process that
started it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import CheckFailed, Conflict, Refused, Unavailable
from medusa_core.names import FIRST_EPOCH, Epoch, Participant, check_name
from medusa_core.suggest import did_you_mean
from pipelines.base.files import FileLock, write_atomically
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import (
    HomeUrls,
    create_home,
    database_of,
    drop_home,
    home_urls,
    prepare_home,
)

RECORD = "home.json"
_DATABASE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
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
    return _recorded(directory, "participants")


def storage_of(directory: Path, participant: Participant) -> Path:
    """The storage root of a home: as it was given when the home was made, or the default."""
    given = _recorded(directory, "storage").get(participant)
    return directory / (given or default_storage(participant))


def default_storage(participant: Participant) -> str:
    """Where a home keeps its files unless its contract says otherwise, below MEDUSA_DIR."""
    return f"storage/{participant}"


def _recorded(directory: Path, field: str) -> Mapping[Participant, str]:
    record = directory / RECORD
    try:
        document = json.loads(record.read_text())
        given = {"participants": document["participants"], "storage": document.get("storage", {})}
        # All of it is checked, whichever home is opened: a broken record is reported first.
        found = {
            name: {_checked(p): _value_of(name, value) for p, value in values.items()}
            for name, values in given.items()
        }
        return found[field]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(
            f"{record} cannot be read as Medusa wrote it: restore it, or remove the folder"
        ) from error


def _checked(name: str) -> Participant:
    try:
        return Participant(check_name("participant", name))
    except Refused as error:
        raise ValueError(name) from error


def _value_of(field: str, value: object) -> str:
    """A database's name or a storage root; ValueError if it can be none."""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(value)
    if field == "participants" and not _DATABASE.fullmatch(value):
        raise ValueError(value)
    return value


def chosen_participant(settings: Settings, name: str | None) -> Participant:
    """The named participant, or the only one; Refused if there are several and none is named."""
    if name is not None:
        return Participant(check_name("participant", name))
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
def open_home(
    settings: Settings, participant: Participant, *, as_owner: bool = False
) -> Iterator[Home]:
    """Open a home that is there, as it is; Refused if there is none of this participant.

    Nothing is changed by it: Unavailable, with what to do, if its catalog lacks a migration.
    `as_owner` logs in as its owner, who may recall; with a URL of one's own, as that says.
    """
    homes = known_homes(settings.directory)
    if participant in homes:
        with _server_of(settings) as admin_url:
            urls = home_urls(admin_url, participant, homes[participant])
            login = urls.owner if as_owner else urls.job
            with _opened(settings.directory, participant, login, makes=False) as home:
                yield home
        return
    url = settings.catalog_url_of(participant)
    if url is None:
        raise _no_home(settings, participant)
    with _opened(settings.directory, participant, url, makes=False) as home:
        yield home


@contextmanager
def exchange_login(
    settings: Settings, participant: Participant
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The URL of a home's login for its exchange server, and what starts an embedded server that
    has ended; Refused if there is no home of this participant in the folder."""
    homes = known_homes(settings.directory)
    if participant not in homes:
        raise _no_home(settings, participant)
    if settings.catalog_url is not None:
        admin_url = settings.catalog_url_of("postgres") or ""
        yield home_urls(admin_url, participant, homes[participant]).exchange, _nothing
        return
    with EmbeddedServer(settings.directory / SERVER) as server:
        urls = home_urls(server.superuser_url(), participant, homes[participant])
        yield urls.exchange, server.revive


def _no_home(settings: Settings, participant: Participant) -> Refused:
    homes = known_homes(settings.directory)
    hint = did_you_mean(participant, homes, "it has " + (", ".join(sorted(homes)) or "none"))
    return Refused(f"there is no home of {participant} in {settings.directory}: {hint}")


def _nothing() -> None:
    """A server of one's own is started by its owner."""


@contextmanager
def migration_url(settings: Settings, participant: Participant) -> Iterator[str]:
    """The URL under which a home's catalog may be migrated: its owner's."""
    homes = known_homes(settings.directory)
    url = settings.catalog_url_of(participant)
    if participant in homes or url is None:
        with _server_of(settings) as admin_url:
            yield prepare_home(admin_url, participant, homes.get(participant)).owner_role
        return
    yield url


@contextmanager
def make_home(settings: Settings, participant: Participant, *, keep: bool) -> Iterator[Home]:
    """Make a home in the folder (or go on with it) and hold it alone; `keep` False drops it.

    A home in which a check failed is kept, so that it can be looked at.
    Raises Conflict if another process holds the folder, Unavailable if it cannot be written.
    """
    directory = settings.directory
    _make_folder(directory)
    with _held_alone(directory), _server_of(settings, keep=keep) as admin_url:
        embedded = settings.catalog_url is None
        database = _database_for(settings, participant)
        _record(directory, participant, database)
        urls = create_home(admin_url, participant, database)
        try:
            with _opened(directory, participant, urls.job) as home:
                yield home
        except CheckFailed:
            keep = True
            raise
        finally:
            if not keep and not embedded:
                drop_home(admin_url, database)


class Homes:
    """The homes of a folder while they are looked at or brought up to date, all at once.

    A server is started for the first home, and stopped with the block.
    """

    def __init__(self, settings: Settings, stack: ExitStack, *, alone: bool) -> None:
        self._settings = settings
        self._stack = stack
        self._alone = alone
        self._server: str | None = None
        self._up_to_date: dict[Participant, HomeUrls] = {}

    def url(self, participant: Participant, *, as_it_is: bool = False) -> str | None:
        """Where a home is, as a job logs in; None if it was not made yet.

        It is brought up to date if the folder is held alone, else, or `as_it_is`, left alone.
        """
        homes = known_homes(self._settings.directory)
        if participant not in homes:
            return None
        if self._alone and not as_it_is:
            return self._made(participant, homes[participant]).job
        return home_urls(self._admin_url(), participant, homes[participant]).job

    def urls(self, participant: Participant) -> HomeUrls | None:
        """How each role logs in to a home as it is; None if it was not made yet."""
        homes = known_homes(self._settings.directory)
        if participant not in homes:
            return None
        return home_urls(self._admin_url(), participant, homes[participant])

    def make(self, participant: Participant, storage: str | None) -> Home:
        """Make a home, or open the one that is there; it is closed with the block.

        `storage` is its root if not the default: absolute, or relative to the folder.
        """
        directory = self._settings.directory
        database = _database_for(self._settings, participant)
        _record(directory, participant, database, storage)
        url = self._made(participant, database).job
        return self._stack.enter_context(_opened(directory, participant, url))

    def _made(self, participant: Participant, database: str) -> HomeUrls:
        """Make a home or bring it up to date, once: nobody else may while the folder is held."""
        if participant not in self._up_to_date:
            self._up_to_date[participant] = create_home(self._admin_url(), participant, database)
        return self._up_to_date[participant]

    def _admin_url(self) -> str:
        if self._server is None:
            self._server = self._stack.enter_context(_server_of(self._settings))
        return self._server


@contextmanager
def open_homes(settings: Settings, *, alone: bool) -> Iterator[Homes]:
    """All homes of the folder; `alone` makes the folder and holds it while they are changed.

    Drivers that run in these homes go on meanwhile. Raises Conflict if another process makes homes
    there, Unavailable if the folder cannot be written.
    """
    with ExitStack() as stack:
        if alone:
            _make_folder(settings.directory)
            stack.enter_context(_held_alone(settings.directory))
        yield Homes(settings, stack, alone=alone)


def _make_folder(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "lock").touch()
    except (FileExistsError, NotADirectoryError) as error:
        raise Refused(f"{directory} is not a folder: choose another") from error
    except OSError as error:
        raise Unavailable(
            f"folder {directory} cannot be written ({error.strerror}): choose another"
        ) from error


def _database_for(settings: Settings, participant: Participant) -> str:
    """The database of a home: as it was made, else a name that nobody has on its server."""
    known = known_homes(settings.directory).get(participant)
    if known is not None:
        return known
    if settings.catalog_url is None:
        return database_of(participant)
    return f"medusa_{os.urandom(6).hex()}"


@contextmanager
def _opened(
    directory: Path, participant: Participant, url: str, *, makes: bool = True
) -> Iterator[Home]:
    storage = storage_of(directory, participant)
    try:
        if makes:
            storage.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"storage root {storage} of {participant} cannot be made ({error.strerror}): make room "
            "for it, or correct its contract"
        ) from error
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
        except CheckFailed:
            keep = True
            raise
        finally:
            if not keep:
                server.discard()


@contextmanager
def _held_alone(directory: Path) -> Iterator[None]:
    try:
        lock = FileLock(directory / "lock")
    except BlockingIOError as error:
        raise Conflict(
            f"another process works in {directory}: wait for it, or choose another folder"
        ) from error
    with lock:
        yield


def _record(
    directory: Path, participant: Participant, database: str, storage: str | None = None
) -> None:
    """Write down a participant's database and, if given, its storage root."""
    homes, roots = dict(known_homes(directory)), dict(_recorded(directory, "storage"))
    homes[participant] = database
    if storage is not None:
        roots[participant] = storage
    document = {"participants": homes, **({"storage": roots} if roots else {})}
    text = json.dumps(document, indent=1) + "\n"
    record = directory / RECORD
    if record.exists() and record.read_text() == text:
        return
    write_atomically(record, text)
