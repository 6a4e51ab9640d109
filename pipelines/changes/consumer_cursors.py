"""Cursors that a home keeps for consumers: asking behind one, and where a new one begins.

Asking changes nothing: a consumer that was killed asks again and gets the same, and what came
since. The cursor moves when the consumer says that it has applied an answer.
"""

from __future__ import annotations

from typing import Protocol

from medusa_core.cursors import Cursor, check_cursor
from medusa_core.errors import Expired, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range, ceil_us, parse_duration_us
from medusa_core.names import StreamName, check_name
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import iso, parse_time_us
from pipelines.catalog.reading_roles import Cursors
from pipelines.catalog.records import LineStatus
from pipelines.changes.change_answers import Answer, changes_of
from pipelines.changes.line_versions import Position, VersionedLines, lost_before_us


class ConsumerHome(VersionedLines, Cursors, Protocol):
    """Lines with their versions, and the cursors of their consumers."""


ORIGIN, NOW = "origin", "now"
HOLD_US_MAX = 31 * 86_400_000_000


def hold_ms_of(given: str) -> int:
    """Milliseconds of `--hold`; Refused unless it is a duration from 1ms to 31d."""
    hold_us = parse_duration_us(given)
    if not 1_000 <= hold_us <= HOLD_US_MAX:
        raise Refused(f"--hold {given} is out of range: a cursor holds for 1ms to 31d")
    return hold_us // 1_000


def find_cursor(catalog: Cursors, stream: StreamName, name: str) -> Cursor | None:
    """The cursor of that name, if there is one."""
    found = (c for c in catalog.cursors() if (c.stream, c.name) == (stream, name))
    return next(found, None)


def known_cursor(catalog: Cursors, stream: StreamName, name: str) -> Cursor:
    """The cursor of that name; Refused, with the nearest name, if there is none."""
    cursor = find_cursor(catalog, stream, name)
    if cursor is None:
        known = [c.name for c in catalog.cursors() if c.stream == stream]
        hint = did_you_mean(name, known, "it has " + (", ".join(known) or "none"))
        raise Refused(f"stream {stream} has no cursor {name!r}: {hint}")
    return cursor


def place_cursor(
    catalog: ConsumerHome, line: LineStatus, name: str, from_: str | None, hold_ms: int
) -> Cursor:
    """Place a cursor at `origin` (default), `now` (the end of the stable prefix) or an event time.

    It covers the buckets that begin there or later, from their first version on. Raises Expired
    if that is trimmed, Conflict if the cursor is there already.
    """
    check_name("cursor", name)
    from_us = _beginning_us(line, from_)
    lost_us = lost_before_us(line)
    if lost_us is not None and from_us < lost_us:
        raise Expired(
            f"{line.stream.name} is trimmed before {iso(lost_us)}: begin there with "
            f"--from {iso(lost_us)}, or with --from {NOW}"
        )
    catalog.place_cursor(line.stream.name, name, line.producer, from_us=from_us, limit_ms=hold_ms)
    return known_cursor(catalog, line.stream.name, name)


def changes_behind(
    catalog: ConsumerHome, line: LineStatus, cursor: Cursor, *, rows_max: int | None = None
) -> Answer:
    """What changed behind a cursor; Diverged if it stands in another past, Expired if it is old."""
    check_cursor(cursor)
    if cursor.producer != line.producer:
        raise Refused(
            f"cursor {cursor.name} of {cursor.stream} is of the line of {cursor.producer}, but "
            f"{line.producer}'s is read here now: drop it and start again"
        )
    since = Position(cursor.version, cursor.chain)
    part = Range(cursor.from_us, FOREVER_US)
    try:
        return changes_of(catalog, line, since, part, rows_max=rows_max)
    except Expired as error:
        raise Expired(
            f"cursor {cursor.name} is too old: {error}; then drop the cursor and place it again"
        ) from None


def _beginning_us(line: LineStatus, from_: str | None) -> int:
    if from_ in (None, ORIGIN):
        return BEGINNING_US
    if from_ == NOW:
        through_us = line.stable_through_us
        return BEGINNING_US if through_us is None else through_us
    assert from_ is not None
    return ceil_us(parse_time_us("--from", from_), line.stream.width_us)
