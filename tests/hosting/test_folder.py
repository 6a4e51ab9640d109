"""The platform's own files: secrets of one folder, a port that is free, logs that stay small."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from medusa_core.errors import Conflict, Refused
from pipelines.base.log_rotation import remove_old, rotate_logs
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.environment import Place, airflow_environment
from pipelines.platform.airflow_components.platform_state import StateFile
from pipelines.platform.airflow_components.ports import require_port
from tests.hosting.platforms import port_of_ones_own


@pytest.fixture
def folder(tmp_path: Path) -> PlatformFolder:
    made = PlatformFolder(tmp_path / "home")
    made.make()
    return made


# ---------------------------------------------------------------- secrets


def test_secrets_are_drawn_once_and_readable_by_their_owner_alone(folder: PlatformFolder) -> None:
    drawn = folder.secrets(is_embedded=True)
    password, is_new = folder.password()
    folder.write_pgpass(["a:b"])
    assert is_new
    assert folder.secrets(is_embedded=True) == drawn
    assert folder.password() == (password, False)
    assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700
    for file in folder.root.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_two_folders_share_no_secret_and_no_database_of_a_server_of_ones_own(
    folder: PlatformFolder, tmp_path: Path
) -> None:
    other = PlatformFolder(tmp_path / "other")
    other.make()
    one, two = folder.secrets(is_embedded=False), other.secrets(is_embedded=False)
    for name in one.__slots__:
        assert getattr(one, name) != getattr(two, name), name


def test_a_password_of_ones_own_is_kept(folder: PlatformFolder) -> None:
    folder.passwords.write_text('{"admin": "mine", "guest": "theirs"}')
    assert folder.password() == ("mine", False)


@pytest.mark.parametrize("name", ["secrets.json", "started.json", "state.json", "platform.json"])
@pytest.mark.parametrize("text", ["{", "[]", "", '{"processes": [{"x": 1}], "y": 2}'])
def test_a_corrupted_file_is_reported_or_read_as_it_is(
    folder: PlatformFolder, name: str, text: str
) -> None:
    (folder.root / name).write_text(text)
    read = {
        "secrets.json": lambda: folder.secrets(is_embedded=True),
        "started.json": folder.started,
        "state.json": folder.state,
        "platform.json": folder.chosen,
    }[name]
    is_readable = text.startswith("{") and len(text) > 1 and name[:2] in ("st", "pl")
    if is_readable and name != "started.json":
        assert read()
    else:
        with pytest.raises(Refused, match=name):
            read()


def test_how_it_stands_is_written_when_it_changes_and_again_if_somebody_removed_it(
    folder: PlatformFolder,
) -> None:
    state_file, file = StateFile(folder, print), folder.root / "state.json"
    state_file.say("up")
    written = file.stat().st_ino
    state_file.say("up")
    assert file.stat().st_ino == written
    state_file.note(psql="psql -h there")
    assert folder.state()["psql"] == "psql -h there"
    file.unlink()
    state_file.say("up")
    assert folder.state()["supervisor"]["pid"] == os.getpid(), "`down` finds it"


# ---------------------------------------------------------------- one at a time


def test_there_is_one_supervisor_at_a_time(folder: PlatformFolder) -> None:
    assert not folder.is_supervised()
    with folder.supervising():
        assert folder.is_supervised()
        with pytest.raises(Conflict, match="up already"), folder.supervising():
            pass
    assert not folder.is_supervised()


# ---------------------------------------------------------------- ports


def test_a_port_in_use_is_named_with_who_has_it_and_the_mend() -> None:
    port = port_of_ones_own()
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(Conflict, match=rf"port {port} is in use.*process {os.getpid()}.*--port"),
    ):
        require_port("127.0.0.1", port)
    require_port("127.0.0.1", port)


def test_an_address_that_is_not_of_this_machine_is_refused() -> None:
    for host in ("192.0.2.1", "no.such.host.invalid"):
        with pytest.raises(Refused, match="no address of this machine"):
            require_port(host, 18_099)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[pytest.mark.long] if number > 1 else [])
        for number, words in enumerate(
            [
                ("--port", "65536"),
                ("--host", "localhost/x"),
                ("--port", "0"),
                ("--port", "８080"),
                ("--host", ""),
                ("--host", "a b"),
                ("--host", "a@b"),
                ("--host", "x\n"),
            ]
        )
    ],
)
def test_an_invalid_address_is_refused_before_anything_is_created(
    words: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path / "home"))
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli.main", "up", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "home").exists()


# ---------------------------------------------------------------- logs


def test_a_large_log_is_rotated_and_its_writer_continues(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("a") as writer:
        for tick in range(5):
            writer.write(f"{tick}" * 100)
            writer.flush()
            rotate_logs([log, tmp_path / "absent.log"], bytes_max=50, kept=3)
        writer.write("now")
    assert log.read_text() == "now"
    assert [(tmp_path / f"a.log.{n}").read_text()[0] for n in (1, 2, 3)] == ["4", "3", "2"]
    assert not (tmp_path / "a.log.4").exists()


def test_old_logs_of_tasks_are_removed_and_new_ones_stay(tmp_path: Path) -> None:
    old, new = tmp_path / "dag" / "old" / "1.log", tmp_path / "dag" / "new" / "1.log"
    for path in (old, new):
        path.parent.mkdir(parents=True)
        path.write_text("words")
    os.utime(old, (1, 1))
    os.utime(old.parent, (1, 1))
    remove_old(tmp_path, days=1)
    assert new.exists()
    assert not old.exists()


# ---------------------------------------------------------------- Airflow's environment


def environment(folder: PlatformFolder, host: str = "127.0.0.1", **environ: str) -> dict[str, str]:
    place = Place(
        directory=folder.directory,
        root=folder.root,
        dags=Path("/a/dags"),
        own_dags=Path("/a/own"),
        plugins=Path("/a/plugins"),
        programs=Path("/a/bin"),
        passwords=folder.passwords,
        host=host,
        port=8123,
        database_url="postgresql+psycopg2://airflow:secret@127.0.0.1:5/airflow",
        catalog_url=None,
    )
    return airflow_environment(place, folder.secrets(is_embedded=True), environ)


def test_nothing_of_the_callers_own_airflow_or_python_comes_through(
    folder: PlatformFolder,
) -> None:
    found = environment(
        folder,
        AIRFLOW_HOME="/elsewhere",
        AIRFLOW__CORE__PLUGINS_FOLDER="/elsewhere",
        PYTHONPATH="/elsewhere",
        LANG="de_DE.UTF-8",
    )
    assert "/elsewhere" not in found.values()
    assert found["LANG"] == "de_DE.UTF-8"
    assert found["AIRFLOW_HOME"] == str(folder.root)


def test_components_reach_each_other_directly_also_behind_a_proxy(folder: PlatformFolder) -> None:
    found = environment(folder, "0.0.0.0", HTTP_PROXY="http://proxy:3128", NO_PROXY="here")
    assert found["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:8123/execution/"
    assert found["NO_PROXY"] == "here,127.0.0.1"
