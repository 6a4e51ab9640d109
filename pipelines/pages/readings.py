"""Readings of homes that all open pages share: each part of a home is read once per interval.

A reading is made when a page requests it and the last one is old. So there is no work, and after a
minute no connection, while no page is open. How old a reading may be grows with the cost of the
readings of the last minute: together they take at most 1 / `SHARE` of a core, however large homes
are. A home that cannot be read keeps its last reading, with the error beside it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import CheckFailed, MedusaError
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.pages.page_home import PageHome, Snapshot

FRESH_S = 5.0
SHARE = 100
IDLE_S = 60.0
KEPT_MAX = 2_000
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


@dataclass(slots=True)
class _Entry:
    """A part of a home, its last reading, and the lock of its reader."""

    lock: threading.Lock
    reading: Reading | None = None
    tried_at_s: float = 0.0
    requested_at_s: float = 0.0
    cost_s: float = 0.0


class Readings:
    """Safe for threads: those of a server's requests."""

    def __init__(self, settings: Settings, *, fresh_s: float = FRESH_S) -> None:
        self.settings = settings
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._entries: dict[Hashable, _Entry] = {}
        self._homes: dict[Participant, tuple[threading.Lock, PageHome]] = {}
        self._number = 0
        self._closer: threading.Timer | None = None

    def of_home(self, participant: Participant, part: str, read: Read) -> Reading:
        """A part of a home, not older than it may be; `part` names what `read` reads."""
        return self._current((participant, part), lambda: self._from_home(participant, read))

    def of_folder(self, part: str, read: Callable[[], Any]) -> Reading:
        """The same of what is in no home: the folder, the platform."""
        return self._current((None, part), read)

    @property
    def allowed_age_s(self) -> float:
        """How old a reading may be now."""
        now_s = clock.monotonic_s()
        with self._lock:
            costs = [e.cost_s for e in self._entries.values() if now_s - e.requested_at_s < IDLE_S]
        return max(self._fresh_s, SHARE * sum(costs)) if self._fresh_s else 0.0

    def charge(self, what: Hashable, cost_s: float) -> None:
        """Count the cost of what is made of readings each time they change."""
        with self._lock:
            entry = self._entries.setdefault(("made", what), _Entry(threading.Lock()))
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

    def _current(self, key: Hashable, read: Callable[[], Any]) -> Reading:
        allowed_s, now_s = self.allowed_age_s, clock.monotonic_s()
        with self._lock:
            entry = self._entries.setdefault(key, _Entry(threading.Lock()))
            entry.requested_at_s = now_s
        if entry.reading is not None and now_s - entry.tried_at_s < allowed_s:
            return entry.reading
        # One reads; the others take what there is, and wait only if there is nothing yet.
        if not entry.lock.acquire(blocking=entry.reading is None):
            assert entry.reading is not None
            return entry.reading
        try:
            if entry.reading is None or entry.tried_at_s < now_s:
                self._read(entry, read)
            assert entry.reading is not None
            return entry.reading
        finally:
            entry.lock.release()

    def _read(self, entry: _Entry, read: Callable[[], Any]) -> None:
        began_s, last = clock.monotonic_s(), entry.reading
        try:
            value, error = read(), None
        except MedusaError as raised:
            value, error = None, raised
        except Exception as raised:  # noqa: BLE001  not read again with each request
            _log.exception("a page could not be read")
            value, error = None, CheckFailed(f"{FAILED} {type(raised).__name__}, see the log")
        now_s = clock.wall_s()
        entry.tried_at_s = clock.monotonic_s()
        if error is None:  # to wait for a server costs nothing
            entry.cost_s = entry.tried_at_s - began_s
        if error is None:
            if last is not None and last.error is None and last.value == value:
                value = last.value  # the same objects: what was rendered of them still holds
                number = last.number
            else:
                number = self._next()
            entry.reading = Reading(number=number, value=value, read_at_s=now_s)
        else:
            is_same = last is not None and str(last.error) == str(error)
            entry.reading = Reading(
                number=last.number if last is not None and is_same else self._next(),
                value=last.value if last else None,
                read_at_s=last.read_at_s if last else None,
                error=error,
                failed_at_s=last.failed_at_s if last is not None and is_same else now_s,
            )

    def _next(self) -> int:
        with self._lock:
            self._number += 1
            if len(self._entries) > KEPT_MAX:
                oldest = sorted(self._entries, key=lambda key: self._entries[key].requested_at_s)
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
