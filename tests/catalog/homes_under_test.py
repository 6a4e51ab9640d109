"""The two catalogs behind one door, so that a test can hold either's transactions and see waits.

`start` makes a call in a session. If the call must wait for another session it comes back waiting:
in memory because the catalog says so, in Postgres because the server names who blocks it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Engine, create_engine, event, text

from medusa_core.errors import MedusaError
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer
from pipelines.catalog.interface import Catalog, Session
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock, Store, Transaction, Waiting
from pipelines.catalog.memory.tables import LINES
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.snapshot_session import PostgresSession, postgres_session
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog.building import ALPHA

Call = Callable[[Catalog], Any]
LOOK_AGAIN_S = 0.002


@dataclass
class Pending:
    """A call that was made: waiting, or answered with a value or an error."""

    finish: Callable[[], Any]
    is_waiting: bool

    def answer(self) -> Any:
        """The value, or the error raised; call it when nothing blocks it any more."""
        return self.finish()


class HomeUnderTest(Protocol):
    """One home, freshly founded."""

    catalog: Catalog

    def session(self) -> Session:
        """Another connection to the same home."""

    def start(self, session: Session, call: Call) -> Pending:
        """Make a call in a session, without being held up by it."""

    def let_time_pass(self, until_ms: int) -> None:
        """Come back when the catalog's clock has passed a time."""

    def let_holds_age(self, ms: int) -> None:
        """Make every hold as old as if so much more time had passed since it was placed."""

    def take_line_away(self, stream: StreamName, producer: Producer) -> None:
        """Break the home: a line that an assignment had brought is gone."""


@dataclass
class MemoryHome:
    """A home in memory."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000))

    def __post_init__(self) -> None:
        self.store = Store(self.clock)
        self.catalog = MemoryCatalog(ALPHA, self.clock, self.store)

    def session(self) -> Session:
        return self.catalog.session()

    def start(self, session: Session, call: Call) -> Pending:
        try:
            value = call(session.catalog)
        except Waiting:
            return Pending(lambda: call(session.catalog), is_waiting=True)
        except MedusaError as error:
            return Pending(_raising(error), is_waiting=False)
        return Pending(lambda: value, is_waiting=False)

    def let_time_pass(self, until_ms: int) -> None:
        self.clock.advance(max(until_ms + 1 - self.clock.now_ms, 0))

    def let_holds_age(self, ms: int) -> None:
        self.clock.advance(ms)

    def take_line_away(self, stream: StreamName, producer: Producer) -> None:
        transaction = Transaction(self.store)
        transaction.remove(LINES, (stream, producer))
        transaction.end(keep=True)


def _raising(error: MedusaError) -> Callable[[], Any]:
    def finish() -> Any:
        raise error

    return finish


class PostgresHome:
    """A home in Postgres; `watcher` sees who waits for whom."""

    def __init__(
        self,
        urls: HomeUrls,
        watcher: Engine,
        participant: Participant = ALPHA,
        catalog: PostgresCatalog | None = None,
    ) -> None:
        """A catalog that is given stays open at the end."""
        self._urls = urls
        self._watcher = watcher
        self._threads = ThreadPoolExecutor(max_workers=4)
        self._sessions: list[PostgresSession] = []
        self._is_own = catalog is None
        self.catalog = catalog or PostgresCatalog(urls.job, participant)

    def session(self) -> PostgresSession:
        session = postgres_session(self._urls.job, ALPHA)
        self._sessions.append(session)
        return session

    def start(self, session: Session, call: Call) -> Pending:
        assert isinstance(session, PostgresSession)
        future: Future[Any] = self._threads.submit(call, session.catalog)
        while not wait([future], timeout=LOOK_AGAIN_S).done:
            if self._is_blocked(session.backend_pid):
                return Pending(future.result, is_waiting=True)
        return Pending(future.result, is_waiting=False)

    def let_time_pass(self, until_ms: int) -> None:
        while self.catalog.read_clock_ms() <= until_ms:
            time.sleep(LOOK_AGAIN_S)

    def let_holds_age(self, ms: int) -> None:
        older = "UPDATE medusa.hold SET placed_at = placed_at - :ms * interval '1 millisecond'"
        with self._watcher.connect() as connection:
            connection.execute(text(older), {"ms": ms})

    def take_line_away(self, stream: StreamName, producer: Producer) -> None:
        with self._watcher.connect() as connection:
            connection.execute(text(TAKE_LINE_AWAY.format(stream, producer.replica)))

    def _is_blocked(self, pid: int) -> bool:
        # By one of us: autovacuum, too, may stand in the way for a moment.
        ours = [session.backend_pid for session in self._sessions]
        with self._watcher.connect() as connection:
            blocked = text("SELECT pg_blocking_pids(:pid) && CAST(:ours AS integer[])")
            return bool(connection.execute(blocked, {"pid": pid, "ours": ours}).scalar_one())

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        if self._is_own:
            self.catalog.close()
        self._threads.shutdown()


TAKE_LINE_AWAY = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    DELETE FROM medusa.stream_producer WHERE stream = '{}' AND replica = {};
END $$
"""
WIPE = """
DO $$
DECLARE
    name text;
BEGIN
    SET LOCAL lock_timeout = '60s';  -- a test that still uses the home then is at fault
    SET LOCAL session_replication_role = replica;  -- a superuser's: no trigger guards the tables
    FOR name IN
        SELECT c.oid::regclass FROM pg_class AS c
        WHERE c.relnamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace)
            AND c.relkind = 'r' AND c.relname NOT LIKE 'schema%' AND pg_relation_size(c.oid) > 0
    LOOP
        EXECUTE 'DELETE FROM ' || name;
    END LOOP;
    INSERT INTO medusa_market.message_retention DEFAULT VALUES;
    INSERT INTO medusa_market.load_retention DEFAULT VALUES;
    INSERT INTO medusa_market.market DEFAULT VALUES;
    PERFORM medusa.found_home('{}');
END $$
"""


@contextmanager
def watcher_of(superuser_url: str) -> Iterator[Engine]:
    """A superuser's engine on a home's database: to wipe it, and to see who waits.

    What a test sets on a connection (no triggers, say) ends when it gives the connection back.
    """
    engine = create_engine(
        catalog_url(superuser_url), isolation_level="AUTOCOMMIT", pool_pre_ping=True
    )
    event.listen(engine, "checkin", _reset_settings)
    try:
        yield engine
    finally:
        engine.dispose()


def _reset_settings(connection: Any, _record: object) -> None:
    if connection is not None and not connection.closed:
        connection.cursor().execute("RESET ALL")


def end_sessions(watcher: Engine) -> None:
    """End all other sessions of clients in this database, whoever left them behind."""
    left = """
        SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'
            AND pid <> pg_backend_pid()
    """
    with watcher.connect() as connection:
        connection.execute(text(left))


def rows_of(engine: Engine) -> dict[str, list[object]]:
    """What lies in each table of a home, but for what is drawn by lot or tells the time."""
    tables = text(
        "SELECT schemaname || '.' || tablename FROM pg_tables "
        "WHERE schemaname IN ('medusa', 'medusa_market') ORDER BY 1"
    )
    with engine.connect() as connection:
        return {
            name: [
                {k: v for k, v in row.items() if k != "incarnation" and not k.endswith("_at")}
                for row in connection.execute(
                    text(f"SELECT to_jsonb(t) FROM {name} AS t")
                ).scalars()
            ]
            for name in connection.execute(tables).scalars().all()
        }


def wipe(watcher: Engine, participant: Participant = ALPHA) -> None:
    """Make the home as it was when it was new, but for its numbers, which go on."""
    with watcher.connect() as connection:
        connection.execute(text(WIPE.format(participant)))
