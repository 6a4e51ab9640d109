"""A participant's home: its catalog, its storage root, and the folder that both are found from.

`home.json` in the folder names the participants that live there, their databases, where their
storage roots are if not in `storage/<participant>`, the URL below which the files of a home are
objects and the ID of their owner, and the address of the server of a home that was made with
MEDUSA_CATALOG_URL. Other homes are on an embedded server under the folder, started on
demand and stopped by the process that started it.

A home is opened with the password of one of its logins (`home_logins.py`) and the address of its
server. Only what makes, migrates or drops homes needs the administrator's login.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from medusa_core.errors import WRONG_FORM, CheckFailed, Conflict, Refused, Unavailable
from medusa_core.names import FIRST_EPOCH, Epoch, Participant, check_name
from medusa_core.suggest import did_you_mean
from pipelines.base.files import FileLock, write_atomically
from pipelines.base.settings import OBJECT_SETTINGS, Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import (
    create_home,
    database_of,
    drop_home,
    prepare_home,
)
from pipelines.catalog.server.server_address import login_url, server_address
from pipelines.homes.home_logins import make_passwords, read_password

RECORD = "home.json"
FIELDS = ("participants", "storage", "servers", "objects", "owners")
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


def checked_storage(directory: Path, participant: Participant) -> Path:
    """The storage root of a home, to be opened.

    Refused if its files are objects and the settings of the bucket are not in it: new files would
    be in the folder alone.
    """
    root, objects = storage_of(directory, participant), objects_of(directory, participant)
    if objects is not None and not (root / OBJECT_SETTINGS).exists():
        raise Refused(
            f"{root} has no {OBJECT_SETTINGS}, and the files of {participant} are objects at "
            f"{objects}: run medusa apply, which writes it again"
        )
    return root


def objects_of(directory: Path, participant: Participant) -> str | None:
    """The URL below which the files of a home are objects; None if no bucket is recorded."""
    return _recorded(directory, "objects").get(participant)


def owner_of(directory: Path, participant: Participant) -> str | None:
    """The ID by which a home owns its objects; None if no bucket is recorded."""
    return _recorded(directory, "owners").get(participant)


def record_objects(
    directory: Path, participant: Participant, location: str | None, owner: str | None
) -> None:
    """Write down the URL of a home's objects and the ID of their owner; None: there are none."""
    _write(directory, participant, {"objects": location, "owners": owner})


def default_storage(participant: Participant) -> str:
    """Where a home keeps its files unless its contract says otherwise, below MEDUSA_DIR."""
    return f"storage/{participant}"


def _recorded(directory: Path, field: str) -> Mapping[Participant, str]:
    record = directory / RECORD
    try:
        document = json.loads(record.read_text())
        given = {
            "participants": document["participants"],
            **{name: document.get(name, {}) for name in FIELDS[1:]},
        }
        # All of it is checked, whichever home is opened: a broken record is reported first.
        found = {
            name: {_checked(p): _value_of(name, value) for p, value in values.items()}
            for name, values in given.items()
        }
        return found[field]
    except FileNotFoundError:
        return {}
    except (OSError, *WRONG_FORM) as error:
        raise Refused(
            f"{record} cannot be read as Medusa wrote it: restore it, or remove the folder"
        ) from error


def _checked(name: str) -> Participant:
    try:
        return Participant(check_name("participant", name))
    except Refused as error:
        raise ValueError(name) from error


def _value_of(field: str, value: object) -> str:
    """A value of a field of the record; ValueError if it cannot be one."""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(value)
    if field == "participants" and not _DATABASE.fullmatch(value):
        raise ValueError(value)
    if field == "servers" and not _is_address(value):
        raise ValueError(value)
    return value


def _is_address(value: str) -> bool:
    try:
        return server_address(value) == value
    except Refused:
        return False


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
    if participant in known_homes(settings.directory):
        with home_server(settings, participant) as server:
            login = server.login_url("owner" if as_owner else "job")
            with _opened(settings.directory, participant, login, makes=False) as home:
                yield home
        return
    url = settings.catalog_url_of(participant)
    if url is None:
        raise _no_home(settings, participant)
    with _opened(settings.directory, participant, url, makes=False) as home:
        yield home


@dataclass(frozen=True, slots=True)
class HomeServer:
    """The server of a home; `revive` starts an embedded one that has ended."""

    directory: Path
    participant: Participant
    address: str
    revive: Callable[[], None]

    def login_url(self, role: str) -> str:
        """The URL with which a role logs in; raises Unavailable if its password is missing."""
        return role_url(self.directory, self.address, self.participant, role)


@contextmanager
def home_server(settings: Settings, participant: Participant) -> Iterator[HomeServer]:
    """The server of a home; an embedded one runs at least as long as the block.

    Refused if there is no home of this participant in the folder.
    """
    directory = settings.directory
    if participant not in known_homes(directory):
        raise _no_home(settings, participant)
    address = address_of_server(settings, participant)
    if address is not None:
        yield HomeServer(directory, participant, address, _nothing)
        return
    with EmbeddedServer(directory / SERVER) as server:
        yield HomeServer(directory, participant, server.address, server.revive)


@contextmanager
def exchange_login(
    settings: Settings, participant: Participant
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The URL of a home's login for its exchange server, and what starts an embedded server that
    has ended; Refused if there is no home of this participant in the folder."""
    with home_server(settings, participant) as server:
        yield server.login_url("exchange"), server.revive


def address_of_server(settings: Settings, participant: Participant) -> str | None:
    """The address of a home's server; None for the embedded one.

    A URL in the environment takes precedence over the address with which the home was made.
    """
    url = settings.catalog_url_of("postgres")
    if url is not None:
        return server_address(url)
    return _recorded(settings.directory, "servers").get(participant)


def role_url(directory: Path, server: str, participant: Participant, role: str) -> str:
    """The URL with which a role logs in to a home of the folder; `server` is its address.

    Raises Unavailable if the role's password is missing.
    """
    database = known_homes(directory)[participant]
    return login_url(server, database, role, read_password(directory, participant, role))


def without_login(settings: Settings) -> Settings:
    """The settings for a process that makes no home: the URL is the server's address."""
    url = settings.catalog_url_of("postgres")
    return settings if url is None else replace(settings, catalog_url=server_address(url))


def _no_home(settings: Settings, participant: Participant) -> Refused:
    homes = known_homes(settings.directory)
    hint = did_you_mean(participant, homes, "it has " + (", ".join(sorted(homes)) or "none"))
    return Refused(f"there is no home of {participant} in {settings.directory}: {hint}")


def _nothing() -> None:
    """A server of one's own is started by its owner."""


@contextmanager
def migration_url(settings: Settings, participant: Participant) -> Iterator[str]:
    """The URL under which a home's catalog may be migrated: its owner's."""
    database = known_homes(settings.directory).get(participant)
    url = settings.catalog_url_of(participant)
    if database is not None or url is None:
        with _server_of(settings, participant) as admin_url:
            passwords = make_passwords(settings.directory, participant)
            if database is not None:
                with _held_alone(settings.directory):
                    _record(settings, participant, database)
            yield prepare_home(admin_url, participant, database, passwords).owner_role
        return
    yield url


@contextmanager
def make_home(
    settings: Settings,
    participant: Participant,
    *,
    keep: bool,
    meanwhile: Callable[[Path], None] = lambda directory: None,
) -> Iterator[Home]:
    """Make a home in the folder (or go on with it) and hold it alone; `keep` False drops it.

    `meanwhile` is called with the folder as soon as it is held, before the server is started. A
    home in which a check failed is kept, so that it can be looked at.
    Raises Conflict if another process holds the folder, Unavailable if it cannot be written.
    """
    directory = settings.directory
    _make_folder(directory)
    with ExitStack() as stack:
        stack.enter_context(_held_alone(directory))
        _check_administrator(settings, participant)
        meanwhile(directory)
        admin_url = stack.enter_context(_server_of(settings, participant, keep=keep))
        embedded = settings.catalog_url is None
        database = _database_for(settings, participant)
        passwords = make_passwords(directory, participant)
        _record(settings, participant, database)
        urls = create_home(admin_url, participant, database, passwords)
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
        self._embedded: EmbeddedServer | None = None
        self._up_to_date: set[Participant] = set()

    def url(
        self, participant: Participant, role: str = "job", *, as_it_is: bool = False
    ) -> str | None:
        """The URL with which a role logs in to a home; None if it was not made yet.

        The home is brought up to date if the folder is held alone, unless `as_it_is`. Raises
        Unavailable if the role's password is missing.
        """
        homes = known_homes(self._settings.directory)
        if participant not in homes:
            return None
        if self._alone and not as_it_is:
            self._make(participant, homes[participant])
        server = address_of_server(self._settings, participant) or self._embedded_server().address
        return role_url(self._settings.directory, server, participant, role)

    def make(self, participant: Participant, storage: str | None) -> Home:
        """Make a home, or open the one that is there; it is closed with the block.

        `storage` is its root if not the default: absolute, or relative to the folder.
        """
        self._make(participant, _database_for(self._settings, participant), storage)
        url = self.url(participant)
        assert url is not None, "it was made just now"
        return self._stack.enter_context(_opened(self._settings.directory, participant, url))

    def _make(self, participant: Participant, database: str, storage: str | None = None) -> None:
        """Make a home or bring it up to date, once: nobody else may while the folder is held."""
        settings = self._settings
        _check_administrator(settings, participant)
        passwords = make_passwords(settings.directory, participant)
        _record(settings, participant, database, storage)
        if participant in self._up_to_date:
            return
        admin_url = settings.catalog_url_of("postgres") or self._embedded_server().superuser_url()
        create_home(admin_url, participant, database, passwords)
        self._up_to_date.add(participant)

    def _embedded_server(self) -> EmbeddedServer:
        if self._embedded is None:
            server = EmbeddedServer(self._settings.directory / SERVER)
            self._embedded = self._stack.enter_context(server)
        return self._embedded


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
        (directory / "lock").touch(mode=0o600)
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
    storage = checked_storage(directory, participant)
    try:
        if makes:
            storage.mkdir(mode=0o700, parents=True, exist_ok=True)
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
def _server_of(settings: Settings, participant: Participant, *, keep: bool = True) -> Iterator[str]:
    """The URL of an administrator of the server of a home.

    `keep` False removes an embedded server with all its files, wherever they lie.
    """
    _check_administrator(settings, participant)
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


def _check_administrator(settings: Settings, participant: Participant) -> None:
    address = _recorded(settings.directory, "servers").get(participant)
    if settings.catalog_url is None and address is not None:
        raise Refused(
            f"the home of {participant} is on the server {address}: set MEDUSA_CATALOG_URL to the "
            "login of an administrator there"
        )


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
    settings: Settings, participant: Participant, database: str, storage: str | None = None
) -> None:
    """Write down a participant's database, its server's address and, if given, its storage root."""
    url = settings.catalog_url_of("postgres")
    given = {
        "participants": database,
        "storage": storage,
        "servers": None if url is None else server_address(url),
    }
    changed = {field: value for field, value in given.items() if value is not None}
    _write(settings.directory, participant, changed)


def _write(directory: Path, participant: Participant, changed: Mapping[str, str | None]) -> None:
    """Write fields of a participant into the record; None removes one."""
    document = {field: dict(_recorded(directory, field)) for field in FIELDS}
    for field, value in changed.items():
        if value is None:
            document[field].pop(participant, None)
        else:
            document[field][participant] = value
    found = {field: of for field, of in document.items() if of or field == "participants"}
    text = json.dumps(found, indent=1) + "\n"
    record = directory / RECORD
    if record.exists() and record.read_text() == text:
        return
    write_atomically(record, text)
