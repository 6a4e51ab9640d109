"""The Postgres database of a home: its URL, its engine, and how statements are sent to it.

Every statement is a transaction of its own, except those of a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, RowMapping, create_engine, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.server.migrations import check_connection

CONNECT_S_MAX = 10
SNAPSHOT = text("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def catalog_url(url: str) -> URL:
    """The URL with the driver that is used here, whatever driver it names."""
    try:
        return make_url(url).set(drivername="postgresql+psycopg2")
    except (ArgumentError, ValueError):
        # The value is not repeated: it may hold a password.
        raise Refused("MEDUSA_CATALOG_URL is not a valid PostgreSQL URL: correct it") from None


OVERFLOW = 10


def catalog_engine(
    url: str, pool_size: int = 5, connect_args: Mapping[str, Any] | None = None,
    connections_max: int | None = None,
) -> Engine:  # fmt: skip
    """An engine whose statements are transactions of their own: one round trip each.

    It keeps `pool_size` connections. While more are used it has `connections_max` at most, or
    OVERFLOW more.
    """
    most = pool_size + OVERFLOW if connections_max is None else connections_max
    kept = min(pool_size, most)
    return create_engine(
        catalog_url(url),
        isolation_level="AUTOCOMMIT",
        pool_size=kept,
        max_overflow=most - kept,
        # No home has an hstore column: each new connection would ask for the type.
        use_native_hstore=False,
        connect_args={
            "connect_timeout": CONNECT_S_MAX,
            "application_name": "medusa",
            # Short statements: compiling one costs more than running it.
            "options": "-c jit=off",
            **(connect_args or {}),
        },
    )


@contextmanager
def in_snapshot(connection: Connection) -> Iterator[None]:
    """The connection sees one moment meanwhile, and cannot write."""
    try:
        connection.execute(SNAPSHOT)
        yield
    finally:
        # Nothing was written; an interrupt may have come before BEGIN was answered.
        if not connection.invalidated:
            connection.execute(text("ROLLBACK"))


class HomeDatabase:
    """The Postgres database of one participant's home, and how statements are sent to it."""

    quotes_database: ClassVar[bool] = True
    """Whether errors of its statements end with the database's own words."""

    def __init__(
        self, url: str, participant: Participant, *, connections_max: int | None = None
    ) -> None:
        self._participant = participant
        self._engine = catalog_engine(url, connections_max=connections_max)
        with errors_of_catalog(), self._engine.connect() as connection:
            check_connection(connection)
            home = connection.execute(query("read_home")).mappings().first()
        if home is None:
            raise Unavailable(
                "this database has not been initialised: run medusa migrate --participant "
                f"{participant}"
            )
        if home["participant"] != participant:
            raise Refused(f"this is the home of {home['participant']}, not of {participant}")

    @property
    def participant(self) -> Participant:
        """Whose home this is."""
        return self._participant

    @property
    def engine(self) -> Engine:
        """For other stores of the same home."""
        return self._engine

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def read_clock_ms(self) -> int:
        """The catalog's clock."""
        return int(self._value("read_clock"))

    def notifications_used(self) -> float:
        """How much of the server's queue of notifications is in use, from 0 to 1."""
        return float(self._value("notifications_used"))

    def _connect(self) -> AbstractContextManager[Connection]:
        return self._engine.connect()

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        with self._connect() as connection, in_snapshot(connection):
            yield connection

    def _rows(self, name: str, *, committing: bool = False, **values: Any) -> Sequence[RowMapping]:
        is_quoted = self.quotes_database
        with errors_of_catalog(is_quoted=is_quoted):
            opened = self._connect()
            connection = opened.__enter__()
        try:
            with errors_of_catalog(committing=committing, is_quoted=is_quoted):
                return connection.execute(query(name), values).mappings().all()
        finally:
            opened.__exit__(None, None, None)

    def _value(self, name: str, *, committing: bool = False, **values: Any) -> Any:
        (row,) = self._rows(name, committing=committing, **values)
        (value,) = row.values()
        return value
