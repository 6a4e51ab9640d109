"""A home whose streams a test writes by hand."""

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


@pytest.fixture
def lines(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Lines]:
    with some_lines(postgres_server, tmp_path / "home") as found:
        yield found


@pytest.fixture
def owner(lines: Lines) -> Iterator[Callable[[str], None]]:
    """Runs a statement as the home's owner would, by hand."""
    settings = lines.settings
    url = role_url(settings.directory, str(settings.catalog_url), a.ALPHA, "owner")
    engine = create_engine(catalog_url(url), isolation_level="AUTOCOMMIT")

    def run(statement: str) -> None:
        with engine.connect() as connection:
            connection.execute(text(statement))

    yield run
    engine.dispose()
