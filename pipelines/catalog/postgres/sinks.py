"""Cursors and sinks in Postgres."""

from __future__ import annotations

from medusa_core.cursors import Cursor
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer
from medusa_core.sinks import DeliveryState, SinkRecord
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.reading_roles import Cursors, Sinks


class PostgresSinks(HomeDatabase, Cursors, Sinks):
    """Who reads the versions of a line, and where they are delivered."""

    def place_cursor(self, stream: StreamName, name: str, producer: Producer, *, from_us: int,
                     limit_ms: int) -> None:  # fmt: skip
        """See `Cursors.place_cursor`."""
        self._value(
            "place_cursor",
            **rows.line_fields(stream, producer),
            cursor=name,
            from_us=from_us,
            limit_ms=limit_ms,
        )

    def move_cursor(self, stream: StreamName, name: str, version: Version, limit_ms: int) -> None:
        """See `Cursors.move_cursor`."""
        self._value("move_cursor", stream=stream, cursor=name, version=version, limit_ms=limit_ms)

    def drop_cursor(self, stream: StreamName, name: str) -> None:
        """See `Cursors.drop_cursor`."""
        self._value("drop_cursor", stream=stream, cursor=name)

    def cursors(self) -> tuple[Cursor, ...]:
        """See `Cursors.cursors`."""
        return tuple(rows.cursor_of(row) for row in self._rows("cursors"))

    def declare_sink(self, stream: StreamName, name: str, document: str, *, from_us: int,
                     through_us: int | None, limit_ms: int) -> None:  # fmt: skip
        """See `Sinks.declare_sink`."""
        self._value(
            "declare_sink",
            stream=stream,
            sink=name,
            document=document,
            from_us=from_us,
            through_us=through_us,
            limit_ms=limit_ms,
        )

    def withdraw_sink(self, stream: StreamName, name: str) -> None:
        """See `Sinks.withdraw_sink`."""
        self._value("withdraw_sink", stream=stream, sink=name)

    def sinks(self) -> tuple[SinkRecord, ...]:
        """See `Sinks.sinks`."""
        return tuple(SinkRecord(**row) for row in self._rows("sinks"))

    def record_delivery(self, sink: SinkRecord, delivered: DeliveryState, limit_ms: int) -> None:
        """See `Sinks.record_delivery`."""
        self._value(
            "record_delivery",
            stream=sink.stream,
            sink=sink.name,
            document=sink.document,
            through_us=delivered.through_us,
            version=delivered.version,
            rows=delivered.rows,
            lost_us=delivered.lost_us,
            limit_ms=limit_ms,
        )

    def record_sink_problem(self, sink: SinkRecord, problem: str | None) -> None:
        """See `Sinks.record_sink_problem`."""
        self._value(
            "record_sink_problem",
            stream=sink.stream,
            sink=sink.name,
            document=sink.document,
            problem=problem,
        )
