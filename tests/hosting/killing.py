"""Kill -9 on what runs below a platform, and how long it takes until all is as it shall be."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from medusa_core.names import Participant
from pipelines.platform.airflow_components.component_processes import all_processes, marked
from pipelines.platform.airflow_components.components import COMPONENTS
from tests.hosting.live import ROLES, Live
from tests.hosting.observing import Observer, OpenJob, is_alive
from tests.hosting.platforms import in_sessions, lives
from tests.waiting import until

BOUND_S = 60
"""By then each lease is new, and no process is left of what was killed."""

JOB, INTENT, WORKER, POSTGRES = "stream job", "supervising task", "worker", "Postgres"
VICTIMS = (*COMPONENTS, WORKER, POSTGRES, JOB, INTENT)


@dataclass(frozen=True, slots=True)
class Killed:
    """One kill: seconds until every lease was new, until no orphan was left, until all was well."""

    victim: str
    lease_s: float
    clean_s: float
    well_s: float


@dataclass
class Killing:
    """Kills, one after the other; `done` is what became of each."""

    live: Live
    observer: Observer
    random: Random
    done: list[Killed] = field(default_factory=list)
    _sessions: set[int] = field(default_factory=set)

    def kill(self, *victims: str) -> Killed:
        """Kill these at once, and wait until all is well; fails where a bound is broken."""
        platform = self.live.platform
        until(self._is_well, "all is well before the kill", 240)
        self._sessions |= platform.sessions()
        began_s = time.time()
        other: dict[Participant, str] = {}
        children: list[tuple[int, str]] = []
        changes: list[Callable[[], bool]] = []
        for victim in victims:
            if victim == INTENT:
                began_s = self._kill_between_intent_and_spawn(other)
            elif victim == JOB:
                name = self.random.choice(sorted(ROLES))
                _, pid = self._kill_job(name, other)
                changes.append(lambda pid=pid: not in_sessions({pid}))
            else:
                pid = self._pid(victim)
                assert pid
                children += _children(pid)
                os.kill(pid, signal.SIGKILL)
                changes.append(lambda pid=pid: not lives(pid))
        until(lambda: all(change() for change in changes), "what was killed is gone")
        until(
            lambda: self.observer.renewed_since(began_s, other),
            f"each lease is new after {' and '.join(victims)}",
            BOUND_S - (time.time() - began_s),
        )
        lease_s = time.time() - began_s
        until(
            lambda: not self._orphans() and not any(is_alive(*one) for one in children),
            "no process is left without what it belongs to",
            max(1.0, BOUND_S - lease_s),
        )
        clean_s = time.time() - began_s
        until(self._is_well, f"all is well after {' and '.join(victims)}", 240)
        killed = Killed(" and ".join(victims), lease_s, clean_s, time.time() - began_s)
        self.done.append(killed)
        assert not self.observer.wrong, self.observer.wrong
        return killed

    def _is_well(self) -> bool:
        return (
            self.live.platform.is_well()
            and self.live.platform.dags_answer(self.live.password)
            and all(self.observer.job(name) for name in ROLES)
        )

    def _pid(self, victim: str) -> int:
        platform = self.live.platform
        if victim == POSTGRES:
            return platform.postmaster()
        if victim == WORKER:
            scheduler = platform.pid("scheduler")
            return self.random.choice([pid for pid, _ in _children(scheduler)])
        return platform.pid(victim)

    def _kill_job(self, name: Participant, other: dict[Participant, str]) -> tuple[OpenJob, int]:
        job = self.observer.job(name)
        assert job is not None
        assert job.pid is not None
        (lease,) = {one.holder for one in self.observer.leases(name) if one.key[-1] == "live"}
        other[name] = lease
        os.kill(job.pid, signal.SIGKILL)
        return job, job.pid

    def _kill_between_intent_and_spawn(self, other: dict[Participant, str]) -> float:
        """A log that nobody reads holds the task up where it is about to make the process."""
        name = self.random.choice(sorted(ROLES))
        with held_up(self.live.platform.folder.logs / f"job-{name}-live.out"):
            ended, _ = self._kill_job(name, other)
            until(
                lambda: any(j.id > ended.id and j.pid is None for j in self.observer.jobs(name)),
                "a task has written its intent", BOUND_S,
            )  # fmt: skip
            intent = next(job for job in self.observer.jobs(name) if job.id > ended.id)
            task = int(intent.intended_by.rpartition("-")[2])
            os.kill(task, signal.SIGKILL)
            until(lambda: not lives(task), "the task is gone")
        return time.time()

    def _orphans(self) -> list[tuple[int, str]]:
        """Processes of ours that belong to nothing that shall run now."""
        platform = self.live.platform
        supervisor = int(platform.folder.state()["supervisor"]["pid"])
        current = {supervisor, platform.postmaster(), *platform.sessions()}
        current |= {job.pid for name in ROLES for job in self.observer.jobs(name) if job.pid}
        before = self._sessions | self.observer.sessions()
        left = {*in_sessions(before - current), *marked(platform.mark())}
        parents = _parents()
        sessions = {one.pid: one.session for one in all_processes()}

        def belongs(pid: int | None) -> bool:
            """A job's JVM leads a session of its own, and ends with the job that made it."""
            while pid in sessions:
                if sessions[pid] in current:
                    return True
                pid = parents.get(pid)
            return False

        return [(one.pid, one.since) for one in left if not belongs(one.pid)]


def _parents() -> dict[int, int]:
    """Who made each process, and is still there."""
    found = {}
    for one in all_processes():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one.pid}/stat").read_text(errors="replace")
            found[one.pid] = int(fields.rpartition(")")[2].split()[1])
    return found


def _children(pid: int) -> list[tuple[int, str]]:
    """Processes that a process has made itself."""
    parents = _parents()
    return [(one.pid, one.since) for one in all_processes() if parents.get(one.pid) == pid]


@contextmanager
def held_up(log: Path) -> Iterator[None]:
    """Let whoever opens this log for writing wait, as long as the block lasts."""
    quarantined = log.with_name(f"{log.name}.aside")
    log.rename(quarantined)
    os.mkfifo(log)
    try:
        yield
    finally:
        quarantined.rename(log)


def table(killed: Sequence[Killed], observer: Observer) -> str:
    """What became of the kills, for a person."""
    lines = [
        "| killed | times | leases new after (s) | no orphan after (s) | all well after (s) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for victim in dict.fromkeys(one.victim for one in killed):
        of = [one for one in killed if one.victim == victim]
        spans = (
            _span([one.lease_s for one in of]),
            _span([one.clean_s for one in of]),
            _span([one.well_s for one in of]),
        )
        lines.append(f"| {victim} | {len(of)} | {' | '.join(spans)} |")
    lines.append(f"\n{observer.looks} looks at the homes, {len(observer.wrong)} sights of two jobs")
    return "\n".join(lines)


def _span(values: Sequence[float]) -> str:
    least, most = round(min(values)), round(max(values))
    return str(most) if least == most else f"{least} to {most}"
