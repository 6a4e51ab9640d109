"""Supervisors and jobs are killed, frozen and misled in an order from a seed: the lane never has
two processes at once, and in the end it has one, while other processes keep the machine busy.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from medusa_core.commits import Cause, Lane
from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from medusa_core.supervising import JobPolicy
from medusa_core.supervision import ProcessState
from pipelines.base.failpoints import FILE, POINT, SUPERVISION_POINTS
from pipelines.base.settings import Settings
from pipelines.homes.home import open_home
from pipelines.platform.jobs.job_processes import inspect_process
from pipelines.platform.jobs.launch import Launch
from pipelines.platform.jobs.supervised_homes import open_jobs
from pipelines.platform.jobs.supervision_tick import supervise_home
from tests.supervising.conftest import ALPHA, BETA, LEASE_S, Supervised
from tests.supervising.test_one_process import HURRIED
from tests.waiting import until

MISLED = replace(
    HURRIED,
    restart=replace(HURRIED.restart, silent_ms_max=6_000, failures_max=1_000_000),
    spawn_ms_max=50,
    stop_ms_max=500,
)
"""Who takes what is slow for dead, and never gives up."""

LONG_LIMITS = replace(
    MISLED, restart=replace(MISLED.restart, silent_ms_max=60_000), spawn_ms_max=60_000
)

SUPERVISORS, BUSY, JAVA_KILLED = 3, 2, 3
DEEDS = 30
HEAL_S_MAX = 180
YOUNG_S = 30.0
BURN = "import os\nwhile os.getppid() == {parent}:\n    sum(range(100_000))\n"


class Watch(threading.Thread):
    """Looks at the table of processes all the time: which job processes of the lane are alive."""

    def __init__(self, settings: Settings, participant: Participant = ALPHA) -> None:
        super().__init__(daemon=True)
        self._words = {"pipelines.cli.job_process", participant, Lane.LIVE.value}
        self._directory = str(settings.directory)
        self._others: set[int] = set()
        self._done = threading.Event()
        self.seen: set[int] = set()
        self.two: list[tuple[int, int]] = []
        self.looks = 0

    def run(self) -> None:
        while not self._done.is_set():
            self.look()

    def look(self) -> None:
        alive: dict[int, psutil.Process] = {}
        for pid in psutil.pids():
            if pid in self._others:
                continue
            process = self._job(pid)
            if process is None:
                continue
            # Seen one after the other they may have lived one after the other: look again.
            for other in alive.values():
                if is_alive(other) and is_alive(process) and not is_fork(other, process):
                    self.two.append((other.pid, pid))
            alive[pid] = process
            self.seen.add(pid)
        self.looks += 1

    def _job(self, pid: int) -> psutil.Process | None:
        try:
            process = psutil.Process(pid)
            is_job = self._words <= set(process.cmdline())
            if is_job and process.environ().get("MEDUSA_DIR") == self._directory:
                return process if is_alive(process) else None
            if time.time() - process.create_time() > YOUNG_S:
                self._others.add(pid)  # what has just been forked may become a job
        except psutil.Error:
            return None
        return None

    def end(self) -> None:
        """What lives at the end is seen, however long the last look took."""
        self._done.set()
        self.join()
        self.look()


def is_fork(one: psutil.Process, other: psutil.Process) -> bool:
    """Whether one is the other's child, which is about to become another program."""
    try:
        return one.pid == other.ppid() or other.pid == one.ppid()
    except psutil.Error:
        return True


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@contextmanager
def supervising(
    settings: Settings, policy: JobPolicy, participant: Participant = ALPHA
) -> Iterator[None]:
    """Supervisors that look again at once, each with a connection of its own."""
    done = threading.Event()

    def supervise() -> None:
        launch = Launch(settings=settings, lease_s=LEASE_S)
        with open_jobs(settings) as jobs:
            while not done.wait(0.05):
                with suppress(MedusaError):
                    supervise_home(participant, jobs.of(participant), launch, policy)

    threads = [threading.Thread(target=supervise) for _ in range(SUPERVISORS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


@contextmanager
def busy() -> Iterator[None]:
    words = [sys.executable, "-c", BURN.format(parent=os.getpid())]
    burning = [subprocess.Popen(words, start_new_session=True) for _ in range(BUSY)]
    try:
        yield
    finally:
        for one in burning:
            one.kill()
            one.wait()


class Chaos:
    """What a seed does to jobs and supervisors."""

    def __init__(self, supervised: Supervised, seed: int, folder: Path) -> None:
        self._supervised = supervised
        self._chance = random.Random(seed)
        self._folder = folder
        self._stack = ExitStack()
        self._frozen: list[tuple[float, int]] = []

    def do(self, number: int) -> None:
        """One deed, and what is frozen goes on in its time."""
        deeds = (self._kill, self._kill, self._freeze, self._deny, self._close, self._fail)
        self._chance.choice(deeds)(number)
        time.sleep(self._chance.uniform(0.05, 0.8))
        self._resume(time.monotonic())

    def end(self) -> None:
        """Nothing is frozen, wrong or half done any more, and the job is wanted."""
        self._resume(float("inf"))
        self._stack.close()
        self._supervised.wants()

    def _signal(self, number: signal.Signals) -> int | None:
        job = self._supervised.open_job()
        if job is None or inspect_process(job) is not ProcessState.RUNS or job.pid is None:
            return None
        with suppress(ProcessLookupError):
            os.killpg(job.pid, number)
        return job.pid

    def _kill(self, number: int) -> None:
        self._signal(self._chance.choice([signal.SIGKILL, signal.SIGTERM]))

    def _freeze(self, number: int) -> None:
        pid = self._signal(signal.SIGSTOP)
        if pid is not None:
            self._frozen.append((time.monotonic() + self._chance.uniform(0.2, 5.0), pid))

    def _deny(self, number: int) -> None:
        """Nobody wants it, and at once somebody does."""
        self._supervised.wants(False)
        time.sleep(self._chance.uniform(0, 0.5))
        self._supervised.wants()

    def _close(self, number: int) -> None:
        """The row says that the job has ended, and it has not."""
        job = self._supervised.open_job()
        if job is not None:
            self._supervised.store().end(job.id, None, "misled")

    def _fail(self, number: int) -> None:
        """Another supervisor is killed on the way, or its job before it begins or as it ends."""
        announced = self._folder / f"reached-{number}"
        point = self._chance.choice(SUPERVISION_POINTS)
        words = ("--once", "--participant", ALPHA)
        process = self._supervised.supervisor(*words, **{POINT: point, FILE: str(announced)})

        def end() -> None:
            process.kill()
            process.communicate()
            announced.unlink(missing_ok=True)

        self._stack.callback(end)
        time.sleep(self._chance.uniform(0, 3.0))
        if self._chance.random() < 0.7:
            end()

    def _resume(self, now_s: float) -> None:
        for until_s, pid in self._frozen:
            if until_s <= now_s:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGCONT)
        self._frozen = [one for one in self._frozen if one[0] > now_s]


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1, marks=pytest.mark.long),
        *(pytest.param(seed, marks=pytest.mark.crash) for seed in range(2, 12)),
    ],
)
def test_a_lane_never_has_two_processes(supervised: Supervised, seed: int, tmp_path: Path) -> None:
    watch = Watch(supervised.settings)
    watch.start()
    chaos = Chaos(supervised, seed, tmp_path)
    supervised.wants()
    with busy():
        with supervising(supervised.settings, MISLED):
            for number in range(DEEDS):
                chaos.do(number)
            chaos.end()
        with supervising(supervised.settings, LONG_LIMITS):
            until(lambda: is_at_work(supervised), "in the end a job runs", HEAL_S_MAX)
    watch.end()
    assert watch.two == [], f"after {watch.looks} looks"
    assert len(watch.seen) > DEEDS // 10, "jobs were killed and followed"


@pytest.mark.crash
def test_a_participant_whose_java_process_is_killed_never_has_two_processes(
    supervised: Supervised,
) -> None:
    watch = Watch(supervised.settings, BETA)
    watch.start()
    supervised.wants(name=ALPHA)
    supervised.wants(name=BETA)
    with (
        busy(),
        supervising(supervised.settings, LONG_LIMITS, ALPHA),
        supervising(supervised.settings, LONG_LIMITS, BETA),
        open_home(supervised.settings, BETA) as home,
    ):
        for _ in range(JAVA_KILLED):
            made = home.catalog.step_counts().get(Cause.NORMAL, 0)
            until(
                lambda made=made: home.catalog.step_counts().get(Cause.NORMAL, 0) > made,  # type: ignore[misc]
                "it computes",
                HEAL_S_MAX,
            )
            java, job = java_of(supervised), supervised.open_job(BETA)
            assert java is not None
            assert job is not None
            java.kill()
            until(lambda job=job: inspect_process(job) is ProcessState.GONE, "it ends", HEAL_S_MAX)  # type: ignore[misc]
    watch.end()
    assert watch.two == [], f"after {watch.looks} looks"
    assert len(watch.seen) > JAVA_KILLED


def java_of(supervised: Supervised) -> psutil.Process | None:
    """The Java process under the job of beta."""
    job = supervised.open_job(BETA)
    if job is None or job.pid is None:
        return None
    try:
        below = psutil.Process(job.pid).children(recursive=True)
        return next((one for one in below if one.name() == "java"), None)
    except psutil.Error:
        return None


def is_at_work(supervised: Supervised, name: Participant = ALPHA) -> bool:
    job = supervised.open_job(name)
    return (
        job is not None
        and inspect_process(job) is ProcessState.RUNS
        and any(holder.startswith(job.holder) for holder in supervised.holders(name))
    )
