"""A home as the page reads it: logged in as `page`, whose transactions cannot write.

No server is started for it: a home whose server does not run is a home that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, RowMapping

from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts
from pipelines.catalog.server.embedded_server import recorded_address
from pipelines.catalog.server.migrations import check_connection
from pipelines.homes.home import SERVER, address_of_server, role_url

ROLE = "page"
TIME_LIMIT_MS = 10_000


class Snapshot:
    """What a home holds at one moment; counts its statements."""

    def __init__(self, connection: Connection, participant: Participant, directory: Path) -> None:
        self._connection = connection
        self.participant = participant
        self.directory = directory
        self.statements = 0

    def rows(self, name: str, **values: Any) -> Sequence[RowMapping]:
        """The rows of a statement of `sql/queries`."""
        self.statements += 1
        return self._connection.execute(query(name), values).mappings().all()

    def tuples(self, name: str, **values: Any) -> Sequence[Any]:
        """The rows as tuples, in the order of the columns: cheap where there are many."""
        self.statements += 1
        found = self._connection.execute(query(name), values).cursor
        return [] if found is None else found.fetchall()

    def value(self, name: str, **values: Any) -> Any:
        """The one value of the one row of a statement."""
        (row,) = self.rows(name, **values)
        (value,) = row.values()
        return value


class PageHome(NamedStatements):
    """The connection of the page with a home, opened with the first snapshot."""

    def __init__(self, settings: Settings, participant: Participant) -> None:
        directory = settings.directory
        server = address_of_server(settings, participant) or recorded_address(directory / SERVER)
        url = role_url(directory, server, participant, ROLE)
        super().__init__(engine_with_timeouts(url, time_limit_ms=TIME_LIMIT_MS))
        self._participant = participant
        self._directory = directory
        self._is_checked = False

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One moment of the home. Unavailable if it cannot be reached or lacks a migration."""
        with errors_of_catalog():
            if not self._is_checked:
                with self._engine.connect() as connection:
                    check_connection(connection)
                self._is_checked = True
            with self._snapshot() as connection:
                yield Snapshot(connection, self._participant, self._directory)
