"""Processes are written down before they run, found after their maker's death, ended with all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from medusa_core.errors import Unavailable
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.component_processes import (
    MARK,
    end,
    is_there,
    left_of,
    marked,
    start,
)
from pipelines.platform.airflow_components.components import end_recorded
from pipelines.platform.airflow_components.process_sessions import Started
from tests.waiting import until

PYTHON = (sys.executable, "-I", "-S", "-c")
# They sleep for longer than any test waits: what ends them is what is tested.
SLEEPS = "import time; print('began', flush=True); time.sleep(600)"
# A leader with a child that, like an idle worker of Airflow, hears no SIGTERM.
WITH_A_DEAF_CHILD = """
import os, signal, time
if not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("began", flush=True)
time.sleep(600)
"""


class Made:
    """Starts programs and remembers them, so that a test that fails leaves none behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "words"
        self.started: list[Started] = []
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, program: str, **more: str) -> subprocess.Popen[bytes]:
        made = start(
            "a test's program",
            [*PYTHON, program],
            environment={**os.environ, **more},
            folder=self.folder,
            log=self.log,
            write_down=self.started.append,
        )
        self.children.append(made)
        until(lambda: "began" in self.log.read_text(), "it begins")
        return made


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    made = Made(tmp_path)
    yield made
    end(lambda: left_of(made.started), grace_ms=0)
    for child in made.children:
        child.wait(60)


def test_a_program_begins_once_it_is_written_down(made: Made) -> None:
    child = made.start(SLEEPS)
    assert made.started[0].pid == child.pid
    assert is_there(made.started[0])
    assert [one.pid for one in left_of(made.started)] == [child.pid]


def test_a_program_whose_maker_dies_before_it_is_written_down_never_begins(tmp_path: Path) -> None:
    maker = f"""
import os, signal, sys
from pathlib import Path
from pipelines.platform.airflow_components.component_processes import start
def killed(started):
    print(started.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
start("x", {[*PYTHON, SLEEPS]!r}, environment=dict(os.environ), folder=Path({str(tmp_path)!r}),
      log=Path({str(tmp_path / "words")!r}), write_down=killed)
"""
    done = subprocess.run(
        [sys.executable, "-c", maker], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)
    until(lambda: not _lives(pid), "the program that was not written down ends")
    assert "began" not in (tmp_path / "words").read_text()


def test_what_hears_no_signal_is_ended_too(made: Made) -> None:
    child = made.start(WITH_A_DEAF_CHILD)
    assert len(left_of(made.started)) == 2
    assert end(lambda: left_of(made.started), grace_ms=60_000) == 1
    assert child.wait(60) == -signal.SIGTERM
    assert left_of(made.started) == ()


def test_what_stands_still_is_ended_by_asking(made: Made) -> None:
    child = made.start(SLEEPS)
    os.kill(child.pid, signal.SIGSTOP)
    assert end(lambda: left_of(made.started), grace_ms=60_000) == 0
    assert child.wait(60) == -signal.SIGTERM


def test_what_a_lost_supervisor_wrote_down_is_found_and_ended(made: Made, tmp_path: Path) -> None:
    folder = PlatformFolder(tmp_path / "home")
    folder.make()
    child = made.start(WITH_A_DEAF_CHILD)
    folder.write_started(made.started)
    child.kill()
    child.wait(60)
    assert end_recorded(folder) == 1
    assert left_of(made.started) == ()
    assert folder.started() == ()
    assert end_recorded(folder) == 0


def test_a_process_that_has_the_number_of_one_that_was_written_down_is_left_alone(
    made: Made, tmp_path: Path
) -> None:
    folder = PlatformFolder(tmp_path / "home")
    folder.make()
    child = made.start(SLEEPS)
    boot, _, ticks = made.started[0].since.partition(" ")
    folder.write_started([Started("scheduler", child.pid, f"{boot} {int(ticks) - 1}")])
    assert end_recorded(folder) == 0
    assert child.poll() is None


def test_what_carries_the_mark_is_found_in_whatever_session(made: Made) -> None:
    child = made.start(WITH_A_DEAF_CHILD, **{MARK: "of-this-test"})
    made.log.write_text("")
    made.start(SLEEPS, **{MARK: "of-this-tes"})
    assert {one.session for one in marked("of-this-test")} == {child.pid}
    assert len(marked("of-this-test")) == 2


def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be started"):
        start(
            "x",
            ["/bin/true"],
            environment={},
            folder=tmp_path / "nowhere",
            log=tmp_path / "words",
            write_down=lambda _: None,
        )


def _lives(pid: int) -> bool:
    # Asked of the system itself: what the product does not see may run all the same. One that has
    # ended and waits to be buried by the system's first process does not run.
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
