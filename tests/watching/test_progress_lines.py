"""Lines of a run: what has happened since the last one, a second after it at the earliest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from medusa_core.names import StreamName
from medusa_core.segments import Stability
from pipelines.base.settings import Settings
from pipelines.cli.main import main
from pipelines.operations import participant_run
from pipelines.operations.participant_run import Observer, Progress, RunOptions, Standby
from pipelines.sources.live.live_source import Polled
from pipelines.watching.progress_lines import ProgressLines
from pipelines.watching.watcher import Watcher
from tests.catalog import building as a
from tests.watching.homes import World


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time_() -> Time:
    return Time()


@pytest.fixture
def written() -> list[str]:
    return []


@pytest.fixture
def progress(time_: Time, written: list[str]) -> ProgressLines:
    return ProgressLines(written.append, monotonic=time_, wall=time_)


@pytest.fixture
def watcher(tmp_path: Path, time_: Time, progress: ProgressLines) -> Watcher:
    made = Watcher(a.ALPHA, tmp_path, secrets=["kanarienvogel"], monotonic=time_, wall=time_)
    made.on_event = progress.note
    return made


def polled(landed: int) -> Polled:
    return Polled(batches=1, landed=landed, quarantined=1, boundary_us=None)


def test_a_line_says_what_was_landed_committed_and_how_far_streams_are(
    watcher: Watcher, progress: ProgressLines, time_: Time, written: list[str]
) -> None:
    progress.say("alpha runs")
    world = World()
    watcher.polled(a.SRC, polled(900))
    for applied in (world.close(), world.compute(Stability.TENTATIVE)):
        watcher.decided(applied.decision)
        watcher.applied(applied)
    assert written == ["1970-01-01T00:16:40Z  alpha runs"]
    time_.now_s += 1
    progress.write_due()
    (line,) = written[1:]
    assert line.split("  ")[0] == "1970-01-01T00:16:41Z"
    assert line.split("  ")[1].split("; ") == [
        "landed 900 records of src",
        "committed 1 step with 2 rows",
        "1 record in quarantine",
        "sums tentative through 1970-01-01T00:00:20Z",
        "src stable through 1970-01-01T00:00:20Z",
    ]


def test_lines_are_a_second_apart_and_none_is_written_while_nothing_happens(
    watcher: Watcher, progress: ProgressLines, time_: Time, written: list[str]
) -> None:
    for _ in range(100):
        watcher.polled(StreamName("ticks"), polled(10))
        time_.now_s += 0.1
    assert 9 <= len(written) <= 11
    progress.write_rest()
    landed = [int(line.split("landed ")[1].split(" ")[0]) for line in written]
    assert sum(landed) == 1_000
    time_.now_s += 60
    progress.write_due()
    progress.write_rest()
    assert len(written) == len(landed)


def test_alarms_and_errors_are_shown_without_secrets_and_on_one_line(
    watcher: Watcher, time_: Time, written: list[str]
) -> None:
    watcher.alarm("links", "password=kanarienvogel\x1b[31m\nno route")
    time_.now_s += 1
    watcher.alarm("links", None)
    time_.now_s += 1
    watcher.error(ValueError("x" * 1_000))
    assert len(written) == 3
    assert written[0].startswith("1970-01-01T00:16:40Z  ALARM links: ")
    assert "ALARM ended: links" in written[1]
    assert all(line.isprintable() and "kanarienvogel" not in line for line in written)
    assert len(written[2]) < 400


@pytest.mark.parametrize(("words", "reports"), [((), True), (("--quiet",), False)])
def test_run_prints_the_lines_unless_it_is_quiet(
    words: tuple[str, ...],
    reports: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(settings: Settings, options: RunOptions, observer: Observer) -> None:
        assert options.reports_progress is reports
        observer(Progress("a line"))
        observer(Standby(participant=a.ALPHA, fragments=1))

    monkeypatch.setattr(participant_run, "run_participant", run)
    assert main(["run", *words]) == 0
    assert capsys.readouterr().out == "a line\nalpha is on standby: 1 fragment ready\n"


BROKEN = """
from pipelines.cli import run
from pipelines.operations.participant_run import Progress
output = run._Output()
for _ in range(3):
    output.show(Progress("a line"))
"""


def test_a_run_continues_when_nothing_reads_its_output(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-c", BROKEN], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")
