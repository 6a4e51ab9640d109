"""Airflow's own database and login, separate from the catalogs.

On the embedded server, or on the server that MEDUSA_CATALOG_URL names if its login may create
databases and roles. Existing ones remain; the password is set to the one in the folder's secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg2
import psycopg2.extensions
from psycopg2.sql import SQL, Literal
from sqlalchemy.engine import URL

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import check_name
from pipelines.catalog.postgres.database_errors import error_of
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.server import roles

CONNECT_S_MAX = 10
_ADVISORY_LOCK = 0x616972  # "air": one who makes them at a time on a server


def make_database(admin_url: str, database: str, password: str) -> str:
    """Make the database and its login, if they are not there; returns the login's URL.

    Raises Unavailable if the server cannot be reached, Refused if the login may not.
    """
    check_name("database", database)
    admin = catalog_url(admin_url)
    with _connected(admin) as connection:
        may = (
            "SELECT rolsuper OR (rolcreatedb AND rolcreaterole) FROM pg_roles WHERE rolname = user"
        )
        if not roles.ask(connection, SQL(may)):
            raise Refused(
                "the login of MEDUSA_CATALOG_URL may not make Airflow's database: have it granted "
                "CREATEDB and CREATEROLE, or unset the variable for the embedded server"
            )
        roles.ask(connection, SQL("SELECT pg_advisory_lock({})"), Literal(_ADVISORY_LOCK))
        roles.make_login(connection, database, password)
        roles.join(connection, database)
        roles.make_database(connection, database, database)
        roles.close_to_public(connection, database)
    url = admin.set(username=database, password=password, database=database)
    return url.render_as_string(hide_password=False)


def revision_of(url: str) -> str | None:
    """Which schema Airflow's database has, as Airflow's own migrations name it; None: none yet."""
    with _connected(catalog_url(url)) as connection:
        if not roles.ask(connection, SQL("SELECT to_regclass('alembic_version') IS NOT NULL")):
            return None
        return str(roles.ask(connection, SQL("SELECT min(version_num) FROM alembic_version")))


class Pulse:
    """Whether a database answers; all checks use one connection."""

    def __init__(self, url: str) -> None:
        self._url = catalog_url(url)
        self._connection: psycopg2.extensions.connection | None = None

    def beats(self) -> bool:
        """Whether it answers now."""
        try:
            if self._connection is None:
                self._connection = _connect(self._url)
            roles.ask(self._connection, SQL("SELECT 1"))
        except psycopg2.Error:
            self.close()
            return False
        return True

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            with suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None


def _connect(url: URL) -> psycopg2.extensions.connection:
    words: dict[str, object] = {
        **url.query,
        **url.translate_connect_args(username="user", database="dbname"),
        "connect_timeout": CONNECT_S_MAX,
        "tcp_user_timeout": CONNECT_S_MAX * 1000,
        "application_name": "medusa up",
    }
    connection = psycopg2.connect(**words)
    connection.autocommit = True
    return connection


@contextmanager
def _connected(url: URL) -> Iterator[psycopg2.extensions.connection]:
    try:
        connection = _connect(url)
        try:
            yield connection
        finally:
            connection.close()
    except psycopg2.Error as error:
        known = error_of(error)
        if known is None:
            raise
        if isinstance(known, Unavailable):
            raise Unavailable(f"Airflow's database cannot be used: {known}") from error
        raise known from error
