"""Versions of lines and cursors in memory, written from the words of `Catalog`."""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.changes import Difference, LineVersion
from medusa_core.commits import Hold
from medusa_core.cursors import HOLD_PURPOSE, Cursor, check_cursor, holder_of
from medusa_core.errors import Conflict, Expired, Refused
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName, Version, check_name
from medusa_core.segments import Producer
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.recalled import recalls_after, stable_before_us
from pipelines.catalog.memory.sinks import HOME
from pipelines.catalog.memory.store import Table, Transaction
from pipelines.catalog.memory.tables import LineRow, SegmentRow
from pipelines.catalog.memory.trim import place_hold

START = Version(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRow:
    """A cursor as it was placed and moved."""

    producer: Producer
    from_us: int
    placed_at_ms: int
    version: Version = START
    chain: str | None = None
    moved_at_ms: int | None = None


CURSORS: Table[tuple[StreamName, str], CursorRow] = Table("cursor")


def versions(work: Transaction, stream: StreamName, producer: Producer) -> list[LineVersion]:
    """Every version that a line stood at here, oldest first."""
    line = work.get(tables.LINES, (stream, producer))
    every = (*line.live, *line.superseded) if line else ()
    chains = {
        v: c for (s, p, v), c in work.rows(tables.CHAINS).items() if (s, p) == (stream, producer)
    }
    found: list[LineVersion] = []
    before = START
    for version in sorted(chains):
        noted = work.get(tables.VERSIONS, (stream, producer, version))
        assert noted is not None, "a version with a chain has its standing"
        found.append(
            LineVersion(
                version=version,
                chain=chains[version],
                stable_us=stable_before_us(work, (stream, producer), version, noted.stable_us),
                made_at_ms=noted.made_at_ms,
                rows_max=sum(_rows(row, before, version) for row in every),
            )
        )
        before = version
    return found


def _rows(row: SegmentRow, before: Version, version: Version) -> int:
    came = before < row.begin_version <= version and row.segment.version > before
    went = row.end_version is not None and before < row.end_version <= version
    return row.segment.rows * (came + went)


def line_version(
    work: Transaction, stream: StreamName, producer: Producer, version: Version
) -> LineVersion | None:
    """See `Catalog.line_version`."""
    found = [v for v in versions(work, stream, producer) if v.version <= version]
    return found[-1] if found else None


def difference(
    work: Transaction,
    stream: StreamName,
    producer: Producer,
    since: Version,
    until: Version,
    part: Range,
) -> Difference:
    """See `Catalog.difference`."""
    line = work.get(tables.LINES, (stream, producer)) or LineRow()
    near = sorted(
        (r for r in (*line.live, *line.superseded) if r.segment.range.overlaps(part)),
        key=lambda r: r.segment.range,
    )
    was = [r for r in near if r.is_live_at(since)]
    now = [r for r in near if r.is_live_at(until)]
    recalled = [r for r in recalls_after(work, (stream, producer), since) if r.version <= until]
    return Difference(
        before=tuple(r.segment for r in was if r not in now),
        after=tuple(r.segment for r in now if r not in was),
        recalled_us=min((r.from_us for r in recalled), default=FOREVER_US),
        recalled_at=max((r.version for r in recalled), default=START),
    )


def place_cursor(
    work: Transaction,
    stream: StreamName,
    name: str,
    producer: Producer,
    from_us: int,
    limit_ms: int,
) -> None:
    """See `Catalog.place_cursor`."""
    check_name("cursor", name)
    if work.get(tables.LINES, (stream, producer)) is None:
        raise Refused(f"nobody writes stream {stream} here as {producer}")
    work.lock_name(CURSORS, (stream, name))
    if work.get(CURSORS, (stream, name)) is not None:
        raise Conflict(f"cursor {name} of {stream} is there already: go on with it, or drop it")
    row = CursorRow(producer=producer, from_us=from_us, placed_at_ms=work.store.clock.now_ms)
    work.put(CURSORS, (stream, name), row)
    _hold(work, stream, name, from_us, limit_ms)
    line = work.get(tables.LINES, (stream, producer))
    lost_us = line.trimmed_us if line is not None and line.trimmed_us != line.origin_us else None
    if lost_us is not None and from_us < lost_us:
        raise Expired(f"stream {stream} is trimmed before {lost_us} us: begin there")


def move_cursor(
    work: Transaction, stream: StreamName, name: str, version: Version, limit_ms: int
) -> None:
    """See `Catalog.move_cursor`."""
    row = work.lock_row(CURSORS, (stream, name))
    if row is None:
        raise Refused(f"stream {stream} has no cursor {name}")
    check_cursor(_cursor(work, stream, name, row))
    if version < row.version:
        raise Refused(f"cursor {name} of {stream} stands at version {row.version}: not back")
    line = work.get(tables.LINES, (stream, row.producer))
    assert line is not None, "a cursor is of a line"
    if version > line.version:
        raise Refused(f"version {version} of {stream} is not there yet")
    seen = line_version(work, stream, row.producer, version)
    is_seen = seen is not None and seen.version == version
    if version > row.version and seen is not None and not is_seen:
        raise Refused(f"version {version} of {stream} was never read here")
    chain = work.get(tables.CHAINS, (stream, row.producer, version))
    moved = CursorRow(
        producer=row.producer,
        from_us=row.from_us,
        placed_at_ms=row.placed_at_ms,
        version=version,
        chain=chain,
        moved_at_ms=work.store.clock.now_ms,
    )
    work.put(CURSORS, (stream, name), moved)
    stable_us = seen.stable_us if seen is not None and is_seen else None
    from_us = row.from_us if stable_us is None else max(row.from_us, stable_us)
    _hold(work, stream, name, from_us, limit_ms)


def drop_cursor(work: Transaction, stream: StreamName, name: str) -> None:
    """See `Catalog.drop_cursor`."""
    if work.lock_row(CURSORS, (stream, name)) is not None:
        work.remove(CURSORS, (stream, name))
    hold = (stream, holder_of(name), HOLD_PURPOSE)
    if work.lock_row(tables.HOLDS, hold) is not None:
        work.remove(tables.HOLDS, hold)


def cursors(work: Transaction) -> tuple[Cursor, ...]:
    """See `Catalog.cursors`."""
    found = sorted(work.rows(CURSORS).items())
    return tuple(_cursor(work, stream, name, row) for (stream, name), row in found)


def _cursor(work: Transaction, stream: StreamName, name: str, row: CursorRow) -> Cursor:
    line = work.get(tables.LINES, (stream, row.producer))
    noted = work.get(tables.VERSIONS, (stream, row.producer, row.version))
    return Cursor(
        stream=stream,
        name=name,
        producer=row.producer,
        version=row.version,
        from_us=row.from_us,
        incarnation=HOME,
        incarnation_here=HOME,
        chain=row.chain,
        chain_here=work.get(tables.CHAINS, (stream, row.producer, row.version)),
        stable_us=noted.stable_us if noted else None,
        last_version=line.version if line else START,
        placed_at_ms=row.placed_at_ms,
        moved_at_ms=row.moved_at_ms,
    )


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
