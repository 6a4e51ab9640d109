"""A home whose streams a test writes by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import home_urls
from pipelines.homes.home import known_homes
from tests.catalog import building as a
from tests.changes.building import Lines, some_lines


@pytest.fixture
def lines(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Lines]:
    with some_lines(postgres_server, tmp_path / "home") as found:
        yield found


@pytest.fixture
def owner(lines: Lines) -> Iterator[Callable[[str], None]]:
    """Runs a statement as the home's owner would, by hand."""
    database = known_homes(lines.settings.directory)[a.ALPHA]
    url = home_urls(str(lines.settings.catalog_url), a.ALPHA, database).owner
    engine = create_engine(catalog_url(url), isolation_level="AUTOCOMMIT")

    def run(statement: str) -> None:
        with engine.connect() as connection:
            connection.execute(text(statement))

    yield run
    engine.dispose()
