"""Migrations: plain SQL files applied in order, each in a transaction and recorded with its hash.

A home says which files it has seen. A file that was edited since, or that this program does not
know, is refused: the program and the home would mean different things by the same table. A new home
is made by `schema.sql` at once, which says the same in fewer words, and has then seen them all.
Limit: that both say the same is kept by a test alone, so whoever changes one changes both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sqlalchemy import Connection, create_engine, make_url, text

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, check_name
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.queries import SQL_FOLDER

MIGRATIONS_FOLDER = SQL_FOLDER / "migrations"
SCHEMA = SQL_FOLDER / "schema.sql"
_ADVISORY_LOCK = 0x4D656475  # "Medu": one migration of a home at a time


@dataclass(frozen=True, slots=True)
class Migration:
    """A file of migrations: its name, text and hash."""

    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """Of the text."""
        return sha256(self.sql.encode()).hexdigest()


def known_migrations(folder: Path = MIGRATIONS_FOLDER) -> tuple[Migration, ...]:
    """The migrations of this program, in order."""
    return tuple(
        Migration(path.stem, path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("[0-9]*.sql"))
    )


def migrate(
    url: str, participant: Participant | None = None, folder: Path = MIGRATIONS_FOLDER
) -> list[str]:
    """Bring a home up to date, by its owner's URL; returns what it has newly seen, by name.

    With `participant` it becomes that participant's home, if it is nobody's yet. Of another folder
    every file is applied by itself.
    """
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg2"), isolation_level="AUTOCOMMIT"
    )
    try:
        with errors_of_catalog(), engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _ADVISORY_LOCK})
            # The lock goes with the connection, which is closed below and not given back.
            missing = pending(connection, folder)
            if folder == MIGRATIONS_FOLDER and not _seen(connection):
                _apply(connection, SCHEMA.read_text(encoding="utf-8"), missing)
            else:
                for migration in missing:
                    _apply(connection, migration.sql, [migration])
            applied = [m.name for m in missing]
            if participant is not None:
                check_name("participant", participant)
                found = text("SELECT medusa.found_home(:participant)")
                connection.execute(found, {"participant": participant})
            return applied
    finally:
        engine.dispose()


def pending(connection: Connection, folder: Path = MIGRATIONS_FOLDER) -> list[Migration]:
    """What the home has not seen yet; Refused if it has seen something else than this program."""
    known = known_migrations(folder)
    seen = _seen(connection)
    for migration in known:
        if seen.get(migration.name, migration.sha256) != migration.sha256:
            raise Refused(
                f"migration {migration.name} was edited after this home had applied it: "
                "restore the file and write a new migration"
            )
    newer = sorted(set(seen) - {m.name for m in known})
    if newer:
        raise Refused(
            f"this home has migration {newer[-1]}, which this Medusa does not know: install the "
            "newer Medusa"
        )
    return [m for m in known if m.name not in seen]


def check_connection(connection: Connection) -> None:
    """Unavailable if the home of this connection lacks a migration."""
    missing = pending(connection)
    if missing:
        raise Unavailable(f"the catalog lacks migration {missing[0].name}: run medusa migrate")


def check_migrated(url: str) -> None:
    """Unavailable if the home cannot be reached or lacks a migration; Refused if it is newer."""
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg2"))
    try:
        with errors_of_catalog(), engine.connect() as connection:
            check_connection(connection)
    finally:
        engine.dispose()


def _seen(connection: Connection) -> Mapping[str, str]:
    there = text("SELECT to_regclass('medusa.schema_migration') IS NOT NULL")
    if not connection.execute(there).scalar_one():
        return {}
    rows = connection.execute(text("SELECT name, sha256 FROM medusa.schema_migration"))
    return {row.name: row.sha256 for row in rows}


def _apply(connection: Connection, sql: str, seen: Sequence[Migration]) -> None:
    """Run a file in a transaction, behind which the home has seen these migrations."""
    # Sent as it is: the driver must not take '%' or ':' in the file for parameters.
    driver = connection.connection.cursor()
    try:
        driver.execute("BEGIN")
        driver.execute(sql)
        driver.executemany(
            "INSERT INTO medusa.schema_migration (name, sha256) VALUES (%s, %s)",
            [(migration.name, migration.sha256) for migration in seen],
        )
        driver.execute("COMMIT")
    finally:
        driver.close()
