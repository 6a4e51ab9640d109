"""A lane has one process at a time: none is made while a former one has yet to end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from medusa_core.commits import Lane
from medusa_core.names import Participant
from medusa_core.supervising import JOB_RESTARTS, GiveUp, JobPolicy, Kill, Start, Wait, lane_of
from medusa_core.supervision import DesiredJob, Job
from pipelines.base.exit_codes import INTERRUPTED
from pipelines.base.failpoints import FILE, POINT
from pipelines.base.settings import Settings
from pipelines.platform.jobs.launch import Launch
from pipelines.platform.jobs.supervision_tick import SupervisionTick, supervise_home
from tests.supervising.conftest import ALPHA, Supervised
from tests.waiting import until

SOON_S = 180
HURRIED = JobPolicy(
    restart=replace(JOB_RESTARTS, silent_ms_max=60_000, back_off_ms=0, back_off_ms_max=0),
    spawn_ms_max=1,
    stop_ms_max=600_000,
)
"""Who waits for nothing that a lock does not make it wait for, and kills nothing by itself."""


def processes_of(settings: Settings, lane: Lane = Lane.LIVE) -> set[int]:
    """The job processes of alpha's lane that are alive, by what the system says of their words."""
    found = set()
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if (
                "pipelines.cli.job_process" in words
                and words[words.index("--participant") + 1] == ALPHA
                and words[words.index("--lane") + 1] == lane.value
                and process.environ().get("MEDUSA_DIR") == str(settings.directory)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.add(process.pid)
        except (psutil.Error, ValueError):
            continue
    return found


def look(supervised: Supervised, policy: JobPolicy = HURRIED) -> SupervisionTick:
    tick = supervise_home(ALPHA, supervised.store(), supervised.launch, policy)
    supervised.all_jobs()
    return tick


def status(turn: SupervisionTick) -> object:
    return next(one for one in turn.pending if lane_of(one) is Lane.LIVE)


@contextmanager
def failing_at(point: str, announced: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes that are made meanwhile stand still at a point."""
    with monkeypatch.context() as patched:
        patched.setenv(POINT, point)
        patched.setenv(FILE, str(announced))
        yield


def begun_at(
    supervised: Supervised, point: str, announced: Path, monkeypatch: pytest.MonkeyPatch
) -> Job:
    """A job that is desired, and whose process has begun; it stands still at a point."""
    supervised.wants()
    with failing_at(point, announced, monkeypatch):
        supervised.tick()
    return supervised.begun()


def is_followed(supervised: Supervised, policy: JobPolicy = HURRIED) -> bool:
    return any(isinstance(one, Start) for one in look(supervised, policy).done)


@pytest.mark.long
def test_a_process_that_has_said_that_it_ended_is_waited_for(
    supervised: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose JVM was killed: its job fails, and the process itself takes a while to end."""
    announced = tmp_path / "reached"
    first = begun_at(supervised, "job.ended", announced, monkeypatch)
    supervised.wants(False)
    supervised.tick()
    until(announced.exists, "it has written down its end", SOON_S)
    assert supervised.open_job() is None
    supervised.wants()
    tick = look(supervised)
    assert processes_of(supervised.settings) == {first.pid}
    assert [type(one) for one in tick.done] == []
    waits = status(tick)
    assert isinstance(waits, Wait)
    assert waits.because == f"process {first.pid} of job {first.id} has yet to end"
    announced.unlink()
    until(lambda: is_followed(supervised), "it is followed once it is gone", SOON_S)
    assert first.pid not in processes_of(supervised.settings)


@pytest.mark.long
def test_a_process_that_is_stopped_as_soon_as_it_has_begun_records_its_end(
    supervised: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = tmp_path / "reached"
    first = begun_at(supervised, "job.begun", announced, monkeypatch)
    until(announced.exists, "it has taken its job up", SOON_S)
    supervised.wants(False)
    supervised.tick()
    announced.unlink()
    until(lambda: not processes_of(supervised.settings), "it is gone", SOON_S)
    (ended,) = (job for job in supervised.all_jobs() if job.id == first.id)
    assert ended.exit_code == INTERRUPTED
    assert ended.because is not None
    assert ended.because.endswith("interrupted; what was committed stays")


@pytest.mark.long
def test_a_process_that_does_not_end_is_killed(
    supervised: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = tmp_path / "reached"
    first = begun_at(supervised, "job.ended", announced, monkeypatch)
    supervised.wants(False)
    supervised.tick()
    until(announced.exists, "it has written down its end", SOON_S)

    def is_ended() -> bool:
        tick = look(supervised, replace(HURRIED, stop_ms_max=500))
        return any(isinstance(one, Kill) and one.job.id == first.id for one in tick.done)

    until(is_ended, "it is ended, although nobody wants another", SOON_S)
    until(lambda: not processes_of(supervised.settings), "it is gone")


@pytest.mark.long
def test_a_slow_process_whose_job_was_closed_is_waited_for(
    supervised: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a supervisor ends on the way, and its process comes to its job too late."""
    announced = tmp_path / "reached"
    supervised.wants()
    words = ("--once", "--participant", ALPHA)
    killed = supervised.supervisor(*words, **{POINT: "supervise.spawned", FILE: str(announced)})
    try:
        until(lambda: announced.exists() or killed.poll() is not None, "it has made it", SOON_S)
        (made,) = processes_of(supervised.settings)
        os.kill(made, signal.SIGSTOP)
    finally:
        killed.kill()
        killed.communicate()
    try:
        intent = supervised.open_job()
        assert intent is not None
        assert intent.pid is None, "nothing tells of the process but the process"

        def is_closed() -> bool:
            look(supervised)
            return any(j.id == intent.id and j.ended_at_ms for j in supervised.all_jobs())

        until(is_closed, "its job is closed", SOON_S)
        tick = look(supervised)
        assert processes_of(supervised.settings) == {made}
        assert isinstance(status(tick), Wait)
        given_up = status(
            look(supervised, replace(HURRIED, restart=replace(HURRIED.restart, start_ms_max=0)))
        )
        assert isinstance(given_up, GiveUp)
        assert given_up.because.endswith("that no job names: find it, and end it")
    finally:
        os.kill(made, signal.SIGCONT)
    until(lambda: is_followed(supervised), "it learns that it came too late, and ends", SOON_S)
    assert made not in processes_of(supervised.settings)


class Submitted(Launch):
    """The shape of spark-submit: the process that is made leads another, which is the job."""

    def command(self, participant: Participant, desired: DesiredJob, job: int) -> list[str]:
        job_words = super().command(participant, desired, job)
        leads = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
        return [sys.executable, "-c", leads, *job_words]


@pytest.mark.long
def test_a_job_whose_leader_was_killed_is_waited_for(supervised: Supervised) -> None:
    supervised.launch = Submitted(settings=supervised.settings, lease_s=supervised.launch.lease_s)
    supervised.wants()
    supervised.tick()
    first = supervised.begun()
    job_processes = processes_of(supervised.settings) - {first.pid}
    assert len(job_processes) == 1
    os.kill(first.pid or 0, signal.SIGKILL)
    until(lambda: first.pid not in processes_of(supervised.settings), "its leader is gone")
    tick = look(supervised)
    assert processes_of(supervised.settings) == job_processes
    assert isinstance(status(tick), Wait)
    until(lambda: is_followed(supervised), "it hears that its job is closed, and ends", SOON_S)
    assert not job_processes & processes_of(supervised.settings)
