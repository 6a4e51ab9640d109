"""Homes with sinks, and a database of its own to deliver into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import make_url

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.sinks.building import Database, SinkHome, a_sink_home

DATABASE, LOGIN, PASSWORD = "sinks_target", "sinks_login", "p@ss:word/€ and %41"


@pytest.fixture(scope="session")
def target_url(postgres_server: EmbeddedServer) -> Iterator[str]:
    """A database whose owner is no superuser and has a password that must be escaped."""
    admin = make_url(postgres_server.superuser_url())
    connection = psycopg2.connect(
        host=admin.host, port=admin.port, user=admin.username, password=admin.password,
        dbname="postgres",
    )  # fmt: skip
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {LOGIN} LOGIN PASSWORD %s", (PASSWORD,))
        cursor.execute(f"CREATE DATABASE {DATABASE} OWNER {LOGIN}")
    yield postgres_server.url(DATABASE, LOGIN, PASSWORD)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
        cursor.execute(f"DROP ROLE {LOGIN}")
    connection.close()


@pytest.fixture
def database(target_url: str) -> Iterator[Database]:
    """The target, empty."""
    found = Database(target_url)
    found.empty()
    yield found
    found.close()


@pytest.fixture
def home(postgres_server: EmbeddedServer, target_url: str, tmp_path: Path) -> Iterator[SinkHome]:
    """A home of alpha where nothing is written or declared."""
    with a_sink_home(postgres_server, tmp_path / "home", target_url) as found:
        yield found
