"""Homes that tests are lent while a function of theirs is another.

To make a home for each mutant would cost more than most tests. A few are made once; a mutated
function takes the place of the right one in them while a child runs its tests, and goes again. Any
other part of the SQL asks for new homes: none is lent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg2
import psycopg2.extensions

from medusa_core.names import Participant
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.schema_files import SqlFile, known_files, read_files
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import OWNER_NOLOGIN, create_home, drop_home
from tests.home_pool import PASSWORDS, spare_homes

HOMES = 5
"""Most tests use one to three."""

_MADE_OF = """
    SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc),
        (SELECT count(*) FROM pg_namespace), (SELECT count(*) FROM pg_policy),
        (SELECT count(*) FROM pg_trigger WHERE tgenabled = 'O'),
        (SELECT count(*) FROM pg_constraint), (SELECT sum(cardinality(relacl)) FROM pg_class)
"""
"""Changes if a test that was stopped has left something there but rows."""

_NOTE = """
    UPDATE medusa.schema_file SET sha256 = %s WHERE path = %s;
    UPDATE medusa.schema_version SET digest = %s
    WHERE number = (SELECT max(number) FROM medusa.schema_version)
"""


class MutatedHomes:
    """Some homes on a server."""

    def __init__(self, server: EmbeddedServer, sql: Path) -> None:
        self._server, self._sql = server, sql
        self._homes = [self._made(f"medusa_spare_{at}") for at in range(HOMES)]
        self._were = {database: self._made_of(database) for database in self._homes}

    @contextmanager
    def with_file(self, path: Path, right: str) -> Iterator[None]:
        """Meanwhile the homes have what a file of functions says now; `right` is what it said."""
        spare = spare_homes(self._server)
        spare[:] = self._homes
        mutated = path.read_text(encoding="utf-8")
        is_function = path.parts[-3] == "functions" and path.parts[-2] != "in_tables"
        if path.parts[-2] != "queries" and not is_function:
            spare.clear()
        try:
            if is_function:
                self._apply(path, mutated)
            known_files.cache_clear()
            query.cache_clear()
            yield
        finally:
            self._end_others()
            path.write_text(right, encoding="utf-8")
            if is_function:
                self._apply(path, right)
            known_files.cache_clear()
            query.cache_clear()
            for database in self._homes:
                if self._made_of(database) != self._were[database]:
                    drop_home(self._server.superuser_url(), database)
                    self._made(database)
                    self._were[database] = self._made_of(database)

    def _made(self, database: str) -> str:
        admin_url = self._server.superuser_url()
        return create_home(admin_url, Participant("alpha"), database, PASSWORDS).database

    def _made_of(self, database: str) -> object:
        with _cursor(self._server, database) as cursor:
            cursor.execute(_MADE_OF)
            return cursor.fetchone()

    def _apply(self, path: Path, text: str) -> None:
        name = path.relative_to(self._sql).with_suffix("").as_posix()
        digest = read_files(self._sql).digest
        for database in self._homes:
            with _cursor(self._server, database) as cursor:
                cursor.execute(f"SET ROLE {database}_{OWNER_NOLOGIN}")
                cursor.execute(f"SET check_function_bodies = off; {text}")
                cursor.execute(_NOTE, (SqlFile(name, text).sha256, name, digest))

    def _end_others(self) -> None:
        """Drop what the tests of a child have left on the server."""
        with _cursor(self._server) as cursor:
            cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE 'medusa%'")
            for (name,) in cursor.fetchall():
                if name not in self._homes:
                    cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
            cursor.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'medusa%'")
            for (name,) in cursor.fetchall():
                if not name.startswith("medusa_spare_"):
                    with suppress(psycopg2.Error):
                        cursor.execute(f'DROP ROLE "{name}"')


@contextmanager
def _cursor(
    server: EmbeddedServer, database: str = "postgres"
) -> Iterator[psycopg2.extensions.cursor]:
    connection = psycopg2.connect(server.superuser_url(database).replace("+psycopg2", ""))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
