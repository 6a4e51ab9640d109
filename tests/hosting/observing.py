"""Somebody who only looks on: at leases and jobs in the homes, and at the machine's processes.

It looks several times a second from beginning to end, whatever is killed meanwhile, and writes down
every sight of two jobs on one lane. It shares no code with what starts jobs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2
from sqlalchemy import make_url

from medusa_core.names import Participant
from pipelines.base.process_table import look_at
from tests.waiting import until

EVERY_S = 0.2
LEASE_S = 10.0
LEASES = """
SELECT fragment, partition, participant, replica, lane::text, holder,
    extract(epoch FROM expires_at)::float8, expires_at > clock_timestamp()
FROM medusa.lease
"""
JOBS = """
SELECT job_id, lane::text, pid, started, begun_at IS NOT NULL, intended_by
FROM medusa.job WHERE ended_at IS NULL
"""
Lane = tuple[Participant, str]


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it stood; `renewed_s` is when it was taken or renewed last, by the clock here."""

    key: tuple[object, ...]
    holder: str
    renewed_s: float
    is_held: bool


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job that was intended and has not ended."""

    id: int
    lane: str
    pid: int | None
    started: str | None
    has_begun: bool
    intended_by: str

    @property
    def lives(self) -> bool:
        return self.pid is not None and is_alive(self.pid, self.started)


def is_alive(pid: int, started: str | None) -> bool:
    found = look_at(pid)
    return found is not None and found.started == started


class Observer(threading.Thread):
    """Looks on; `wrong` is every sight of what must not be, `looks` how often it looked, `away`
    which home was away last, and why."""

    def __init__(self, urls: Mapping[Participant, str]) -> None:
        super().__init__(name="observer", daemon=True)
        self._urls = urls
        self._connections: dict[Participant, psycopg2.extensions.connection] = {}
        self._over = threading.Event()
        self._changed = threading.Lock()
        self._leases: dict[Participant, tuple[Lease, ...]] = {}
        self._jobs: dict[Participant, tuple[OpenJob, ...]] = {}
        self._processes: dict[Lane, set[tuple[int, str]]] = {}
        self._held_before: dict[tuple[object, ...], list[str]] = {}
        self.wrong: list[str] = []
        self.looks = 0
        self.away = "none"

    def run(self) -> None:
        while not self._over.wait(EVERY_S):
            for name in self._urls:
                # A home that is away is looked at again; what it last said stands until then.
                try:
                    self._look(name)
                except psycopg2.Error as error:
                    self.away = f"{name}: {error}"
                    self._close(name)
            self.looks += 1

    def end(self) -> None:
        self._over.set()
        self.join()
        for name in list(self._connections):
            self._close(name)

    # ------------------------------------------------------------ what was seen

    def leases(self, name: Participant) -> tuple[Lease, ...]:
        with self._changed:
            return self._leases.get(name, ())

    def jobs(self, name: Participant) -> tuple[OpenJob, ...]:
        with self._changed:
            return self._jobs.get(name, ())

    def job(self, name: Participant) -> OpenJob | None:
        """Whose process does the live lane's work now."""
        found = (job for job in self.jobs(name) if job.lane == "live" and job.has_begun)
        return next((job for job in found if job.lives), None)

    def sessions(self) -> set[int]:
        """Those of every process that was ever a job's."""
        with self._changed:
            return {pid for seen in self._processes.values() for pid, _ in seen}

    def renewed_since(self, since_s: float, other_than: Mapping[Participant, str]) -> bool:
        """Whether each lease of the live lane was taken or renewed after a time, and is held.

        `other_than`: of some participants only leases of another holder count.
        """
        for name in self._urls:
            live = [one for one in self.leases(name) if one.key[-1] == "live"]
            without = other_than.get(name)
            if not live or not all(
                one.is_held
                and one.renewed_s > since_s
                and not (without and one.holder.startswith(without))
                for one in live
            ):
                return False
        return True

    # ------------------------------------------------------------ looking

    def _look(self, name: Participant) -> None:
        if name not in self._connections:
            # Taken apart: libpq reads what a URL encodes in another way than SQLAlchemy.
            url = make_url(self._urls[name])
            words = url.translate_connect_args(username="user", database="dbname")
            self._connections[name] = psycopg2.connect(**url.query, **words, connect_timeout=2)
            self._connections[name].autocommit = True
        with self._connections[name].cursor() as cursor:
            cursor.execute(LEASES)
            leases = tuple(
                Lease(tuple(row[:5]), row[5], row[6] - LEASE_S, row[7]) for row in cursor.fetchall()
            )
            cursor.execute(JOBS)
            jobs = tuple(OpenJob(*row) for row in cursor.fetchall())
        with self._changed:
            self._leases[name], self._jobs[name] = leases, jobs
            self._judge_jobs(name, jobs)
            self._judge_leases(name, leases)

    def _judge_jobs(self, name: Participant, jobs: tuple[OpenJob, ...]) -> None:
        for job in jobs:
            if job.has_begun and job.pid is not None:
                seen = self._processes.setdefault((name, job.lane), set())
                seen.add((job.pid, str(job.started)))
        for lane in {job.lane for job in jobs}:
            if sum(job.lane == lane for job in jobs) > 1:
                self._note(f"{name}, {lane}: two open jobs")
            alive = [one for one in self._processes.get((name, lane), ()) if is_alive(*one)]
            if len(alive) > 1:
                self._note(f"{name}, {lane}: processes {sorted(pid for pid, _ in alive)} at once")

    def _judge_leases(self, name: Participant, leases: tuple[Lease, ...]) -> None:
        for one in leases:
            if not one.is_held:
                continue
            key = (name, *one.key)
            held = self._held_before.setdefault(key, [])
            if one.holder in held[:-1]:
                self._note(f"{key}: {one.holder} holds it again after {held[-1]}")
            elif one.holder not in held:
                held.append(one.holder)

    def _note(self, sight: str) -> None:
        if sight not in self.wrong:
            self.wrong.append(sight)

    def _close(self, name: Participant) -> None:
        with contextlib.suppress(psycopg2.Error, KeyError):
            self._connections.pop(name).close()


@contextmanager
def observed(urls: Mapping[Participant, str]) -> Iterator[Observer]:
    """Somebody looks on meanwhile, and has never seen two where one may be."""
    observer = Observer(urls)
    observer.start()
    try:
        try:
            until(lambda: all(map(observer.job, urls)), "every job is seen", 120)
        except AssertionError as error:
            raise AssertionError(f"{error}; away was last {observer.away}") from error
        yield observer
    finally:
        observer.end()
    assert not observer.wrong, observer.wrong
