"""How the rooms of a home beside its streams send their statements: by name, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, RowMapping

from pipelines.catalog.postgres import catalog_engine
from pipelines.catalog.postgres_errors import errors_of_catalog
from pipelines.catalog.queries import query

PATIENCE = {"options": "-c jit=off -c statement_timeout=30000"}


def patient_engine(url: str) -> Engine:
    """An engine of one connection, which gives a statement up after half a minute."""
    return catalog_engine(url, pool_size=1, connect_args=PATIENCE)


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
