"""Sinks in memory, written from the words of `Sinks.declare_sink` and those that follow it."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, Refused
from medusa_core.names import StreamName, check_name
from medusa_core.sinks import HOLD_PURPOSE, Delivered, SinkRecord, holder_of
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.trim import place_hold

HOME = "00000000-0000-0000-0000-000000000000"
"""The incarnation of every home in memory."""


def declare_sink(
    work: Transaction,
    stream: StreamName,
    name: str,
    document: str,
    from_us: int,
    through_us: int | None,
    limit_ms: int,
) -> None:
    """See `Sinks.declare_sink`."""
    check_name("sink", name)
    if work.get(tables.STREAMS, stream) is None:
        raise Refused(f"stream {stream} is not deployed here: deliver one that is")
    if through_us is not None and through_us < from_us:
        raise Refused(f"sink {name} of {stream} delivers nothing before its beginning")
    stands = work.get(tables.SINKS, (stream, name))
    fresh = SinkRecord(home=HOME, stream=stream, name=name, document=document, from_us=from_us)
    work.lock_name(tables.SINKS, (stream, name))
    work.put(
        tables.SINKS,
        (stream, name),
        replace(
            stands or fresh,
            document=document,
            from_us=from_us,
            through_us=through_us,
            problem=None,
        ),
    )
    _hold(work, stream, name, from_us if through_us is None else through_us, limit_ms)


def withdraw_sink(work: Transaction, stream: StreamName, name: str) -> None:
    """See `Sinks.withdraw_sink`."""
    if work.lock_row(tables.SINKS, (stream, name)) is not None:
        work.remove(tables.SINKS, (stream, name))
    hold = (stream, holder_of(name), HOLD_PURPOSE)
    if work.lock_row(tables.HOLDS, hold) is not None:
        work.remove(tables.HOLDS, hold)


def record_delivery(
    work: Transaction, sink: SinkRecord, delivered: Delivered, limit_ms: int
) -> None:
    """See `Sinks.record_delivery`."""
    stands = work.lock_row(tables.SINKS, (sink.stream, sink.name))
    if stands is None or stands.document != sink.document:
        raise Conflict(
            f"sink {sink.name} of {sink.stream} was withdrawn or changed meanwhile: look again"
        )
    if delivered.through_us < stands.from_us:
        raise Refused(f"sink {sink.name} of {sink.stream} delivers nothing before its beginning")
    work.put(
        tables.SINKS,
        (sink.stream, sink.name),
        replace(
            stands,
            through_us=delivered.through_us,
            version=delivered.version,
            rows=delivered.rows,
            lost_us=delivered.lost_us,
            problem=None,
            delivered_at_ms=work.store.clock.now_ms,
        ),
    )
    _hold(work, sink.stream, sink.name, delivered.through_us, limit_ms)


def record_sink_problem(work: Transaction, sink: SinkRecord, problem: str | None) -> None:
    """See `Sinks.record_sink_problem`."""
    stands = work.lock_row(tables.SINKS, (sink.stream, sink.name))
    if stands is not None and stands.document == sink.document:
        text = None if problem is None else problem[:2000]
        work.put(tables.SINKS, (sink.stream, sink.name), replace(stands, problem=text))


def _hold(work: Transaction, stream: StreamName, name: str, from_us: int, limit_ms: int) -> None:
    place_hold(
        work,
        Hold(
            stream=stream,
            holder=holder_of(name),
            purpose=HOLD_PURPOSE,
            from_us=from_us,
            limit_ms=limit_ms,
        ),
    )
