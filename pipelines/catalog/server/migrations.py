"""`medusa migrate`: gives a home this program's tables, functions, triggers, views and grants.

A new home is made from the files of `sql/` in one transaction. An older one gets the numbered
migrations that it has not seen and the files whose hash differs, again in one transaction: a
process that is killed half way has changed nothing. Of two that run at once the second waits. A
role that was dropped and made again is granted what the files say.

Refused are: a migration that was edited after the home had applied it, a home that a newer
program has changed, and one made before the migrations were joined into `sql/schema`. Limit: only
a test ensures that `schema/` equals an older home with its migrations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2.extensions
from sqlalchemy import Connection, create_engine, make_url

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, check_name
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.schema_files import SchemaFiles, SqlFile, known_files, read_files

_ADVISORY_LOCK = 0x4D656475  # "Medu": one migration of a home at a time
_ROLE = ':"role"'  # as psql writes a variable that is a name
_ROLES = ":roles"  # a list of such names


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What a home lacks of the files: `gone` are the paths of files that there are no more."""

    is_new: bool = False
    migrations: tuple[SqlFile, ...] = ()
    files: tuple[SqlFile, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """What would be applied, for people."""
        if self.is_new:
            return ["schema"]
        return [*(m.name for m in self.migrations), *(f.path for f in self.files), *self.gone]


def migrate(
    url: str, participant: Participant | None = None, folder: Path | None = None
) -> list[str]:
    """Bring a home up to date, by its owner's URL; returns what was applied, by name.

    With `participant` it becomes that participant's home, if it is nobody's yet. `folder` is a
    folder of SQL files other than this program's.
    """
    files = known_files() if folder is None else read_files(folder)
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg2"), isolation_level="AUTOCOMMIT"
    )
    try:
        with errors_of_catalog(), engine.connect() as connection:
            pending(connection, files)  # who may not migrate is refused for what the home is first
            # The lock goes with the connection, which is closed below and not given back.
            connection.execute(query("hold_lock"), {"key": _ADVISORY_LOCK})
            missing = pending(connection, files)
            applied = missing.names
            if applied:
                _apply(connection, files, missing)
            elif lacking := _without_grants(connection, files):
                _grant_again(connection, files)
                applied = [f"grants of {kind}" for kind in lacking]
            if participant is not None:
                check_name("participant", participant)
                connection.execute(query("found_home"), {"participant": participant})
            return applied
    finally:
        engine.dispose()


def pending(connection: Connection, files: SchemaFiles | None = None) -> Pending:
    """What the home has not seen yet; Refused if it has seen something else than this program."""
    files = files or known_files()
    made = connection.execute(query("schema_made")).mappings().one()
    if not made["has_tables"]:
        return Pending(is_new=True)
    if not made["has_versions"]:
        raise Refused(_made_before(connection))
    if (versions := _column(connection, "schema_versions")) and versions[-1] == files.digest:
        return Pending()
    seen = dict(_pairs(connection, "schema_migrations"))
    known = {m.name: m for m in files.migrations}
    for name in known.keys() & seen.keys():
        if seen[name] != known[name].sha256:
            raise Refused(
                f"migration {name} was edited after this home had applied it: "
                "restore the file and write a new migration"
            )
    if newer := sorted(seen.keys() - known.keys()):
        raise Refused(
            f"this home has migration {newer[-1]}, which this Medusa does not know: install the "
            "newer Medusa"
        )
    if files.digest in versions:
        raise Refused(
            "a newer Medusa has replaced functions of this home since it had those of this one: "
            "install the newer Medusa"
        )
    has = dict(_pairs(connection, "schema_files"))
    return Pending(
        migrations=tuple(m for m in files.migrations if m.name not in seen),
        files=tuple(f for f in files.repeatable if has.get(f.path) != f.sha256),
        gone=tuple(sorted(has.keys() - {f.path for f in files.repeatable})),
    )


def check_connection(connection: Connection) -> None:
    """Unavailable if the home of this connection is not at the version of this program."""
    missing = pending(connection)
    if missing.is_new:
        raise Unavailable("the catalog has no tables yet: run medusa migrate")
    if missing.migrations:
        lacks = f"migration {missing.migrations[0].name}"
        raise Unavailable(f"the catalog lacks {lacks}: run medusa migrate")
    if missing.names:
        raise Unavailable(
            f"the catalog has another version of {missing.names[0]}: run medusa migrate"
        )


def check_migrated(url: str) -> None:
    """Unavailable if the home cannot be reached or is older; Refused if it is newer."""
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg2"))
    try:
        with errors_of_catalog(), engine.connect() as connection:
            check_connection(connection)
    finally:
        engine.dispose()


def _made_before(connection: Connection) -> str:
    home = connection.execute(query("home_before")).mappings().one()
    whose = f"of {home['participant']} " if home["participant"] else ""
    return (
        f"the catalog {whose}was made by an earlier Medusa, whose migrations this one does not "
        "have: export what you need with the version that made it, then drop the database "
        f"{home['database']} and make the home again"
    )


def _apply(connection: Connection, files: SchemaFiles, missing: Pending) -> None:
    """Apply what is missing in one transaction, behind which the home says that it has it."""
    script = _Script(connection)
    script.run("BEGIN")
    # Functions may call one another whatever their order; a test compiles every body.
    script.run("SET LOCAL check_function_bodies = off")
    if missing.is_new:
        _make(script, files)
    else:
        _bring_up(script, files, missing)
    script.files(files.views)
    _grant(script, files)
    _check_functions(connection, files)
    applied = files.migrations if missing.is_new else missing.migrations
    connection.execute(query("note_migrations"), _named(applied, "name"))
    noted = files.repeatable if missing.is_new else missing.files
    connection.execute(query("note_files"), {**_named(noted, "path"), "gone": list(missing.gone)})
    connection.execute(query("note_version"), {"digest": files.digest})
    script.run("COMMIT")


def _make(script: _Script, files: SchemaFiles) -> None:
    schemas, *tables = files.schema
    script.files((schemas, *files.functions_of_tables, *tables))
    script.files(f for f in files.functions if f not in files.functions_of_tables)
    script.files(files.triggers)


def _bring_up(script: _Script, files: SchemaFiles, missing: Pending) -> None:
    """Views go first and come last, since tables and functions change beneath them."""
    changed = {f.path for f in missing.files} | set(missing.gone)
    script.drop("views_to_drop")
    script.files(missing.migrations)
    makes_triggers = any(path.startswith("triggers/") for path in changed)
    if makes_triggers:
        script.drop("triggers_to_drop")
    functions = [f for f in files.functions if f.path in changed]
    script.drop(
        "functions_to_drop",
        defined=[name for f in files.functions for name in f.functions],
        changed=[name for f in functions for name in f.functions],
    )
    script.files(functions)
    if makes_triggers:
        script.files(files.triggers)


def _grant(script: _Script, files: SchemaFiles) -> None:
    """Everybody has what the files say and no more; a role that is not there is left out."""
    found = [(grants.sql, script.role(grants.name)) for grants in files.grants]
    there = [(sql, role) for sql, role in found if role is not None]
    roles = ", ".join(["PUBLIC", *(role for _, role in there)])
    script.run(files.revokes.sql.replace(_ROLES, roles))
    for sql, role in there:
        script.run(sql.replace(_ROLE, role))


def _without_grants(connection: Connection, files: SchemaFiles) -> Sequence[str]:
    """Kinds of roles that were dropped and made again, and so may nothing."""
    kinds = [grants.name for grants in files.grants]
    return _column(connection, "roles_without_grants", kinds=kinds)


def _grant_again(connection: Connection, files: SchemaFiles) -> None:
    """Give every role what the files say, in one transaction."""
    script = _Script(connection)
    script.run("BEGIN")
    _grant(script, files)
    script.run("COMMIT")


def _check_functions(connection: Connection, files: SchemaFiles) -> None:
    """One of each name: a second one has other arguments and was kept, since something needs it."""
    found = sorted(_column(connection, "schema_functions"))
    assert found == sorted(name for f in files.functions for name in f.functions), (
        "the home has other functions than the files define: let a migration drop what needs them"
    )


class _Script:
    """Sends files to a home as they are: '%' and ':' in them are no parameters."""

    def __init__(self, connection: Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg2.extensions.connection)
        self._connection, self._driver = connection, driver

    def run(self, sql: str) -> None:
        """Run statements."""
        with self._driver.cursor() as cursor:
            cursor.execute(sql)

    def files(self, files: Iterable[SqlFile]) -> None:
        """Run files in one round trip."""
        if sql := "\n".join(file.sql for file in files):
            self.run(sql)

    def drop(self, name: str, **values: object) -> None:
        """Run the statements that a query answers with."""
        for statement in _column(self._connection, name, **values):
            self.run(str(statement))

    def role(self, kind: str) -> str | None:
        """A role of this home, quoted; None if there is none but who runs this."""
        (name,) = _column(self._connection, "role_of_kind", kind=kind) or (None,)
        return None if name is None else psycopg2.extensions.quote_ident(name, self._driver)


def _column(connection: Connection, name: str, **values: object) -> Sequence[Any]:
    return connection.execute(query(name), values).scalars().all()


def _pairs(connection: Connection, name: str) -> Iterable[tuple[str, str]]:
    return ((row[0], row[1]) for row in connection.execute(query(name)))


def _named(files: Sequence[SqlFile], key: str) -> dict[str, list[str]]:
    return {
        "names": [str(getattr(file, key)) for file in files],
        "hashes": [file.sha256 for file in files],
    }
