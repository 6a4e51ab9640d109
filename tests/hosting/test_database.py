"""Airflow's database on a server that is given: made once, by whoever may, and shut to others."""

from __future__ import annotations

import secrets

import psycopg2
import pytest
from psycopg2.sql import SQL, Identifier
from sqlalchemy.engine import make_url

from medusa_core.errors import Refused, Unavailable
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.platform.airflow_components.airflow_database import Pulse, make_database, revision_of


@pytest.fixture
def name() -> str:
    return f"airflow_{secrets.token_hex(4)}"


def login_of(server: EmbeddedServer, rights: str) -> str:
    """The URL of a new login with these rights."""
    name, words = (
        f"admin_{secrets.token_hex(4)}",
        SQL("CREATE ROLE {} LOGIN PASSWORD 'p' " + rights),
    )
    url = make_url(server.superuser_url())
    connection = psycopg2.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname="postgres"
    )
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(words.format(Identifier(name)))
        # Into `postgres` the embedded server lets nobody but its administrator.
        cursor.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    connection.close()
    return server.url(name, name, "p")


def test_it_is_made_once_and_its_password_is_the_folders(
    postgres_server: EmbeddedServer, name: str
) -> None:
    admin = postgres_server.superuser_url()
    assert make_database(admin, name, "first")
    url = make_database(admin, name, "second")
    assert revision_of(url) is None
    with pytest.raises(Unavailable):
        revision_of(url.replace("second", "first"))


def test_a_login_that_may_make_databases_and_roles_suffices(
    postgres_server: EmbeddedServer, name: str
) -> None:
    admin = login_of(postgres_server, "CREATEDB CREATEROLE")
    for _ in range(2):
        assert revision_of(make_database(admin, name, "p")) is None


def test_a_login_without_permission_is_refused_with_what_it_lacks(
    postgres_server: EmbeddedServer, name: str
) -> None:
    with pytest.raises(Refused, match="CREATEDB and CREATEROLE"):
        make_database(login_of(postgres_server, "CREATEDB"), name, "p")


def test_nobody_else_connects_to_it(postgres_server: EmbeddedServer, name: str) -> None:
    make_database(postgres_server.superuser_url(), name, "p")
    other = make_url(login_of(postgres_server, "")).set(database=name)
    with pytest.raises((Refused, Unavailable)):
        revision_of(other.render_as_string(hide_password=False))


def test_its_pulse_tells_whether_it_answers(postgres_server: EmbeddedServer, name: str) -> None:
    url = make_database(postgres_server.superuser_url(), name, "p")
    pulse, lost = Pulse(url), Pulse(str(make_url(url).set(port=1)))
    assert pulse.beats()
    assert pulse.beats()
    assert not lost.beats()
    pulse.close()
    assert pulse.beats()
    pulse.close()
