"""A table in Postgres: rows and the sink's record in one transaction of the target's database.

Without a key the rows of final runs are appended. With one they are merged by it: of rows with
one key that of the latest bucket is kept, within a bucket the last by event time, then by all
columns. Tentative rows, if requested, replace final ones: a replaced final row is stored
separately and restored before the next delivery, so that the table is at each moment the result
of the final rows, with the present tentative rows on top.

Delivering is, in this order: 1 decide · 2 in one transaction, lock the record, check that no
other process delivered, write the rows · 3 write the record and commit: the run is delivered · 4
copy the record into the catalog. After a lost reply the record is read again: it shows whether
the run was delivered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any

from psycopg2.sql import SQL, Composed, Identifier

from medusa_core.columns import Column
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName, Version
from medusa_core.sinks import DeliveryRange
from pipelines.base.failpoints import reached
from pipelines.base.foreign_documents import parse_json
from pipelines.sinks.addresses import resolve_address
from pipelines.sinks.sink_declaration import REPLACE, TableSink
from pipelines.sinks.table_connection import TargetConnection, statement
from pipelines.sinks.table_rows import (
    BEFORE,
    FINAL,
    TENTATIVE,
    bring_in,
    instant_of,
    take_overlay_off,
)
from pipelines.sinks.table_shape import TableShape, ensure_table, is_there, marks_are_there
from pipelines.sinks.target import Overlay, Owner, Rows, TargetRecord, check_owner

RECORD = "medusa_sink"
NO_OVERLAY = Overlay(segments=(), rows=0)


class TableTarget:
    """One table; a transaction finds out if somebody else delivers into it.

    Raises Refused if it is another's or does not fit, Unavailable if it cannot be reached now,
    Conflict if somebody else was first.
    """

    def __init__(
        self,
        declaration: TableSink,
        owner: Owner,
        columns: tuple[Column, ...],
        key: tuple[str, ...],
        environment: Mapping[str, str],
    ) -> None:
        self._owner = owner
        self._takes_tentative = declaration.takes_tentative
        self._shape = TableShape(
            schema=declaration.schema,
            table=declaration.table,
            columns=columns,
            key=key,
            is_exact=declaration.takes_tentative,
            has_marks=declaration.takes_tentative,
            replaces_nul=declaration.nul == REPLACE,
        )
        self._where = f"{declaration.target} of {owner}"
        address = resolve_address(owner.stream, declaration.url, environment)
        self._record: TargetRecord | None = None
        self._overlay: list[list[int]] = []
        self._connection = TargetConnection(address, self._where)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    def record(self) -> TargetRecord | None:
        """See `Target.record`."""
        return self._record

    @property
    def resumes(self) -> Range | None:
        """See `Target.resumes`: a transaction leaves nothing unfinished."""
        return None

    @property
    def has_marks(self) -> bool:
        """Whether each row says what it promises."""
        return self._shape.has_marks

    @property
    def replaces_rows(self) -> bool:
        """Whether a row takes the place of the one with its key."""
        return bool(self._shape.key)

    def go_back(self, through_us: int) -> None:
        """Deliver again from an event time on; the record says so with the next run.

        A row whose key does not come again stays.
        """
        assert self._record is not None, "a table that has begun goes back"
        self._record = replace(self._record, through_us=through_us, last=None)

    def shows(self, overlay: Overlay) -> bool:
        """Whether these very tentative rows, and no others, are shown."""
        return self._overlay == overlay.named

    def close(self) -> None:
        """See `Target.close`."""
        self._connection.close()

    def cancel(self) -> None:
        """Cancel, from another thread, what is running."""
        self._connection.cancel()

    # ------------------------------------------------------------ preparing

    def _prepare(self) -> None:
        """Make what is not there, check what is, read the record."""
        shape = self._shape
        with self._connection.transaction() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_number(shape.schema),))
            cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (shape.schema,))
            if cursor.fetchone() is None:
                self._make(cursor, SQL("CREATE SCHEMA {}").format(Identifier(shape.schema)))
            self._make_staging(
                cursor, RECORD, statement("record_table", record=self._shape.neighbour(RECORD))
            )
            if shape.is_exact:
                definition = statement("before_table", before=self._shape.neighbour(BEFORE))
                self._make_staging(cursor, BEFORE, definition)
            self._read_record(cursor)
            was_there = is_there(cursor, shape.schema, shape.table)
            if self._record is not None and not was_there:
                raise Refused(
                    f"{self._where} is gone, but {shape.schema}.{RECORD} says what was delivered "
                    "into it: bring it back, or delete its row there to deliver everything again"
                )
            if not was_there:
                self._may_make(cursor, shape)
            if not shape.has_marks and marks_are_there(cursor, shape):
                # It took tentative rows before; what comes now says, as they did, what it is.
                self._shape = shape = replace(shape, has_marks=True)
            ensure_table(cursor, shape)
            if self._record is None and was_there:
                cursor.execute(SQL("SELECT EXISTS (SELECT FROM {})").format(shape.name))
                if cursor.fetchone()[0]:
                    raise Refused(
                        f"{self._where} holds rows that Medusa did not deliver: empty it, or name "
                        "another table"
                    )

    def _make_staging(self, cursor: Any, table: str, definition: Composed) -> None:
        if not is_there(cursor, self._shape.schema, table):
            self._make(cursor, definition)

    def _may_make(self, cursor: Any, shape: TableShape) -> None:
        if not _may_create(cursor, shape.schema):
            raise self._to_be_made(cursor, shape.definition)

    def _make(self, cursor: Any, definition: Composed) -> None:
        if not _may_create(cursor, self._shape.schema):
            raise self._to_be_made(cursor, definition)
        cursor.execute(definition)

    def _to_be_made(self, cursor: Any, definition: Composed) -> Refused:
        lines = [ln for ln in definition.as_string(cursor).splitlines() if not ln.startswith("--")]
        text = " ".join(" ".join(lines).split()).rstrip(";")
        return Refused(
            f"this login may not make what {self._where} needs: let its owner run `{text}` and "
            "grant SELECT, INSERT, UPDATE and DELETE on it"
        )

    def _read_record(self, cursor: Any) -> None:
        read = statement("read_record", record=self._shape.neighbour(RECORD))
        cursor.execute(read, {"target": self._shape.table})
        row = cursor.fetchone()
        if row is None:
            return
        (home, participant, stream, sink, through_us, version, rows, lost_us, deliveries, last_from,
         last_to, last_digest, overlay) = row  # fmt: skip
        self._record = TargetRecord(
            owner=Owner(
                home=home,
                participant=Participant(participant),
                stream=StreamName(stream),
                sink=sink,
            ),
            through_us=through_us,
            version=Version(version),
            rows=rows,
            lost_us=lost_us,
            deliveries=deliveries,
            last=None if last_digest is None else (Range(last_from, last_to), last_digest),
        )
        check_owner(self._where, self._record.owner, self._owner)
        to_do = f"restore the record of {self._owner}, or give it an empty table"
        self._overlay = parse_json(overlay, f"the record in {self._where}", to_do)

    # ------------------------------------------------------------ delivering

    def begin(self, record: TargetRecord) -> TargetRecord:
        """See `Target.begin`."""
        with self._connection.transaction() as cursor:
            owner = {
                "home": record.owner.home,
                "participant": record.owner.participant,
                "stream": record.owner.stream,
                "sink": record.owner.sink,
            }
            begun = statement("begin_record", record=self._shape.neighbour(RECORD))
            cursor.execute(begun, {**owner, **self._fields(record)})
            if cursor.rowcount != 1:
                raise Conflict(f"{self._where} was begun by another process meanwhile: look again")
        self._record = record
        reached("sink.prepared")
        return record

    def deliver(self, run: DeliveryRange, rows: Rows) -> TargetRecord:
        """See `Target.deliver`."""
        return self.deliver_over(run, rows, NO_OVERLAY, iter(()))

    def deliver_over(
        self, run: DeliveryRange | None, rows: Rows, overlay: Overlay, shown: Rows
    ) -> TargetRecord:
        """Deliver a run, if any, and show an overlay over what is final then.

        `shown` are the overlay's rows, or if it only goes on where the last one ended and there is
        no run, those behind it (see `goes_on`).
        """
        assert self._record is not None, "a new table is begun first"
        record = replace(self._record, deliveries=self._record.deliveries + 1)
        record = record if run is None else self._record.after(run)
        with self._writing(record, overlay.named) as cursor:
            if self._overlay and not self.goes_on(run, overlay):
                take_overlay_off(cursor, self._shape, self._record.through_us)
            if run is not None:
                bring_in(cursor, self._shape, FINAL, rows)
            if overlay.rows:
                bring_in(cursor, self._shape, TENTATIVE, shown, over_us=record.through_us)
        return record

    def goes_on(self, run: DeliveryRange | None, overlay: Overlay) -> bool:
        """Whether an overlay is the one that is shown, and something behind it."""
        return run is None and overlay.named[: len(self._overlay)] == self._overlay

    @property
    def shown_segments(self) -> int:
        """How many segments are shown as an overlay."""
        return len(self._overlay)

    @contextmanager
    def _writing(self, record: TargetRecord, overlay: list[list[int]]) -> Iterator[Any]:
        assert self._record is not None
        with self._connection.transaction() as cursor:
            lock = statement("lock_record", record=self._shape.neighbour(RECORD))
            cursor.execute(lock, {"target": self._shape.table})
            row = cursor.fetchone()
            if row is None or row[0] != self._record.deliveries:
                raise Conflict(f"{self._where} was delivered into by another process: look again")
            yield cursor
            reached("sink.written")
            written = statement("write_record", record=self._shape.neighbour(RECORD))
            cursor.execute(written, {**self._fields(record), "overlay": json.dumps(overlay)})
        self._record, self._overlay = record, overlay
        reached("sink.committed")

    def _fields(self, record: TargetRecord) -> dict[str, Any]:
        last = record.last
        return {
            "target": self._shape.table,
            "through_us": record.through_us,
            "through": instant_of(record.through_us),
            "version": record.version,
            "rows": record.rows,
            "lost_us": record.lost_us,
            "deliveries": record.deliveries,
            "last_from_us": last and last[0].from_us,
            "last_to_us": last and last[0].to_us,
            "last_digest": last and last[1],
        }


def _may_create(cursor: Any, schema: str) -> bool:
    cursor.execute(
        "SELECT CASE WHEN EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s) "
        "THEN has_schema_privilege(%(schema)s, 'CREATE') "
        "ELSE has_database_privilege(current_database(), 'CREATE') END",
        {"schema": schema},
    )
    return bool(cursor.fetchone()[0])


def _lock_number(schema: str) -> int:
    """One maker of tables in a schema at a time."""
    return int.from_bytes(sha256(f"medusa_sink {schema}".encode()).digest()[:8], "big", signed=True)
