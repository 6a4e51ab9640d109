"""The embedded server: one per folder, gone with its owner, closed to everybody else."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from medusa_core.errors import Unavailable
from pipelines.catalog.server import embedded_server as server_module
from pipelines.catalog.server import server_programs
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.server_process import RunsAs
from tests.conftest import folder_on_memory
from tests.sweeps import long_but
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
AS_ROOT = os.geteuid() == 0

# A process of its own that starts or attaches, says so in one line, and stays until it is told.
OWNER = """
import json, pathlib, sys
from pipelines.catalog.server.embedded_server import EmbeddedServer
with EmbeddedServer(pathlib.Path(sys.argv[1])) as server:
    facts = {"url": server.superuser_url(), "owns": server.owns_server, "port": server.port}
    print(json.dumps(facts), flush=True)
    sys.stdin.read()
"""


class Owner:
    """A process inside the `with` block of an embedded server."""

    def __init__(self, directory: Path, **options: Any) -> None:
        command = [sys.executable, "-c", OWNER, str(directory)]
        pipe = subprocess.PIPE
        self.process: subprocess.Popen[str] = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=pipe, stdout=pipe, stderr=pipe, text=True, **options
        )

    def facts(self) -> dict[str, object]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return dict(json.loads(line))

    def end(self) -> str:
        """Let it leave the block; returns what it said on stderr."""
        return str(self.process.communicate(input="", timeout=60)[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def made_folder() -> Iterator[Path]:
    """A folder with the data of a server that has stopped."""
    base = folder_on_memory("medusa-made-")
    server = EmbeddedServer(base / "a catalog")
    with server:
        pass
    yield base / "a catalog"
    server.discard()
    shutil.rmtree(base)


@pytest.fixture
def folder(server_folder: Path, made_folder: Path) -> Path:
    """A folder that was a server before: to make its data takes longer than most tests."""
    subprocess.run(["cp", "-a", made_folder, server_folder], check=True)
    return server_folder


def ask(url: str, sql: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(url.replace("+psycopg2", ""))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []
    finally:
        connection.close()


def postmaster_pid(directory: Path) -> int:
    return int((directory / "cluster/data/postmaster.pid").read_text().split()[0])


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


def test_a_new_folder_becomes_a_server_and_its_data_outlives_a_restart(
    server_folder: Path,
) -> None:
    folder = server_folder
    with EmbeddedServer(folder) as server:
        assert server.owns_server
        first_port = server.port
        ask(server.superuser_url(), "create table kept as select 42 as answer")
    assert not (folder / "cluster/data/postmaster.pid").exists()
    with socket.socket() as kept:
        # Bound and not listening, it keeps the port from other programs of this machine.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", first_port))
        with EmbeddedServer(folder) as server:
            assert ask(server.superuser_url(), "select answer from kept") == [(42,)]
            assert server.port == first_port


def test_it_listens_on_loopback_only_and_has_no_socket_file(
    postgres_server: EmbeddedServer,
) -> None:
    url = postgres_server.superuser_url()
    assert ask(url, "show listen_addresses") == [("127.0.0.1",)]
    assert ask(url, "show unix_socket_directories") == [("",)]
    assert ask(url, "show fsync") == [("on",)]
    assert ask(url, "show timezone") == [("UTC",)]
    methods = ask(url, "select distinct auth_method from pg_hba_file_rules order by 1")
    assert methods == [("reject",), ("scram-sha-256",)]


def test_a_wrong_password_is_refused(postgres_server: EmbeddedServer) -> None:
    for password in ("wrong", None):
        url = postgres_server.url("postgres", "postgres", password)
        with pytest.raises(psycopg2.OperationalError, match="password"):
            ask(url, "select 1")


def test_a_role_with_a_difficult_name_and_password_gets_in(postgres_server: EmbeddedServer) -> None:
    ask(postgres_server.superuser_url(), """create role "a b@c/d" login password 'p:@/%20 é'""")
    ask(postgres_server.superuser_url(), "create database difficult")
    url = postgres_server.url("difficult", "a b@c/d", "p:@/%20 é")
    assert ask(url, "select current_user") == [("a b@c/d",)]


def test_the_password_is_random_and_for_its_owner_only(server_folder: Path) -> None:
    folder = server_folder
    with EmbeddedServer(folder) as server:
        mode = stat.S_IMODE((folder / "password").stat().st_mode)
        assert mode == 0o600
        assert len((folder / "password").read_text()) >= 32
        assert (folder / "password").read_text() not in server.log.read_text()


@pytest.mark.long(quick=True)
def test_a_second_process_attaches_and_leaves_the_server_running(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        guest = Owner(folder)
        assert guest.facts() == {
            "url": server.superuser_url(),
            "owns": False,
            "port": server.port,
        }
        assert guest.end() == ""
        assert ask(server.superuser_url(), "select 1") == [(1,)]


@pytest.mark.long(quick=True)
@needs_proc
def test_starting_attaching_and_reviving_need_no_password(folder: Path) -> None:
    (folder / "password").rename(folder / "elsewhere")
    with EmbeddedServer(folder) as server, EmbeddedServer(folder) as guest:
        assert (server.owns_server, guest.owns_server) == (True, False)
        os.kill(postmaster_pid(folder), signal.SIGKILL)
        until(lambda: not is_alive(postmaster_pid(folder)), "postgres has ended")
        server.revive()
        assert server.owns_server
        assert guest.address == server.address
        with pytest.raises(Unavailable, match=r"password.*cannot be read.*restore it"):
            guest.superuser_url()
        assert not (folder / "password").exists()
        (folder / "elsewhere").rename(folder / "password")
        assert ask(guest.superuser_url(), "select 1") == [(1,)]


@pytest.mark.long(quick=True)
@needs_proc
def test_a_server_that_recovers_after_a_crash_of_a_session_is_waited_for(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        ask(server.superuser_url(), "create table kept as select 42 as answer")
        # Postgres ends all sessions and recovers when one was killed.
        for pid in children_of(postmaster_pid(folder)):
            with suppress(ProcessLookupError):  # Postgres was faster
                os.kill(pid, signal.SIGKILL)
        with EmbeddedServer(folder) as guest:
            assert not guest.owns_server
            url = guest.superuser_url()
            until(lambda: answers(url), "postgres has recovered")
            assert ask(url, "select answer from kept") == [(42,)]


def answers(url: str) -> bool:
    try:
        return ask(url, "select 1") == [(1,)]
    except psycopg2.OperationalError:
        return False


@pytest.mark.long(quick=True)
def test_an_owner_that_is_done_waits_for_those_who_attached(folder: Path) -> None:
    owner = Owner(folder)
    url = str(owner.facts()["url"])
    with EmbeddedServer(folder) as attached:
        assert not attached.owns_server
        assert owner.process.stdin is not None
        owner.process.stdin.close()  # the owner leaves its block now
        with pytest.raises(subprocess.TimeoutExpired):
            owner.process.wait(timeout=1)
        assert ask(url, "SELECT 1") == [(1,)]
    assert owner.process.wait(timeout=60) == 0
    for pipe in (owner.process.stdout, owner.process.stderr):
        assert pipe is not None
        pipe.close()


def test_of_two_that_start_at_once_one_starts_and_the_other_attaches(
    server_folder: Path,
) -> None:
    both = [Owner(server_folder), Owner(server_folder)]
    facts = [owner.facts() for owner in both]
    assert sorted(str(fact["owns"]) for fact in facts) == ["False", "True"]
    assert facts[0]["url"] == facts[1]["url"]
    for owner, fact in sorted(
        zip(both, facts, strict=True), key=lambda pair: bool(pair[1]["owns"])
    ):
        assert ask(str(fact["url"]), "select 1") == [(1,)]
        owner.end()


@pytest.mark.long(quick=True)
@needs_proc
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its owner's death")
@pytest.mark.parametrize("how", long_but(1, [signal.SIGKILL, signal.SIGTERM]))
def test_when_the_owner_is_killed_no_process_is_left(folder: Path, how: signal.Signals) -> None:
    owner = Owner(folder)
    url = str(owner.facts()["url"])
    ask(url, "create table kept as select 42 as answer")
    pid = postmaster_pid(folder)
    processes = [pid, *children_of(pid)]
    owner.process.send_signal(how)
    owner.process.communicate()
    until(lambda: not any(map(is_alive, processes)), "postgres ends after its owner", 120)
    with EmbeddedServer(folder) as server:
        assert ask(server.superuser_url(), "select answer from kept") == [(42,)]


@needs_proc
def test_a_start_right_after_the_owner_was_killed_succeeds(folder: Path) -> None:
    for _ in range(3):
        owner = Owner(folder)
        owner.facts()
        owner.kill()
    with EmbeddedServer(folder) as server:
        assert server.owns_server


@pytest.mark.long(quick=True)
@needs_proc
def test_a_killed_postgres_recovers_at_the_next_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REMAINS_MS_MAX", 60_000)  # on a machine that pauses
    server = EmbeddedServer(folder)
    with server:
        ask(server.superuser_url(), "create table kept as select generate_series(1, 1000) as n")
        os.kill(postmaster_pid(folder), signal.SIGKILL)
    with EmbeddedServer(folder) as server:
        assert ask(server.superuser_url(), "select count(*) from kept") == [(1000,)]


@pytest.mark.long(quick=True)
@needs_proc
def test_a_stale_process_number_that_belongs_to_another_program_does_not_matter(
    folder: Path,
) -> None:
    server = EmbeddedServer(folder)
    with server:
        pid_file = (folder / "cluster/data/postmaster.pid").resolve()
        lines = pid_file.read_text().splitlines()
    # A process of the same user as Postgres, as after a restart of the machine.
    owner = pid_file.parent.stat()
    as_user = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if AS_ROOT else {}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, cwd="/", **as_user) as other:
        pid_file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        with server:
            assert ask(server.superuser_url(), "select 1") == [(1,)]
        assert other.poll() is None
        other.communicate()


def test_a_port_that_was_taken_meanwhile_is_replaced(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        old_port = other.getsockname()[1]
        (folder / "port").write_text(f"{old_port}\n")
        with EmbeddedServer(folder) as server:
            assert server.port != old_port
            assert ask(server.superuser_url(), "select 1") == [(1,)]


@pytest.mark.long(quick=True)
def test_a_server_started_in_a_thread_outlives_that_thread(folder: Path) -> None:
    server = EmbeddedServer(folder)
    thread = threading.Thread(target=server.__enter__)
    thread.start()
    thread.join()
    with EmbeddedServer(folder) as guest:
        assert not guest.owns_server
        assert ask(guest.superuser_url(), "select 1") == [(1,)]
    server.stop()


@needs_proc
def test_ctrl_c_in_the_terminal_reaches_the_owner_and_not_the_server(folder: Path) -> None:
    owner = Owner(folder, start_new_session=True)
    owner.facts()
    assert os.getpgid(postmaster_pid(folder)) != os.getpgid(owner.process.pid)
    pid = postmaster_pid(folder)
    os.killpg(owner.process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in owner.process.communicate(timeout=60)[1]
    assert not is_alive(pid)


def test_an_exit_without_leaving_the_block_stops_the_server(folder: Path) -> None:
    code = (
        "import pathlib, sys; from pipelines.catalog.server.embedded_server import EmbeddedServer\n"
        "EmbeddedServer(pathlib.Path(sys.argv[1])).__enter__(); sys.exit(3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=REPOSITORY, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")
    assert not (folder / "cluster/data/postmaster.pid").exists()


@pytest.mark.long(quick=True)
def test_the_wheels_programs_serve_where_the_machine_has_none(
    server_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_programs, "SYSTEM_PROGRAMS", tmp_path / "nothing here")
    with EmbeddedServer(server_folder) as server:
        assert ask(server.superuser_url(), "show server_version_num")[0][0] >= "180000"


@pytest.mark.long(quick=True)
def test_programs_that_cannot_be_reached_are_copied_beside_the_data(
    server_folder: Path, tmp_path: Path
) -> None:
    folder = server_folder
    if not AS_ROOT:
        pytest.skip("only root runs Postgres as somebody else")
    wheel = server_programs.installed_programs()[18][-1]
    hidden = tmp_path / "hidden"  # like a clone below a 0700 home
    hidden.mkdir(mode=0o700)
    package = wheel.parents[1]
    for part in (package, package.with_name(package.name + ".libs")):
        (hidden / part.name).mkdir()
        for name in [p.name for p in part.iterdir()]:
            (hidden / part.name / name).symlink_to(part / name)
    nobody = pwd.getpwnam("nobody")
    runs_as = RunsAs(name="nobody", uid=nobody.pw_uid, gid=nobody.pw_gid)
    folder.mkdir()
    folder.chmod(0o755)
    binaries = server_programs.copied_programs(
        hidden / package.name / "pginstall18/bin", folder, runs_as
    )
    assert binaries.is_relative_to(folder)
    output = subprocess.run([binaries / "initdb", "--version"], capture_output=True, check=True)
    assert b"18." in output.stdout


@pytest.mark.long(quick=True)
@pytest.mark.skipif(not AS_ROOT, reason="only root can be somebody else")
def test_as_root_a_closed_folder_is_served_from_outside_and_nothing_else_changes(
    tmp_path: Path,
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = [stat.S_IMODE(path.stat().st_mode) for path in (closed, *closed.parents)]
    server = EmbeddedServer(closed / "catalog")
    with server:
        assert ask(server.superuser_url(), "select 1") == [(1,)]
        outside = (closed / "catalog/cluster").resolve().parent
        assert not outside.is_relative_to(closed)
        assert (outside / "cluster").stat().st_uid != 0
    assert before == [stat.S_IMODE(path.stat().st_mode) for path in (closed, *closed.parents)]
    server.discard()
    assert not outside.exists()
    assert not (closed / "catalog").exists()


@pytest.mark.skipif(not AS_ROOT, reason="only root can be somebody else")
def test_a_normal_user_runs_it_and_root_may_come_after(tmp_path: Path) -> None:
    python = Path(sys.executable).resolve()
    nobody = pwd.getpwnam("nobody")
    as_nobody: dict[str, Any] = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    try:
        probe = [sys.executable, "-c", "import psycopg2, pipelines"]
        subprocess.run(probe, cwd=REPOSITORY, check=True, capture_output=True, **as_nobody)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"nobody cannot run {python}")
    home = Path(tempfile.mkdtemp(prefix="medusa-nobody-"))
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    directory = home / "catalog"
    try:
        owner = Owner(directory, **as_nobody)
        ask(str(owner.facts()["url"]), "create table kept as select 42 as answer")
        pid = postmaster_pid(directory)
        assert Path(f"/proc/{pid}").stat().st_uid == nobody.pw_uid
        assert owner.end() == ""
        with EmbeddedServer(directory) as server:
            assert ask(server.superuser_url(), "select answer from kept") == [(42,)]
            assert Path(f"/proc/{postmaster_pid(directory)}").stat().st_uid == nobody.pw_uid
    finally:
        shutil.rmtree(home)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match=r"file.*set MEDUSA_DIR"):
        EmbeddedServer(tmp_path / "file" / "catalog").__enter__()


@pytest.mark.long(quick=True)
def test_a_broken_data_folder_is_one_sentence_that_names_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedServer(folder):
        pass
    monkeypatch.setattr(server_module, "REMAINS_MS_MAX", 300)
    (folder / "cluster/data/postgresql.conf").write_text("nonsense = 1\n")
    with pytest.raises(
        Unavailable, match=r"does not start \(.*configuration.*\); its log is .*log"
    ):
        EmbeddedServer(folder).__enter__()


def test_no_postgres_at_all_is_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_programs, "SYSTEM_PROGRAMS", tmp_path / "nothing here")
    monkeypatch.setattr(server_programs, "WHEEL", "no_such_package")
    with pytest.raises(Unavailable, match="make setup"):
        EmbeddedServer(folder).__enter__()
