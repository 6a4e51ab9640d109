"""The SQL files of a home, as `sql/README.md` describes them, with their hashes.

Tables and data have a history: `schema/` defines them, `migrations/` bring an older home to that
definition. Everything else has none: a home has the functions, triggers, views and grants of the
files, and a file whose hash has changed is applied again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from pipelines.catalog.postgres.queries import SQL_FOLDER

_DEFINITION = re.compile(r"^CREATE OR REPLACE FUNCTION\s+(\w+\.\w+)\s*\(", re.MULTILINE)
_REVOKES = "grants/revoke_all"
_OF_TABLES = "functions/in_tables/"


@dataclass(frozen=True, slots=True)
class SqlFile:
    """A file, by its path in the folder without suffix, such as `functions/leases/check_lease`."""

    path: str
    sql: str

    @property
    def name(self) -> str:
        """Without its folders."""
        return self.path.rpartition("/")[2]

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        return sha256(self.sql.encode()).hexdigest()

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the file defines, with their schema."""
        return tuple(_DEFINITION.findall(self.sql))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFiles:
    """All files of a folder, each kind in the order in which it is applied."""

    schema: tuple[SqlFile, ...]
    migrations: tuple[SqlFile, ...]
    functions: tuple[SqlFile, ...]
    triggers: tuple[SqlFile, ...]
    views: tuple[SqlFile, ...]
    grants: tuple[SqlFile, ...]
    revokes: SqlFile

    @property
    def functions_of_tables(self) -> tuple[SqlFile, ...]:
        """What constraints, indexes and generated columns call: made before the tables."""
        return tuple(file for file in self.functions if file.path.startswith(_OF_TABLES))

    @property
    def repeatable(self) -> tuple[SqlFile, ...]:
        """What is applied again when its hash changes."""
        return (*self.functions, *self.triggers, *self.views, self.revokes, *self.grants)

    @property
    def digest(self) -> str:
        """The version of a home that has all of it."""
        files = (*self.migrations, *self.repeatable)
        return sha256("".join(f"{f.path} {f.sha256}\n" for f in files).encode()).hexdigest()


@cache
def known_files() -> SchemaFiles:
    """The files of this program, read once."""
    return read_files(SQL_FOLDER)


def read_files(folder: Path) -> SchemaFiles:
    """The files of a folder as they are now."""
    grants = tuple(_files(folder, "grants", "*.sql"))
    return SchemaFiles(
        schema=tuple(_files(folder, "schema", "[0-9]*.sql")),
        migrations=tuple(_files(folder, "migrations", "[0-9]*.sql")),
        functions=tuple(_files(folder, "functions", "*/*.sql")),
        triggers=tuple(_files(folder, "triggers", "[0-9]*.sql")),
        views=tuple(_files(folder, "views", "[0-9]*.sql")),
        grants=tuple(file for file in grants if file.path != _REVOKES),
        revokes=next(file for file in grants if file.path == _REVOKES),
    )


def _files(folder: Path, kind: str, pattern: str) -> Iterator[SqlFile]:
    for path in sorted((folder / kind).glob(pattern)):
        name = path.relative_to(folder).with_suffix("").as_posix()
        yield SqlFile(name, path.read_text(encoding="utf-8"))
