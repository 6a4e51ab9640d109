"""A session on a Postgres catalog that holds its transaction open, for snapshots and tests.

The catalog's own calls never hold a lock across a round trip, and neither does who only reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from sqlalchemy import Connection, text

from medusa_core.names import Participant
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.home_database import SNAPSHOT
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog


class HeldCatalog(PostgresCatalog):
    """A catalog whose every call goes over one connection."""

    def __init__(self, url: str, participant: Participant) -> None:
        super().__init__(url, participant)
        with errors_of_catalog():
            self.held = self._engine.connect()
        self.is_open = False

    def _connect(self) -> AbstractContextManager[Connection]:
        return nullcontext(self.held)

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        if self.is_open:
            yield self.held
        else:
            with super()._snapshot() as connection:
                yield connection

    def close(self) -> None:
        """Give the connection back; what is open is rolled back."""
        self.held.close()
        super().close()


class PostgresSession:
    """A `Session` on a connection of its own; a call that must wait does wait."""

    def __init__(self, url: str, participant: Participant) -> None:
        self._catalog = HeldCatalog(url, participant)
        with errors_of_catalog():
            found = self._catalog.held.execute(text("SELECT pg_backend_pid()")).scalar_one()
        self.backend_pid = int(found)

    @property
    def catalog(self) -> PostgresCatalog:
        """The catalog's calls, made inside this session."""
        return self._catalog

    def begin(self, *, snapshot: bool = False) -> None:
        """Open a transaction; a snapshot is taken now."""
        assert not self._catalog.is_open, "one transaction at a time"
        self._catalog.held.execute(SNAPSHOT if snapshot else text("BEGIN"))
        if snapshot:
            self._catalog.held.execute(text("SELECT 1"))  # Postgres takes it at the first query
        self._catalog.is_open = True

    def end(self, *, keep: bool) -> None:
        """COMMIT (`keep`) or ROLLBACK; a transaction that failed rolls back in both cases."""
        assert self._catalog.is_open, "no transaction is open"
        self._catalog.is_open = False
        self._catalog.held.execute(text("COMMIT" if keep else "ROLLBACK"))

    def close(self) -> None:
        """Close the connection; what is open is rolled back."""
        if self._catalog.is_open:
            self.end(keep=False)
        self._catalog.close()


def postgres_session(url: str, participant: Participant) -> PostgresSession:
    """A session on the home at `url`."""
    return PostgresSession(url, participant)
