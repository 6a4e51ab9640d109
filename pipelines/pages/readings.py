"""Readings of homes that all open pages share: each part of a home is read once per interval.

A reading is made when a page requests it and the last one is old. So there is no work, and after a
minute no connection, while no page is open. How old a reading may be grows with the cost of the
readings of the last minute: together they take at most 1 / `SHARE` of a core, however large homes
are, but for this: none is older than `OLDEST_S`. On a busy machine a reading lasts long and costs
little; without that limit a page would stand still there. A home that cannot be read keeps its last
reading, with the error beside it.

Homes are read at the same time, and a page waits `WAIT_S` for all of them: one that hangs is shown
as not answering, with its last figures, and is not waited for until it has answered again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from medusa_core.errors import CheckFailed, MedusaError, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.pages.page_home import PageHome, Snapshot
from pipelines.pages.shared_time import SharedTime

FRESH_S = 5.0
WAIT_S = 2.0
SHARE = 150
OLDEST_S = 60.0
IDLE_S = 60.0
KEPT_MAX = 2_000
THREADS_MAX = 64
FAILED = "reading it failed with"

Read = Callable[[Snapshot], Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read, when (Unix seconds of this machine), and why it was not read since then."""

    number: int
    value: Any = None
    read_at_s: float | None = None
    error: MedusaError | None = None
    failed_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class HomePart:
    """A part of a home, or with None of what is in no home (the folder, the platform), by its name
    and with what reads it: a `Read`, or of no home a function without arguments."""

    home: Participant | None
    part: str
    read: Callable[..., Any] = field(compare=False)


@dataclass(slots=True)
class _Entry:
    """A part of a home, its last reading, and the one that is being made."""

    home: Participant | None
    reading: Reading | None = None
    late: Reading | None = None
    running: Future[None] | None = None
    began_s: float = 0.0
    mark_s: float | None = None
    tried_at_s: float = 0.0
    requested_at_s: float = 0.0
    cost_s: float = 0.0


class Readings:
    """Safe for threads: those of a server's requests."""

    def __init__(
        self, settings: Settings, *, fresh_s: float = FRESH_S, wait_s: float = WAIT_S
    ) -> None:
        self.settings = settings
        self._fresh_s, self._wait_s = fresh_s, wait_s
        self._lock = threading.RLock()
        self._entries: dict[Hashable, _Entry] = {}
        self._homes: dict[Participant, tuple[threading.Lock, PageHome]] = {}
        self._hung: dict[Participant | None, float] = {}
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="medusa page")
        self._time = SharedTime()
        self._number = 0
        self._closer: threading.Timer | None = None

    def current(self, parts: Sequence[HomePart]) -> list[Reading]:
        """Readings that are not older than they may be, in the same order."""
        with self._lock:
            allowed_s, now_s = self.allowed_age_s, clock.monotonic_s()
            entries = [self._entry(one, now_s) for one in parts]
            awaited: list[tuple[_Entry, Future[None]]] = []
            for one, entry in zip(parts, entries, strict=True):
                is_old = entry.reading is None or now_s - entry.tried_at_s >= allowed_s
                begins = is_old and entry.running is None and self._may_begin(one.home)
                if begins:
                    entry.began_s = now_s
                    # To wait for a server costs nothing.
                    entry.mark_s = None if one.home in self._hung else self._time.begin(now_s)
                    entry.running = self._pool.submit(self._read, entry, one)
                # Others than the one who begins it take what there is, and wait only for a first.
                is_awaited = begins or entry.reading is None
                if entry.running and is_awaited and one.home not in self._hung:
                    awaited.append((entry, entry.running))
        if awaited:
            self._wait(awaited, now_s)
        with self._lock:
            return [self._shown(entry) for entry in entries]

    @property
    def allowed_age_s(self) -> float:
        """How old a reading may be now."""
        now_s = clock.monotonic_s()
        with self._lock:
            costs = [e.cost_s for e in self._entries.values() if now_s - e.requested_at_s < IDLE_S]
        if not self._fresh_s:
            return 0.0
        return max(self._fresh_s, min(SHARE * sum(costs), OLDEST_S))

    def charge(self, what: Hashable, cost_s: float) -> None:
        """Count the cost of what is made of readings each time they change."""
        with self._lock:
            entry = self._entries.setdefault(("made", what), _Entry(None))
            entry.cost_s, entry.requested_at_s = cost_s, clock.monotonic_s()

    def close(self) -> None:
        """Give all connections back."""
        with self._lock:
            homes, self._homes = list(self._homes.values()), {}
            if self._closer is not None:
                self._closer.cancel()
                self._closer = None
        for _, home in homes:
            home.close()

    # ------------------------------------------------------------ what is shown, and for how long

    def _entry(self, one: HomePart, now_s: float) -> _Entry:
        entry = self._entries.setdefault((one.home, one.part), _Entry(one.home))
        entry.requested_at_s = now_s
        return entry

    def _may_begin(self, home: Participant | None) -> bool:
        """A home that hangs is tried by one reading at a time."""
        return home not in self._hung or not any(
            entry.running for entry in self._entries.values() if entry.home == home
        )

    def _wait(self, awaited: Sequence[tuple[_Entry, Future[None]]], now_s: float) -> None:
        wait([one for _, one in awaited], max(now_s + self._wait_s - clock.monotonic_s(), 0.0))
        with self._lock:
            for entry, running in awaited:
                if entry.running is running:  # else it has ended, and the next may have begun
                    began_s = clock.wall_s() - (clock.monotonic_s() - entry.began_s)
                    self._hung.setdefault(entry.home, began_s)
                    if entry.mark_s is not None:
                        self._time.end(entry.mark_s, clock.monotonic_s())
                        entry.mark_s = None

    def _shown(self, entry: _Entry) -> Reading:
        """The last reading; of a home that hangs, with that as its error."""
        last = entry.reading
        since_s = self._hung.get(entry.home)
        if last is not None and (since_s is None or last.error is not None):
            return last
        if entry.late is None:
            because = f"it has not answered within {self._wait_s:g} s: it is asked again"
            entry.late = Reading(
                number=self._next(), value=last.value if last else None,
                read_at_s=last.read_at_s if last else None, error=Unavailable(because),
                failed_at_s=since_s or clock.wall_s(),
            )  # fmt: skip
        return entry.late

    # ------------------------------------------------------------ reading

    def _read(self, entry: _Entry, one: HomePart) -> None:
        began_ns = clock.thread_cpu_ns()
        try:
            value = one.read() if one.home is None else self._from_home(one.home, one.read)
            error: MedusaError | None = None
        except MedusaError as raised:
            value, error = None, raised
        except Exception as raised:  # noqa: BLE001  not read again with each request
            _log.exception("a page could not be read")
            value, error = None, CheckFailed(f"{FAILED} {type(raised).__name__}, see the log")
        last = entry.reading
        is_same = last is not None and (
            last.error is None and last.value == value
            if error is None
            else str(last.error) == str(error)
        )
        with self._lock:
            now_s = clock.monotonic_s()
            # Of one that was not waited for, no more than its own work is known: Postgres does as
            # much again.
            cost_s = 2 * (clock.thread_cpu_ns() - began_ns) / 1e9
            if entry.mark_s is not None:
                cost_s = self._time.end(entry.mark_s, now_s)
            entry.cost_s = cost_s if error is None else entry.cost_s
            entry.mark_s, entry.tried_at_s, entry.running, entry.late = None, now_s, None, None
            self._keep(entry, value, error, last if is_same else None)
            if error is None or now_s - entry.began_s < self._wait_s:
                self._hung.pop(entry.home, None)

    def _keep(
        self, entry: _Entry, value: Any, error: MedusaError | None, same: Reading | None
    ) -> None:
        """Keep a reading; `same` is the one before if it says the same: what was rendered of that
        still holds."""
        last, now_s = entry.reading, clock.wall_s()
        number = self._next() if same is None else same.number
        if error is None:
            value = value if same is None else same.value
            entry.reading = Reading(number=number, value=value, read_at_s=now_s)
            return
        entry.reading = Reading(
            number=number,
            value=last.value if last else None,
            read_at_s=last.read_at_s if last else None,
            error=error,
            failed_at_s=self._hung.get(entry.home, now_s) if same is None else same.failed_at_s,
        )

    def _next(self) -> int:
        self._number += 1
        if len(self._entries) > KEPT_MAX:
            idle = [key for key, entry in self._entries.items() if entry.running is None]
            oldest = sorted(idle, key=lambda key: self._entries[key].requested_at_s)
            for key in oldest[: KEPT_MAX // 2]:
                del self._entries[key]
        return self._number

    def _from_home(self, participant: Participant, read: Read) -> Any:
        self._close_later()
        with self._lock:
            found = self._homes.get(participant)
        if found is None:
            found = (threading.Lock(), PageHome(self.settings, participant))
            with self._lock:
                found = self._homes.setdefault(participant, found)
        lock, home = found
        with lock:
            try:
                with home.snapshot() as snapshot:
                    return read(snapshot)
            except Exception:
                # A password or an address may have changed: the next try begins again.
                with self._lock:
                    self._homes.pop(participant, None)
                home.close()
                raise

    def _close_later(self) -> None:
        with self._lock:
            if self._closer is None:
                self._closer = threading.Timer(IDLE_S, self._close_if_idle)
                self._closer.daemon = True
                self._closer.start()

    def _close_if_idle(self) -> None:
        now_s = clock.monotonic_s()
        with self._lock:
            self._closer = None
            is_used = any(now_s - e.requested_at_s < IDLE_S for e in self._entries.values())
        if is_used:
            self._close_later()
        else:
            self.close()
