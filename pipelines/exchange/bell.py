"""Waiting for something to happen in a home or at a partner's: LISTEN, with a time limit.

Commits notify after they are made, without a payload; several come as one. A connection that breaks
is made again at the next wait, and the limit stands in for a bell that was not heard.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

import psycopg2
import psycopg2.extensions

from pipelines.catalog.postgres import catalog_url

CHANNEL = "medusa_progress"
TRY_AGAIN_S = 10.0
CONNECT_S_MAX = 3


class Bell:
    """Listens at several homes."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = tuple(urls)
        self._heard: dict[str, psycopg2.extensions.connection] = {}
        self._tried_s = 0.0

    def wait(self, limit_ms: int) -> None:
        """Come back when one of the homes has rung, or after the limit."""
        self._listen()
        ends_s = time.monotonic() + limit_ms / 1000
        while True:
            left_s = ends_s - time.monotonic()
            ready = self._ready(max(left_s, 0.0))
            if ready or left_s <= 0:
                return

    def close(self) -> None:
        """Hang up."""
        for connection in self._heard.values():
            connection.close()
        self._heard.clear()

    def _listen(self) -> None:
        missing = [url for url in self._urls if url not in self._heard]
        if not missing or time.monotonic() - self._tried_s < TRY_AGAIN_S:
            return
        for url in missing:
            try:
                self._heard[url] = _listening(url)
            except psycopg2.Error:
                self._tried_s = time.monotonic()

    def _ready(self, limit_s: float) -> bool:
        if not self._heard:
            time.sleep(limit_s)
            return True
        ready, _, _ = select.select(list(self._heard.values()), [], [], limit_s)
        for url, connection in list(self._heard.items()):
            if connection in ready and not self._drained(connection):
                connection.close()
                del self._heard[url]
        return bool(ready)

    @staticmethod
    def _drained(connection: psycopg2.extensions.connection) -> bool:
        """Take what was said; False if the line is dead."""
        try:
            connection.poll()
        except psycopg2.Error:
            return False
        connection.notifies.clear()
        return True


def _listening(url: str) -> psycopg2.extensions.connection:
    parts = catalog_url(url)
    connection = psycopg2.connect(
        host=parts.host,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        dbname=parts.database,
        connect_timeout=CONNECT_S_MAX,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=2,
        application_name="medusa bell",
    )
    connection.set_isolation_level(psycopg2.extensions.ISOLATION_LEVEL_AUTOCOMMIT)
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")
    return connection
