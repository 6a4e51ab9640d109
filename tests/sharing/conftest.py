"""A home that is served to recipients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import role_url
from tests.catalog import building as a
from tests.changes.building import Lines, some_lines
from tests.sharing.building import Sharing, shared_home


@pytest.fixture
def lines(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Lines]:
    with some_lines(postgres_server, tmp_path / "home") as found:
        yield found


@pytest.fixture
def sharing(lines: Lines, tmp_path: Path) -> Iterator[Sharing]:
    with shared_home(lines, tmp_path / "shared") as found:
        yield found


@pytest.fixture
def exchange(lines: Lines) -> Iterator[Callable[[str], list[tuple[object, ...]]]]:
    """Runs a statement with the login of the exchange server."""
    settings = lines.settings
    url = role_url(settings.directory, str(settings.catalog_url), a.ALPHA, "exchange")
    engine = create_engine(catalog_url(url), isolation_level="AUTOCOMMIT")

    def run(statement: str) -> list[tuple[object, ...]]:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]

    yield run
    engine.dispose()
