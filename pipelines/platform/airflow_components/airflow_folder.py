"""The folder `MEDUSA_DIR/airflow`: the platform's own files, all readable by their owner alone.

    commands.lock     held while `medusa up` or `down` works
    supervisor.lock   held by the supervisor as long as it lives: whether the platform is up
    secrets.json      drawn once: keys of Airflow, the password of its database, the mark
    passwords.json    logins to Airflow's pages, as its simple auth manager keeps them
    platform.json     settings and progress: port, host, the database's revision
    started.json      processes that were started and have not ended: name, id, start time
    state.json        state of the platform, written by the supervisor, read by `up` and `status`
    logs/             of Airflow's tasks

The components write their output to `MEDUSA_DIR/logs/airflow-*.log`. The user's own DAGs are read
from `MEDUSA_DIR/dags`.
"""

from __future__ import annotations

import json
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medusa_core.errors import Conflict, Refused, Unavailable
from pipelines.base import clock
from pipelines.base.files import FileLock, is_locked, write_atomically
from pipelines.platform.airflow_components.process_sessions import Started

NAME = "airflow"
USER = "admin"
MOMENT_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Drawn once for a folder; `mark` is no secret but names the folder's processes."""

    mark: str
    fernet_key: str
    jwt_secret: str
    api_secret_key: str
    database: str
    database_password: str


class PlatformFolder:
    """The platform's files below a MEDUSA_DIR; made when it is first written to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / NAME
        self.own_dags = directory / "dags"
        self.logs = directory / "logs"
        self.supervisor_log = self.logs / "supervisor.log"
        self.passwords = self.root / "passwords.json"
        self.pgpass = self.root / "pgpass"

    @property
    def is_made(self) -> bool:
        """Whether a platform was ever started here."""
        return self.root.is_dir()

    def make(self) -> None:
        """Make the folders. Raises Unavailable if they cannot be made, or are somebody else's."""
        try:
            # Postgres may have to pass through the upper one as another user.
            self.logs.mkdir(parents=True, exist_ok=True)
            self.own_dags.mkdir(mode=0o755, exist_ok=True)
            self.root.mkdir(mode=0o700, exist_ok=True)
            if self.root.stat().st_uid != os.geteuid():
                raise PermissionError(13, "it belongs to another user", str(self.root))
        except OSError as error:
            raise Unavailable(
                f"{error.filename or self.root} cannot be used ({error.strerror}): run as its "
                "owner, or set MEDUSA_DIR to a folder of yours"
            ) from error

    # ------------------------------------------------------------ locks

    @contextmanager
    def working(self, waits: Callable[[], None]) -> Iterator[None]:
        """Be the only command that starts or ends the platform; calls `waits` if it must wait."""
        with self._locked("commands.lock", waits):
            yield

    @contextmanager
    def supervising(self) -> Iterator[None]:
        """Be the supervisor. Raises Conflict if there is one."""
        with self._locked("supervisor.lock", None):
            yield

    def is_supervised(self) -> bool:
        """Whether a supervisor lives."""
        path = self.root / "supervisor.lock"
        try:
            return path.exists() and is_locked(path, mode=0o600)
        except OSError as error:
            raise Unavailable(_unreadable(error, self.root)) from error

    @contextmanager
    def _locked(self, name: str, waits: Callable[[], None] | None) -> Iterator[None]:
        with self._lock(name, waits):
            yield

    def _lock(self, name: str, waits: Callable[[], None] | None) -> FileLock:
        path = self.root / name
        try:
            lock = _free_lock(path, MOMENT_MS if waits is None else 0)
            if lock is None and waits is None:
                raise Conflict(
                    f"the platform in {self.directory} is up already: `medusa down` ends it"
                )
            if lock is None:
                assert waits is not None
                waits()
                lock = FileLock(path, waits=True, mode=0o600)
        except OSError as error:
            raise Unavailable(_unreadable(error, self.root)) from error
        return lock

    # ------------------------------------------------------------ secrets

    def secrets(self, *, is_embedded: bool) -> Secrets:
        """The folder's secrets, drawn if there are none yet."""
        path = self.root / "secrets.json"
        found = self._read(path)
        if found is not None:
            try:
                return Secrets(**found)
            except TypeError as error:
                raise Refused(f"{path} is not as it was written: restore or remove it") from error
        # On a server of one's own the database `airflow` may be another Airflow's.
        database = "airflow" if is_embedded else f"airflow_{secrets.token_hex(4)}"
        drawn = Secrets(
            mark=secrets.token_hex(8),
            fernet_key=urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            jwt_secret=secrets.token_urlsafe(48),
            api_secret_key=secrets.token_urlsafe(48),
            database=database,
            database_password=secrets.token_urlsafe(32),
        )
        self._write(path, asdict(drawn))
        return drawn

    def password(self) -> tuple[str, bool]:
        """The password of Airflow's user, and whether it was drawn just now."""
        found = self._read(self.passwords) or {}
        if isinstance(found.get(USER), str):
            return str(found[USER]), False
        drawn = secrets.token_urlsafe(12)
        self._write(self.passwords, {**found, USER: drawn})
        return drawn, True

    # ------------------------------------------------------------ what was chosen, how it stands

    def chosen(self) -> Mapping[str, Any]:
        """What was chosen or done in earlier runs."""
        return self._read(self.root / "platform.json") or {}

    def choose(self, **values: object) -> None:
        """Add what was chosen to what was there."""
        self._write(self.root / "platform.json", {**self.chosen(), **values})

    def state(self) -> Mapping[str, Any]:
        """How the platform stood when its supervisor last wrote; empty if there never was one."""
        return self._read(self.root / "state.json") or {}

    @property
    def has_state(self) -> bool:
        """Whether the state of the platform was recorded."""
        return (self.root / "state.json").exists()

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Say how it stands."""
        self._write(self.root / "state.json", state)

    def started(self) -> tuple[Started, ...]:
        """What was started and not written off."""
        found = self._read(self.root / "started.json") or {}
        try:
            return tuple(Started(**one) for one in found.get("processes", ()))
        except TypeError as error:
            raise Refused(
                f"{self.root / 'started.json'} is not as it was written: end what runs by hand, "
                "then remove it"
            ) from error

    def write_started(self, started: Sequence[Started]) -> None:
        """Write down what runs, on the disk before this returns."""
        self._write(self.root / "started.json", {"processes": [asdict(one) for one in started]})

    def write_pgpass(self, lines: Sequence[str]) -> None:
        """Write the passwords that psql may use."""
        self._write_text(self.pgpass, "".join(f"{line}\n" for line in lines))

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(_unreadable(error, path)) from error
        except (ValueError, RecursionError) as error:
            raise Refused(f"{path} is not as it was written: restore or remove it") from error
        if not isinstance(found, dict):
            raise Refused(f"{path} is not as it was written: restore or remove it")
        return found

    def _write(self, path: Path, document: Mapping[str, Any]) -> None:
        self._write_text(path, json.dumps(document, indent=1) + "\n")

    def _write_text(self, path: Path, text: str) -> None:
        try:
            write_atomically(path, text, mode=0o600)
        except OSError as error:
            raise Unavailable(
                f"{path} cannot be written ({error.strerror}): make room for it, or run as the "
                "folder's owner"
            ) from error


def _free_lock(path: Path, waits_ms: int) -> FileLock | None:
    """Take a lock that is free, or becomes free soon: a process that only looks holds it briefly.

    None if it is still held after `waits_ms`.
    """
    waits_until_s = clock.monotonic_s() + waits_ms / 1000
    while True:
        try:
            return FileLock(path, mode=0o600)
        except BlockingIOError:
            if clock.monotonic_s() >= waits_until_s:
                return None
            clock.sleep_s(0.02)


def _unreadable(error: OSError, path: Path) -> str:
    return (
        f"{error.filename or path} cannot be used ({error.strerror}): run as its owner, or set "
        "MEDUSA_DIR to a folder of yours"
    )
