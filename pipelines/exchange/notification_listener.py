"""Waiting for a notification of a home: LISTEN, with a time limit, beside other connections.

Commits notify after they are made, without a payload; several arrive as one. A connection that
breaks is made again at the next wait, and the time limit covers a notification that was lost.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg2
import psycopg2.extensions

from pipelines.base import clock
from pipelines.catalog.postgres.home_database import catalog_url

CHANNEL = "medusa_progress"
TRY_AGAIN_S = 10.0
CONNECT_S_MAX = 3


class ListenerConnection(Protocol):
    """A connection that listens, as psycopg2 has it."""

    notifies: list[Any]

    def poll(self) -> object: ...
    def close(self) -> None: ...


def listening(url: str) -> ListenerConnection:
    """A connection that listens at a home; raises psycopg2.Error."""
    parts = catalog_url(url)
    connection: ListenerConnection = psycopg2.connect(
        host=parts.host,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        dbname=parts.database,
        connect_timeout=CONNECT_S_MAX,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=2,
        application_name="medusa listener",
    )
    connection.set_isolation_level(  # type: ignore[attr-defined]
        psycopg2.extensions.ISOLATION_LEVEL_AUTOCOMMIT
    )
    with connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(f"LISTEN {CHANNEL}")
    return connection


def readable(lines: list[Any], limit_s: float) -> list[Any]:
    """Those of the lines that can be read, or are dead, within a time."""
    # Not select.select, which knows no handle above 1023.
    ready, by_handle = select.poll(), {}
    for line in lines:
        try:
            by_handle[line.fileno()] = line
        except psycopg2.Error:
            return [line]  # the driver has closed it: it is dead
    for handle in by_handle:
        ready.register(handle, select.POLLIN)
    return [by_handle[handle] for handle, _ in ready.poll(limit_s * 1_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerIO:
    """The connections and the clock of a listener: of this machine, or simulated.

    `listen` makes the connection of a place: the URL of a home, unless another one is given.
    `wait` returns the connections that were notified, or are dead, within a time.
    """

    listen: Callable[[str], ListenerConnection] = listening
    wait: Callable[[list[ListenerConnection], float], list[ListenerConnection]] = readable
    now_s: Callable[[], float] = clock.monotonic_s
    sleep: Callable[[float], object] = clock.sleep_s


class NotificationListener:
    """Listens at several places; notifications of one that is not `is_heard` now are ignored."""

    def __init__(
        self,
        places: Sequence[str],
        listener_io: ListenerIO | None = None,
        *,
        is_heard: Callable[[str], bool] = lambda place: True,
    ) -> None:
        self._places = tuple(places)
        self._listener_io = listener_io or ListenerIO()
        self._is_heard = is_heard
        self._heard: dict[str, ListenerConnection] = {}
        self._tried_s = -TRY_AGAIN_S

    @property
    def hears_all(self) -> bool:
        """Whether there is a connection to each place, as far as is known."""
        return all(place in self._heard for place in self._places)

    def wait(self, limit_ms: int) -> bool:
        """Return when one of the places has notified, or after the limit; whether one may have.

        Without a connection that is not known, and after one was made it is not known of the time
        before it.
        """
        is_not_known = self._listen()
        ends_s = self._listener_io.now_s() + limit_ms / 1000
        while True:
            left_s = ends_s - self._listener_io.now_s()
            ready = self._ready(max(left_s, 0.0))
            if ready or left_s <= 0:
                return ready or is_not_known

    def close(self) -> None:
        """Close all connections."""
        for connection in self._heard.values():
            connection.close()
        self._heard.clear()

    def _listen(self) -> bool:
        """Make the connections that are missing, if it is time; whether one was made."""
        missing = [p for p in self._places if p not in self._heard and self._is_heard(p)]
        if not missing or self._listener_io.now_s() - self._tried_s < TRY_AGAIN_S:
            return False
        for place in missing:
            try:
                self._heard[place] = self._listener_io.listen(place)
            except psycopg2.Error:
                self._tried_s = self._listener_io.now_s()
        return any(place in self._heard for place in missing)

    def _ready(self, limit_s: float) -> bool:
        if not self._heard:
            self._listener_io.sleep(limit_s)
            return True
        ready = self._listener_io.wait(list(self._heard.values()), limit_s)
        is_notified = False
        for place, connection in list(self._heard.items()):
            if connection not in ready:
                continue
            is_notified = self._is_heard(place) or is_notified
            if not self._drained(connection):
                connection.close()
                del self._heard[place]
        return is_notified

    @staticmethod
    def _drained(connection: ListenerConnection) -> bool:
        """Discard the notifications; False if the connection is dead."""
        try:
            connection.poll()
        except psycopg2.Error:
            return False
        connection.notifies.clear()
        return True
