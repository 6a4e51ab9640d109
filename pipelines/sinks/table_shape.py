"""The shape of a sink's table: created if it does not exist, else compared with the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2.sql import SQL, Composed, Identifier

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.sinks.marks import MARKS
from pipelines.sinks.run_rows import OF_BUCKET
from pipelines.sinks.table_connection import statement
from pipelines.storage.stable_rows import EVENT_TIME

ALWAYS = (EVENT_TIME, OF_BUCKET, *(column.name for column in MARKS))
"""Columns that are never NULL."""

_TYPES: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "int": ("integer", "bigint"),
    "bigint": ("bigint",),
    "double": ("double precision",),
    "string": ("text", "character varying"),
    "binary": ("bytea",),
    "date": ("date",),
    "timestamp": ("timestamp with time zone",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """What a table must look like: event time, the stream's columns, the bucket; unique by `key`.

    `has_marks`: each row says what it promises. `is_exact`: it has no other columns.
    `replaces_nul`: U+0000 in a text becomes U+FFFD.
    """

    schema: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    is_exact: bool
    has_marks: bool = False
    replaces_nul: bool = False

    @property
    def delivered(self) -> tuple[Column, ...]:
        """All columns that are delivered, in their order."""
        event_time, bucket = Column(EVENT_TIME, "timestamp"), Column(OF_BUCKET, "timestamp")
        return (event_time, bucket, *self.columns, *(MARKS if self.has_marks else ()))

    @property
    def name(self) -> Composed:
        """The table's, quoted."""
        return self.neighbour(self.table)

    def neighbour(self, table: str) -> Composed:
        """Another table of its schema, quoted."""
        return SQL(".").join([Identifier(self.schema), Identifier(table)])

    @property
    def definition(self) -> Composed:
        """The statement that makes it."""
        required = {*ALWAYS, *self.key}
        lines = [
            SQL("{} {}{}").format(
                Identifier(column.name),
                SQL(types_of(column)[0]),
                SQL(" NOT NULL" if column.name in required else ""),
            )
            for column in self.delivered
        ]
        if self.key:
            lines.append(SQL("PRIMARY KEY ({})").format(names(self.key)))
        return SQL("CREATE TABLE {} ({})").format(self.name, SQL(", ").join(lines))


def names(columns: Sequence[str]) -> Composed:
    """Columns in a list, quoted."""
    return SQL(", ").join([Identifier(name) for name in columns])


def types_of(column: Column) -> tuple[str, ...]:
    """The types that hold a column's values, the one that a new table gets first."""
    if column.type in _TYPES:
        return _TYPES[column.type]
    return (column.type.replace("decimal", "numeric"), "numeric")


def ensure_table(cursor: Any, shape: TableShape) -> bool:
    """Make the table, or check the one that is there; returns whether it was there.

    Raises Refused, with the difference, if it does not fit.
    """
    found = _relation(cursor, shape.schema, shape.table)
    if found is None:
        cursor.execute(shape.definition)
        if shape.is_exact:
            bucket = SQL("CREATE INDEX ON {} ({})").format(shape.name, Identifier(OF_BUCKET))
            cursor.execute(bucket)
        return False
    oid, kind, persistence = found
    if kind not in ("r", "p") or persistence != "p":
        raise Refused(
            f"{shape.schema}.{shape.table} is no ordinary table that outlives a crash: name another"
        )
    differences = list(_differences(cursor, oid, shape))
    if differences:
        raise Refused(
            f"table {shape.schema}.{shape.table} does not fit: {'; '.join(differences)}; change "
            "it, or name a table that is not there and is made"
        )
    return True


def marks_are_there(cursor: Any, shape: TableShape) -> bool:
    """Whether the table has the marks of a sink that takes, or took, tentative rows."""
    found = _relation(cursor, shape.schema, shape.table)
    if found is None:
        return False
    cursor.execute(statement("columns"), {"oid": found[0]})
    there = {row[0] for row in cursor.fetchall()}
    return all(column.name in there for column in MARKS)


def is_there(cursor: Any, schema: str, table: str) -> bool:
    """Whether there is a relation of this name."""
    return _relation(cursor, schema, table) is not None


def _relation(cursor: Any, schema: str, table: str) -> tuple[int, str, str] | None:
    cursor.execute(statement("relation"), {"schema": schema, "table": table})
    found: tuple[int, str, str] | None = cursor.fetchone()
    return found


def _differences(cursor: Any, oid: int, shape: TableShape) -> Iterator[str]:
    cursor.execute(statement("columns"), {"oid": oid})
    there = {row[0]: row[1:] for row in cursor.fetchall()}
    for column in shape.delivered:
        if column.name not in there:
            yield f"it has no column {column.name} ({types_of(column)[0]})"
            continue
        type_, is_required, _, fills_itself = there.pop(column.name)
        if type_ not in types_of(column):
            yield f"column {column.name} is {type_}, not {types_of(column)[0]}"
        if fills_itself:
            yield f"column {column.name} is generated"
        if column.name in shape.key and not is_required:
            yield f"column {column.name} of the key may be NULL"
        nullable = column.name not in (*ALWAYS, *shape.key)
        if nullable and is_required:
            yield f"column {column.name} is NOT NULL"
    for name, (_, is_required, has_default, _) in there.items():
        if shape.is_exact:
            yield f"column {name} is not of the stream"
        elif is_required and not has_default:
            yield f"column {name} is not of the stream and has no default"
    if shape.key:
        cursor.execute(statement("unique_keys"), {"oid": oid})
        if sorted(shape.key) not in [row[0] for row in cursor.fetchall()]:
            yield f"it has no unique index on ({', '.join(shape.key)})"
