"""A replay that is killed goes on from its last commit, and nothing it started outlives it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pipelines.sources.generated_files import write_generated
from tests.conftest import folder_on_memory
from tests.sweeps import long_but
from tests.waiting import until

ANSWERS = ("busy_sources.csv", "scanning_sources.csv", "scanning_prefixes.csv")


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("connections")
    (path,) = write_generated(folder, seed=11, records=60_000)
    return path


def command(connections: Path, keep: Path, export: Path) -> list[str]:
    return [
        sys.executable, "-m", "pipelines.cli.main", "replay", "netmon", "--input", str(connections),
        "--keep", str(keep), "--export", str(export), "--records-per-step-max", "4000", "--json",
    ]  # fmt: skip


def start(connections: Path, keep: Path, export: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(connections, keep, export),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "MEDUSA_CATALOG_URL": ""},
    )


def run(connections: Path, keep: Path, export: Path) -> dict[str, object]:
    process = start(connections, keep, export)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    document: dict[str, object] = json.loads(out)
    return document


def until_it_computes(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("computed"):
            return
    pytest.fail("the replay ended before it computed anything")


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def are_gone(processes: list[psutil.Process]) -> bool:
    gone = (psutil.NoSuchProcess, psutil.ZombieProcess)
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                return False
        except gone:
            continue
    return True


@contextmanager
def folder_for_a_server() -> Iterator[Path]:
    """One that a server's user can enter, so that nothing of it lies elsewhere; gone at the end."""
    folder = folder_on_memory("medusa-killed-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def undisturbed(connections: Path) -> Iterator[Path]:
    with folder_for_a_server() as folder:
        document = run(connections, folder / "keep", folder / "export")
        assert document["steps_resumed"] == 0
        yield folder


@pytest.fixture
def place() -> Iterator[Path]:
    with folder_for_a_server() as folder:
        yield folder


@pytest.mark.parametrize("number", long_but(1, [signal.SIGKILL, signal.SIGINT]))
def test_a_replay_ended_half_way_leaves_no_process_and_goes_on_from_its_last_commit(
    connections: Path, undisturbed: Path, place: Path, number: int
) -> None:
    keep, export = place / "keep", place / "export"
    process = start(connections, keep, export)
    until_it_computes(process)
    started = descendants(process)
    assert started
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    until(lambda: are_gone(started), "every process that the replay started has ended")
    assert not any(export.glob("*.csv"))
    document = run(connections, keep, export)
    assert int(str(document["steps_resumed"])) > 0
    for name in ANSWERS:
        assert (export / name).read_bytes() == (undisturbed / "export" / name).read_bytes(), name


def test_a_kept_folder_refuses_another_replay(undisturbed: Path, tmp_path: Path) -> None:
    (other,) = write_generated(tmp_path / "other", seed=12, records=100)
    process = start(other, undisturbed / "keep", tmp_path / "export")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "holds another replay" in errors
    assert "Traceback" not in errors
