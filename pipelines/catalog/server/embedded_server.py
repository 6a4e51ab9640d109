"""An embedded Postgres server: scram over loopback TCP, ended with the process that started it.

Properties of a folder that holds an embedded server:

* At most one server runs in it. `lock` is held (flock) while one is started, found or stopped, so
  of two processes that start at once one starts and the other attaches.
* The process that started the server owns it: the server stops when that process leaves the
  `with` block, ends, or is killed (Linux signals it: PR_SET_PDEATHSIG). A process that attached
  must expect the owner to end; the catalog's answers are then `Unavailable`, and a new start
  recovers.
* Postgres refuses to run as root. Started by root it runs as `postgres` or `nobody`. Where that
  user cannot enter the folder (below a 0700 home), the files are in a folder `medusa-server-…`
  outside, and `cluster` is a link to it: the permissions of folders that Medusa did not make are
  not changed. `discard()` removes both.

* Nobody logs in to find, start or watch the server: only those that make databases and roles read
  the superuser's password.

    lock         held while starting, finding and stopping
    password     the superuser's, random, readable by its owner only
    port         the last one; another is taken when it is in use
    cluster/     belongs to the user Postgres runs as
      data/      the data directory; appears by one rename when initdb is done
      server.log the log of Postgres

Limits: one machine, one owner at a time, no access from other hosts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import secrets
import shutil
import socket
import struct
import tempfile
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import psutil

from medusa_core.errors import Unavailable
from pipelines.base import clock
from pipelines.base.files import FileLock, is_locked, rename, write_atomically
from pipelines.catalog.server.server_process import OwnedProcess, RunsAs
from pipelines.catalog.server.server_programs import reachable_programs

SUPERUSER = "postgres"
HOST = "127.0.0.1"
OUTSIDE_PREFIX = "medusa-server-"  # `make clean` knows it too
START_MS_MAX = 60_000
# How long a killed server's remains may take to go before a start in their place gives up.
REMAINS_MS_MAX = 8_000
TRY_AGAIN_MS = 20
# How long a server may take to answer before it counts as none.
ANSWER_S_MAX = 5
# How long an owner that is done waits for commands that attached to its server.
USERS_MS_MAX = 15_000

# The first message of a client, with which it asks to be let in as the superuser (protocol 3.0).
_STARTUP = struct.pack("!ii", 41, 0x30000) + b"user\0postgres\0database\0postgres\0\0"
_CANNOT_CONNECT_NOW = b"\0C57P03\0"

_HBA = f"""\
# A session in a database that is nobody's home can hold up the notifications of all homes.
host  all                 {SUPERUSER}  {HOST}/32  scram-sha-256
host  postgres,template1  all       {HOST}/32  reject
host  all                 all       {HOST}/32  scram-sha-256
"""
"""Who may log in where (pg_hba.conf): the administrator everywhere, the others in their homes."""

SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "fsync": "on",
    "jit": "off",  # short statements; compiling one costs more than running it
    "lc_messages": "C",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] %u@%d ",
    # A statement that fails may hold what only its owner shall see: its error says enough.
    "log_min_error_statement": "panic",
    "password_encryption": "scram-sha-256",
}


class EmbeddedServer:
    """A context manager: inside the block a Postgres serves the catalogs of this folder.

    Starts the server (and makes it, the first time: about a second) or attaches to the one that
    runs there. Raises `Unavailable`, with the log's name, if neither is possible.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = Path(directory).absolute()
        self._child: OwnedProcess | None = None
        self._owner_pid = 0
        self._users: FileLock | None = None
        self._port = 0

    # ------------------------------------------------------------ what readers need

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def log(self) -> Path:
        """Where Postgres writes what it says."""
        return self._directory / "cluster" / "server.log"

    @property
    def port(self) -> int:
        """The port on 127.0.0.1; inside the block only."""
        assert self._port, "the server is known inside the with block only"
        return self._port

    @property
    def owns_server(self) -> bool:
        """Whether this object started the server (and will stop it), not merely attached to it."""
        return self._child is not None

    def url(self, database: str, role: str, password: str | None = None) -> str:
        """Return the SQLAlchemy URL of a database for a role; all parts are escaped."""
        secret = "" if password is None else f":{quote(password, safe='')}"
        who = f"{quote(role, safe='')}{secret}"
        return f"postgresql+psycopg2://{who}@{HOST}:{self.port}/{quote(database, safe='')}"

    @property
    def address(self) -> str:
        """The URL of the server, without a database or login."""
        return f"postgresql+psycopg2://{HOST}:{self.port}"

    def superuser_url(self, database: str = "postgres") -> str:
        """Return the URL for the one who makes databases and roles; nobody else needs it.

        Raises Unavailable if the password cannot be read.
        """
        path = self._directory / "password"
        try:
            return self.url(database, SUPERUSER, path.read_text().strip())
        except OSError as error:
            raise Unavailable(
                f"the administrator's password of the embedded catalog server cannot be read from "
                f"{path} ({error.strerror}): restore it, or run as the user who made the folder"
            ) from None

    # ------------------------------------------------------------ start, attach, stop

    def __enter__(self) -> EmbeddedServer:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with self._lock():
                self._start_or_attach()
                self._use()
        except PermissionError as error:
            raise Unavailable(
                f"{error.filename or self._directory} belongs to another user; run as that user, "
                "or set MEDUSA_DIR to a folder of yours."
            ) from None
        except OSError as error:
            raise Unavailable(
                f"The embedded catalog server cannot use {error.filename or self._directory}: "
                f"{error.strerror or error}; put that right, or set MEDUSA_DIR to another folder."
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server if this process started it; twice is once.

        Commands that attached to it are waited for, up to USERS_MS_MAX. A server that has ended is
        not waited for: whoever has started it again owns it.
        """
        child, self._child = self._child, None
        users, self._users = self._users, None
        if users is not None:
            users.close()
        # A fork of the owner inherits this object and the exit hook, but not the server.
        if child is None or self._owner_pid != os.getpid():
            return
        atexit.unregister(self.stop)
        waits_until_s = clock.monotonic_s() + USERS_MS_MAX / 1000
        while True:
            # Nobody can begin to use the server between the look and the stop: both need the lock.
            with self._lock():
                is_over = child.ended.is_set() or clock.monotonic_s() > waits_until_s
                if is_over or not self._is_used():
                    child.stop()
                    return
            clock.sleep_s(TRY_AGAIN_MS / 1000)

    def revive(self) -> None:
        """Start the server again if it is gone; whoever sees it missing first does, and owns it.

        Raises Unavailable if it does not start, or only on another port than the one in use.
        """
        port = self.port
        with self._lock():
            if self._child is not None and self._child.ended.is_set():
                atexit.unregister(self.stop)
                self._child.stop()
                self._child = None
            self._start_or_attach()
        if self._port != port:
            raise Unavailable(
                f"the embedded catalog server came back on port {self._port}, not {port}, which "
                "another program took: start this command again"
            )

    def _use(self) -> None:
        """Tell the owner, by a shared lock for as long as we live, that the server is in use."""
        self._users = FileLock(self._directory / "users", waits=True, shared=True, mode=0o600)

    def _is_used(self) -> bool:
        return is_locked(self._directory / "users", mode=0o600)

    def discard(self) -> None:
        """Stop the server and remove the folder, with what is outside it."""
        self.stop()
        cluster = self._directory / "cluster"
        outside = cluster.resolve().parent
        if cluster.is_symlink() and outside.name.startswith(OUTSIDE_PREFIX):
            shutil.rmtree(outside, ignore_errors=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _lock(self) -> FileLock:
        return FileLock(self._directory / "lock", waits=True, mode=0o600)

    def _start_or_attach(self) -> None:
        runs_as = self._runs_as()
        cluster = self._cluster(runs_as)
        data = cluster / "data"
        for left in cluster.glob("new-*"):  # of a process that was killed while it made something
            shutil.rmtree(left, ignore_errors=True)
        if not data.exists():
            self._make_data(cluster, runs_as)
        binaries = reachable_programs(_version_of(data), cluster, runs_as)
        remains_since_s: float | None = None
        while True:
            # If this process was paused after the attempt, its outcome is old: it tries once more.
            attempt_s = clock.monotonic_s()
            if self._attach(data):
                return
            if self._start(binaries, data, runs_as):
                return
            remains_since_s = remains_since_s or clock.monotonic_s()
            if (attempt_s - remains_since_s) * 1000 > REMAINS_MS_MAX:
                raise Unavailable(
                    f"The embedded catalog server does not start ({self._last_words()}); "
                    f"its log is {self.log}."
                )
            if _is_empty_shell(data):
                (data / "postmaster.pid").unlink(missing_ok=True)
            clock.sleep_s(TRY_AGAIN_MS / 1000)

    def _read_or_make_password(self) -> str:
        path = self._directory / "password"
        with contextlib.suppress(FileNotFoundError):
            return path.read_text().strip()
        password = secrets.token_urlsafe(32)
        write_atomically(path, password, mode=0o600)
        return password

    def _runs_as(self) -> RunsAs:
        cluster = self._directory / "cluster"
        if os.geteuid() != 0:
            return RunsAs(name="this user")
        if cluster.exists() and cluster.stat().st_uid != 0:
            uid = cluster.stat().st_uid  # made earlier; its files belong to that user
            with contextlib.suppress(KeyError):
                found = pwd.getpwuid(uid)
                return RunsAs(name=found.pw_name, uid=uid, gid=found.pw_gid)
            return RunsAs(name=str(uid), uid=uid, gid=cluster.stat().st_gid)
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                found = pwd.getpwnam(name)
                return RunsAs(name=name, uid=found.pw_uid, gid=found.pw_gid)
        raise Unavailable(
            "Postgres does not run as root and there is no user postgres or nobody to run it as; "
            "run as a normal user, or set MEDUSA_CATALOG_URL to a Postgres of yours."
        )

    def _cluster(self, runs_as: RunsAs) -> Path:
        """Return the folder of Postgres' own files, made where its user can reach it."""
        cluster = self._directory / "cluster"
        if cluster.is_symlink() and not cluster.exists():
            raise Unavailable(
                f"The catalog's files are gone from {os.readlink(cluster)}; restore them, "
                f"or remove {self._directory} to start again."
            )
        if cluster.exists():
            if runs_as.uid >= 0 and cluster.stat().st_uid == 0:
                # The process that made the folder was killed before it gave it away.
                os.chown(cluster, runs_as.uid, runs_as.gid)
            return cluster.resolve()
        if runs_as.can("-x", self._directory):
            _make_private_folder(cluster, runs_as)
            return cluster
        outside = _make_outside_folder(self._directory)
        _make_private_folder(outside / "cluster", runs_as)
        cluster.symlink_to(outside / "cluster")
        return outside / "cluster"

    def _make_data(self, cluster: Path, runs_as: RunsAs) -> None:
        binaries = reachable_programs(None, cluster, runs_as)
        draft = cluster / f"new-{secrets.token_hex(4)}"
        _make_private_folder(draft, runs_as)
        password_file = draft / "password"
        password_file.touch(mode=0o600)
        if runs_as.uid >= 0:
            os.chown(password_file, runs_as.uid, runs_as.gid)
        password_file.write_text(self._read_or_make_password() + "\n")
        command = [str(binaries / "initdb"), "-D", str(draft / "data"), "-U", SUPERUSER]
        command += ["--encoding=UTF8", "--locale=C", f"--pwfile={password_file}"]
        command += ["--auth-host=scram-sha-256", "--auth-local=scram-sha-256"]
        child = OwnedProcess(command, runs_as, self._open_log(cluster, runs_as))
        try:
            is_in_time = child.ended.wait(START_MS_MAX / 1000)
        finally:
            child.stop()
        if not is_in_time or child.exit_code != 0:
            reason = self._last_words()
            shutil.rmtree(draft, ignore_errors=True)
            raise Unavailable(
                f"The embedded catalog server cannot be made ({reason}); its log is {self.log}."
            )
        # Its owner is that of the file that initdb wrote.
        (draft / "data" / "pg_hba.conf").write_text(_HBA)
        rename(draft / "data", cluster / "data")
        shutil.rmtree(draft)

    def _open_log(self, cluster: Path, runs_as: RunsAs) -> Path:
        log = cluster / "server.log"
        if not log.exists():
            log.touch(mode=0o600)
            if runs_as.uid >= 0:
                os.chown(log, runs_as.uid, runs_as.gid)
        return log

    def _attach(self, data: Path) -> bool:
        """Use the server that runs in the folder, if one does; waits while it starts or stops."""
        give_up_s = clock.monotonic_s() + START_MS_MAX / 1000
        while clock.monotonic_s() < give_up_s:
            port = _port_of(data)
            if port is not None:
                self._port = port
                return port > 0
            clock.sleep_s(TRY_AGAIN_MS / 1000)
        return False

    def _start(self, binaries: Path, data: Path, runs_as: RunsAs) -> bool:
        """Start the server and wait until it answers; False if it ended at once."""
        port = self._free_port()
        command = [str(binaries / "postgres"), "-D", str(data), "-p", str(port)]
        for name, value in SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        child = OwnedProcess(command, runs_as, self._open_log(data.parent, runs_as))
        self._child, self._owner_pid, is_ready = child, os.getpid(), False
        atexit.register(self.stop)
        try:
            give_up_s = clock.monotonic_s() + START_MS_MAX / 1000
            while not child.ended.wait(TRY_AGAIN_MS / 1000) and clock.monotonic_s() < give_up_s:
                if _port_of(data) == port:
                    is_ready = True
                    break
        finally:
            if not is_ready:  # also when the user has pressed Ctrl-C
                self._child = None
                atexit.unregister(self.stop)
                child.stop()
        if is_ready:
            self._port = port
            (self._directory / "port").write_text(f"{port}\n")
        return is_ready

    def _free_port(self) -> int:
        """Return the port of last time if it is free, else a new one."""
        remembered = 0
        with contextlib.suppress(FileNotFoundError, ValueError):
            remembered = int((self._directory / "port").read_text())
        for port in (remembered, 0):
            with socket.socket() as probe, contextlib.suppress(OSError, OverflowError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, port))
                return int(probe.getsockname()[1])
        raise Unavailable("No TCP port is free on 127.0.0.1; end some programs and try again.")

    def _last_words(self) -> str:
        try:
            text = self.log.read_text(errors="replace")
        except OSError as error:
            return f"its log cannot be read: {error.strerror}"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if any(w in line for w in ("FATAL:", "PANIC:", "error:"))]
        last = (errors or lines or ["it wrote no message"])[-1]
        return last.rpartition("FATAL:")[2].strip().rstrip(".")


def recorded_address(directory: Path) -> str:
    """Where the server of a folder answers while it runs; nothing is started.

    Unavailable if none has ever run there.
    """
    try:
        port = int((directory / "port").read_text())
    except (FileNotFoundError, ValueError):
        raise Unavailable(
            f"no catalog server has run in {directory} yet: medusa up starts it"
        ) from None
    return f"postgresql+psycopg2://{HOST}:{port}"


# ---------------------------------------------------------------- folders


def _make_private_folder(path: Path, runs_as: RunsAs) -> None:
    path.mkdir(mode=0o700)
    if runs_as.uid >= 0:
        os.chown(path, runs_as.uid, runs_as.gid)


def _make_outside_folder(directory: Path) -> Path:
    """Make a folder that every user may pass through, as lasting as the one it stands in for."""
    temporary = Path(tempfile.gettempdir()).resolve()
    is_temporary = directory.resolve().is_relative_to(temporary)
    # Never /var/tmp for what should last: machines remove there what nobody touched for a month.
    place = temporary if is_temporary or not os.access("/var/lib", os.W_OK) else Path("/var/lib")
    outside = Path(tempfile.mkdtemp(prefix=OUTSIDE_PREFIX, dir=place)).resolve()
    outside.chmod(0o711)
    return outside


def _version_of(data: Path) -> int:
    return int((data / "PG_VERSION").read_text().split(".")[0])


def _port_of(data: Path) -> int | None:
    """The port of the server that runs in a data folder, 0 if none does.

    None while it is starting, stopping or recovering.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        process, port = int(lines[0]), int(lines[3])
    except (FileNotFoundError, IndexError, ValueError):
        return 0
    if not _runs_in(data, process):
        return 0
    answers = _answers(port)
    if answers is None:
        return None
    return port if answers else 0


def _runs_in(data: Path, process: int) -> bool:
    """Whether a process is that of a server in a data folder: Postgres works there."""
    try:
        found = psutil.Process(process)
        try:
            return Path(found.cwd()) == data.resolve()
        except psutil.AccessDenied:  # another user's
            return str(data.resolve()) in found.cmdline()
    except (FileNotFoundError, psutil.Error):
        return False  # it has ended


def _answers(port: int) -> bool | None:
    """Whether a server answers a client up to its question for a password; None: not yet."""
    try:
        with socket.create_connection((HOST, port), ANSWER_S_MAX) as connection:
            connection.sendall(_STARTUP)
            answer = connection.recv(4096)
    except (ConnectionRefusedError, ConnectionResetError):
        return None  # it does not listen yet, or any more
    except OSError:
        return False
    return None if not answer or _CANNOT_CONNECT_NOW in answer else True


def _is_empty_shell(data: Path) -> bool:
    """Whether it is certain that no process of a former server lives in the data folder.

    After a kill, its number may stand in `postmaster.pid` as that of a process not yet buried, or
    of another program after a restart of the machine; Postgres then refuses to start for ever.
    Every Postgres process works in its data folder.
    """
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()) == data.resolve():
                return False
        except psutil.AccessDenied:
            with contextlib.suppress(psutil.Error):
                if "postgres" in process.name():
                    return False  # another user's Postgres, possibly this one
        except psutil.Error:
            continue  # it has ended
    return True
