"""Sinks in memory, written from the words of `Sinks.declare_sink` and those that follow it."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, Refused
from medusa_core.names import StreamName, check_name
from medusa_core.sinks import HOLD_PURPOSE, DeliveryState, SinkRecord, holder_of
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.trim import place_hold

HOME = "00000000-0000-0000-0000-000000000000"
"""The incarnation of every home in memory."""


def declare_sink(
    transaction: Transaction,
    stream: StreamName,
    name: str,
    document: str,
    from_us: int,
    through_us: int | None,
    limit_ms: int,
) -> None:
    """See `Sinks.declare_sink`."""
    check_name("sink", name)
    if transaction.get(tables.STREAMS, stream) is None:
        raise Refused(f"stream {stream} is not deployed here: deliver one that is")
    if through_us is not None and through_us < from_us:
        raise Refused(f"sink {name} of {stream} delivers nothing before its beginning")
    current = transaction.get(tables.SINKS, (stream, name))
    fresh = SinkRecord(home=HOME, stream=stream, name=name, document=document, from_us=from_us)
    transaction.lock_name(tables.SINKS, (stream, name))
    transaction.put(
        tables.SINKS,
        (stream, name),
        replace(
            current or fresh,
            document=document,
            from_us=from_us,
            through_us=through_us,
            problem=None,
        ),
    )
    _hold(transaction, stream, name, from_us if through_us is None else through_us, limit_ms)


def withdraw_sink(transaction: Transaction, stream: StreamName, name: str) -> None:
    """See `Sinks.withdraw_sink`."""
    if transaction.lock_row(tables.SINKS, (stream, name)) is not None:
        transaction.remove(tables.SINKS, (stream, name))
    hold = (stream, holder_of(name), HOLD_PURPOSE)
    if transaction.lock_row(tables.HOLDS, hold) is not None:
        transaction.remove(tables.HOLDS, hold)


def record_delivery(
    transaction: Transaction, sink: SinkRecord, delivered: DeliveryState, limit_ms: int
) -> None:
    """See `Sinks.record_delivery`."""
    current = transaction.lock_row(tables.SINKS, (sink.stream, sink.name))
    if current is None or current.document != sink.document:
        raise Conflict(
            f"sink {sink.name} of {sink.stream} was withdrawn or changed meanwhile: look again"
        )
    if delivered.through_us < current.from_us:
        raise Refused(f"sink {sink.name} of {sink.stream} delivers nothing before its beginning")
    transaction.put(
        tables.SINKS,
        (sink.stream, sink.name),
        replace(
            current,
            through_us=delivered.through_us,
            version=delivered.version,
            rows=delivered.rows,
            lost_us=delivered.lost_us,
            problem=None,
            delivered_at_ms=transaction.store.clock.now_ms,
        ),
    )
    _hold(transaction, sink.stream, sink.name, delivered.through_us, limit_ms)


def record_sink_problem(transaction: Transaction, sink: SinkRecord, problem: str | None) -> None:
    """See `Sinks.record_sink_problem`."""
    current = transaction.lock_row(tables.SINKS, (sink.stream, sink.name))
    if current is not None and current.document == sink.document:
        text = None if problem is None else problem[:2000]
        transaction.put(tables.SINKS, (sink.stream, sink.name), replace(current, problem=text))


def _hold(
    transaction: Transaction, stream: StreamName, name: str, from_us: int, limit_ms: int
) -> None:
    place_hold(
        transaction,
        Hold(
            stream=stream,
            holder=holder_of(name),
            purpose=HOLD_PURPOSE,
            from_us=from_us,
            limit_ms=limit_ms,
        ),
    )
