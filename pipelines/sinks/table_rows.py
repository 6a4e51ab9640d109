"""Writes of rows to a table: appended, or by their key, as final rows or over them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.sql import SQL, Composed, Identifier

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.sinks.copy_text import RowsFile
from pipelines.sinks.table_connection import statement
from pipelines.sinks.table_shape import TableShape, names
from pipelines.sinks.target import Rows

BEFORE = "medusa_sink_before"
FINAL, TENTATIVE = "medusa_final", "medusa_tentative"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _copy(cursor: Any, shape: TableShape, table: Composed, rows: Rows) -> None:
    """Append rows to a table that has the columns of the shape."""
    columns = shape.delivered
    copy = statement("copy", table=table, columns=names([c.name for c in columns]))
    file = RowsFile(rows, columns, replaces_nul=shape.replaces_nul)
    with file.errors_first():
        cursor.copy_expert(copy, file)


def bring_in(
    cursor: Any, shape: TableShape, staged: str, rows: Rows, over_us: int | None = None
) -> None:
    """Bring rows in by their key; `over_us`: final rows before it are kept in another table."""
    if not shape.key:
        _copy(cursor, shape, shape.name, rows)
        return
    columns = [c.name for c in shape.delivered]
    parts = {
        "table": shape.name,
        "staged": Identifier(staged),
        "columns": names(columns),
        "key": names(shape.key),
    }
    cursor.execute(statement("staged", **parts))
    _copy(cursor, shape, SQL("pg_temp.{}").format(Identifier(staged)), rows)
    if over_us is not None:
        key_of_t = SQL(", ").join([SQL("t.{}").format(Identifier(k)) for k in shape.key])
        keep = statement("keep_before", before=shape.neighbour(BEFORE), key_of_t=key_of_t, **parts)
        cursor.execute(keep, {"target": shape.table, "through": instant_of(over_us)})
    sets = [
        SQL("{0} = excluded.{0}").format(Identifier(name))
        for name in columns
        if name not in shape.key
    ]
    last_first, listed = _last_first(shape.delivered), SQL(", ").join(sets)
    cursor.execute(statement("upsert", last_first=last_first, sets=listed, **parts))


def take_overlay_off(cursor: Any, shape: TableShape, through_us: int) -> None:
    """Put a table back as its final rows, all before `through_us`, had made it."""
    columns = [c.name for c in shape.delivered]
    restored = [SQL("(r.put_back).{}").format(Identifier(name)) for name in columns]
    off = statement(
        "take_overlay_off",
        table=shape.name,
        before=shape.neighbour(BEFORE),
        columns=names(columns),
        restored=SQL(", ").join(restored),
    )
    cursor.execute(off, {"target": shape.table, "through": instant_of(through_us)})


def _last_first(columns: Sequence[Column]) -> Composed:
    """The canonical order backwards: the latest bucket, then event time, then all columns."""
    bucket_first = (columns[1], columns[0], *columns[2:])
    return SQL(", ").join(
        SQL(
            '{} COLLATE "C" DESC NULLS LAST' if c.type == "string" else "{} DESC NULLS LAST"
        ).format(Identifier(c.name))
        for c in bucket_first
    )


def instant_of(time_us: int) -> datetime:
    """An event time as the database has it; Refused beyond the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        raise Refused(
            f"event time {time_us} us is outside the years 1 to 9999: no table is delivered "
            "up to there"
        ) from None
