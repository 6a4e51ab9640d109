"""The server's queue of notifications: an alarm while a session keeps it from being emptied."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import psycopg2.extensions
import pytest

from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.participant import notification_queue
from pipelines.participant.notification_queue import ALARM, NotificationQueue
from tests.catalog import building as a
from tests.home_pool import lent_homes
from tests.waiting import until

PAYLOADS = 40_000
"""Of 4 KB each: some 2 % of a queue of 8 GB."""


@pytest.mark.long
def test_a_listener_in_an_open_transaction_is_an_alarm_until_it_ends(
    postgres_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification_queue, "USED_MAX", 0.01)
    alarms: list[tuple[str, str | None]] = []
    with lent_homes(postgres_server, a.ALPHA) as homes:
        url = homes[a.ALPHA].job
        with closing(PostgresCatalog(url, a.ALPHA)) as catalog, closing(log_in(url)) as sender:
            queue = NotificationQueue(
                catalog.notifications_used, lambda of, because: alarms.append((of, because))
            )
            queue.check()
            login = log_in(homes[a.ALPHA].analyst)
            with closing(login), login.cursor() as cursor:
                cursor.execute("SET idle_in_transaction_session_timeout = 0")
                cursor.execute("LISTEN anything")
                login.commit()
                cursor.execute("SELECT 1")
                notify(sender, PAYLOADS)
                queue.check()
            # Postgres removes what nobody reads any more when more is sent.
            notify(sender, 100)
            until(lambda: catalog.notifications_used() < 0.01, "the queue is emptied")
            queue.check()
    assert [of for of, _ in alarms] == [ALARM] * 3
    assert [because is None for _, because in alarms] == [True, False, True]
    assert "end the session that listens in an old transaction" in str(alarms[1][1])


def log_in(url: str) -> psycopg2.extensions.connection:
    return psycopg2.connect(url.replace("+psycopg2", ""))


def notify(sender: psycopg2.extensions.connection, times: int) -> None:
    sends = """
        SELECT count(pg_notify('anything', n || repeat('x', 4000))) FROM generate_series(1, %s) AS n
    """
    with sender, sender.cursor() as cursor:
        cursor.execute(sends, (times,))
