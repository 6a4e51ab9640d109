"""A replay that is killed goes on from its last commit, and nothing it started outlives it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from medusa_core.knowledge import Limits
from pipelines.base.failpoints import FILE, POINT
from pipelines.cli.main import main
from pipelines.language.load import load_network
from pipelines.sources.generated_files import write_generated
from tests.conftest import folder_on_memory
from tests.federation.processes import kill
from tests.replaying import Replayer, replay_in
from tests.sweeps import long_but
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

RECORDS, RECORDS_PER_STEP_MAX = 15_000, 2_500
PROGRAM = (sys.executable, "-m", "pipelines.cli.main")
Run = Callable[[Path, Path, Path], dict[str, object]]
ANSWERS = ("busy_sources.csv", "scanning_sources.csv", "scanning_prefixes.csv")
HALF_WAY = "step.decided:3"
"""Where a replay waits to be ended: two steps are committed, and several are left."""


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("connections")
    (path,) = write_generated(folder, seed=11, records=RECORDS)
    return path


def command(connections: Path, keep: Path, export: Path) -> list[str]:
    return [
        *PROGRAM, "replay", "netmon", "--input", str(connections),
        "--keep", str(keep), "--export", str(export), "--json",
        "--records-per-step-max", str(RECORDS_PER_STEP_MAX),
    ]  # fmt: skip


def start(connections: Path, keep: Path, export: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(connections, keep, export),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "MEDUSA_CATALOG_URL": "", **environment},
    )


def run_as_a_process(connections: Path, keep: Path, export: Path) -> dict[str, object]:
    """Run the command to its end as a user does."""
    process = start(connections, keep, export)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    document: dict[str, object] = json.loads(out)
    return document


@pytest.fixture
def run_here(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs the command to its end in this process, with the Spark of the tests."""

    def run(connections: Path, keep: Path, export: Path) -> dict[str, object]:
        replay_in(spark, monkeypatch)
        monkeypatch.setenv("MEDUSA_CATALOG_URL", "")
        code = main(command(connections, keep, export)[len(PROGRAM) :])
        out, errors = capsys.readouterr()
        assert code == 0, errors
        document: dict[str, object] = json.loads(out)
        return document

    return run


def brought_half_way(process: subprocess.Popen[str], announced: Path) -> list[psutil.Process]:
    """What a replay has started, once it stands at its failpoint."""
    until(
        lambda: announced.exists() or process.poll() is not None,
        "the replay has come half way",
        seconds_max=300,
    )
    if process.poll() is not None:
        # Its pipes may be open in what it has left behind: no wait for their end without a limit.
        _, errors = process.communicate(timeout=60)
        pytest.fail(f"the replay ended with {process.returncode} before it was half way: {errors}")
    started = descendants(process)
    assert started, "the replay stands half way and has started nothing"
    return started


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
def undisturbed(
    connections: Path, postgres_server: EmbeddedServer, spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:  # fmt: skip
    """What a replay exports that is not ended half way."""
    replayer = Replayer(postgres_server, spark, tmp_path_factory.mktemp("undisturbed"))
    limits = Limits(records_per_step_max=RECORDS_PER_STEP_MAX)
    with replayer.home() as home:
        export = replayer.folder / "export"
        inputs = {"connections": [connections]}
        replayer.run(home, load_network("netmon"), inputs, limits=limits, export=export)
    return export


@pytest.fixture
def place() -> Iterator[Path]:
    with folder_for_a_server() as folder:
        yield folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "resumes_here"),
    long_but(1, [(signal.SIGKILL, True), (signal.SIGKILL, False), (signal.SIGINT, False)]),
)
def test_a_replay_ended_half_way_leaves_no_process_and_goes_on_from_its_last_commit(
    connections: Path,
    undisturbed: Path,
    place: Path,
    run_here: Run,
    number: int,
    resumes_here: bool,
) -> None:
    keep, export = place / "keep", place / "export"
    # Without the failpoint it would be over before a slow test has come to end it.
    announced = place / "half way"
    environment = {POINT: HALF_WAY, FILE: str(announced)}
    with start(connections, keep, export, **environment) as process:
        try:
            started = brought_half_way(process, announced)
            if number == signal.SIGKILL:
                process.kill()
            else:
                os.killpg(process.pid, number)
            process.communicate(timeout=180)
        finally:
            # At its failpoint it stands for ever: without this it would outlive a test that fails.
            kill(process)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    until(
        lambda: are_gone(started),
        "every process that the replay started has ended",
        seconds_max=120,
    )
    assert not any(export.glob("*.csv"))
    document = (run_here if resumes_here else run_as_a_process)(connections, keep, export)
    assert int(str(document["steps_resumed"])) > 0
    for name in ANSWERS:
        assert (export / name).read_bytes() == (undisturbed / name).read_bytes(), name
    refuses_another_replay(keep, place)


def refuses_another_replay(keep: Path, place: Path) -> None:
    """A folder that holds a replay takes no replay of other records."""
    (other,) = write_generated(place / "other", seed=12, records=100)
    process = start(other, keep, place / "other export")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "holds another replay" in errors
    assert "Traceback" not in errors
