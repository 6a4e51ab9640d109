"""How the stores of a home other than its streams send their statements: by name, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping

from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.home_database import catalog_engine, in_snapshot
from pipelines.catalog.postgres.queries import query


def engine_with_timeouts(url: str, *, time_limit_ms: int = 30_000) -> Engine:
    """An engine of one connection, which gives a statement up after so long."""
    options = f"-c jit=off -c statement_timeout={time_limit_ms}"
    return catalog_engine(url, pool_size=1, connect_args={"options": options})


class NamedStatements:
    """Sends the statements of `sql/queries`; what the database raises becomes Medusa's errors."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        """Give connections back."""
        self._engine.dispose()

    def _rows(self, name: str, **values: Any) -> Sequence[RowMapping]:
        with errors_of_catalog(), self._engine.connect() as connection:
            return connection.execute(query(name), values).mappings().all()

    def _value(self, name: str, **values: Any) -> Any:
        (row,) = self._rows(name, **values)
        (value,) = row.values()
        return value

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        """A connection that sees one moment, and cannot write."""
        with self._engine.connect() as connection, in_snapshot(connection):
            yield connection
