"""Trimming and compaction in memory, written from the words of `Trims.trim` and `Trims.compact`
and not from the SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, floor_us
from medusa_core.names import Participant, StreamName, Version
from medusa_core.recalls import HOLD_MS, HOLD_PURPOSE, HOLDERS
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from medusa_core.trims import CHOICE, PROGRESS, TrimLimit, TrimResult
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.choices import divergences
from pipelines.catalog.memory.commit import (
    lock_line,
    newest_assignments,
    record_files,
    width_of,
)
from pipelines.catalog.memory.recalled import recalls_after
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import HoldRow, LineRow, SegmentRow
from pipelines.catalog.records import OwnerLine


def place_hold(transaction: Transaction, hold: Hold) -> None:
    """Write a hold; one after the other with trims of the stream."""
    if transaction.get(tables.STREAMS, hold.stream) is None:
        raise Refused(f"stream {hold.stream} is not deployed here: hold one that is")
    transaction.share_name(tables.ORDERS, hold.stream)
    if hold.limit_ms is not None and hold.limit_ms <= 0:
        raise Refused("the limit of a hold is above 0")
    key = (hold.stream, hold.holder, hold.purpose)
    transaction.lock_name(tables.HOLDS, key)
    before = transaction.get(tables.HOLDS, key)
    versions = {} if before is None else before.versions
    transaction.put(tables.HOLDS, key, HoldRow(hold, transaction.store.clock.now_ms, versions))


def note_version(transaction: Transaction, hold: Hold, replica: int, version: Version) -> None:
    """Note up to which version of a line a reader has acknowledged it."""
    key = (hold.stream, hold.holder, hold.purpose)
    row = transaction.get(tables.HOLDS, key)
    assert row is not None, "the hold was placed before"
    newest = max(version, row.versions.get(replica, version))
    transaction.put(tables.HOLDS, key, replace(row, versions={**row.versions, replica: newest}))


def hold_again(transaction: Transaction, stream: StreamName, from_us: int) -> None:
    """Hold what is to be computed again.

    A hold that is less than a day old is extended to it, and not renewed. Otherwise the holder that
    has none, or the older one, places a new hold; the older one has expired by then.
    """
    transaction.share_name(tables.ORDERS, stream)
    began_ms = transaction.store.clock.now_ms - HOLD_MS
    rows = {}
    for holder in HOLDERS:
        key = (stream, holder, HOLD_PURPOSE)
        transaction.lock_name(tables.HOLDS, key)
        row = transaction.get(tables.HOLDS, key)
        if row is not None:
            rows[holder] = row
            if row.placed_at_ms > began_ms:
                hold = replace(
                    row.hold, from_us=min(from_us, row.hold.from_us), limit_ms=2 * HOLD_MS
                )
                transaction.put(tables.HOLDS, key, replace(row, hold=hold))
                return
    unused = [holder for holder in HOLDERS if holder not in rows]
    holder = unused[0] if unused else min(rows, key=lambda name: rows[name].placed_at_ms)
    hold = Hold(
        stream=stream, holder=holder, purpose=HOLD_PURPOSE, from_us=from_us, limit_ms=2 * HOLD_MS
    )
    place_hold(transaction, hold)


def declare_retention(
    transaction: Transaction, stream: StreamName, retention_ms: int | None
) -> None:
    """See `Trims.declare_retention`."""
    if transaction.get(tables.STREAMS, stream) is None:
        raise Refused(f"stream {stream} is not deployed here: deploy its network first")
    if retention_ms is not None and not 0 < retention_ms <= FOREVER_US:
        raise Refused(f"stream {stream} cannot be kept for {retention_ms} ms: give a time above 0")
    transaction.lock_name(tables.RETENTIONS, stream)
    transaction.put(tables.RETENTIONS, stream, (retention_ms,))


def trim(
    transaction: Transaction,
    here: Participant,
    stream: StreamName,
    producer: Producer,
    before_us: int,
    needed: Mapping[str, int],
    segments_max: int,
) -> TrimResult:
    """See `Trims.trim`; to explain it, the caller forgets what was done."""
    # 1 Wait until no hold is being placed, so that none is meanwhile; only then lock the line.
    if transaction.get(tables.STREAMS, stream) is None:
        raise Refused(f"stream {stream} is not deployed here: trim one that is")
    transaction.lock_name(tables.ORDERS, stream)
    line = lock_line(transaction, stream, producer)
    width_us = width_of(transaction, stream)

    # 2 Hold what this home's own fragments need.
    _hold_progress(transaction, here, stream, needed)

    # 3 Move the trim to where the first thing stops it.
    stops = _stops(transaction, here, stream, producer, line)
    stop = min(stops, key=lambda s: (s.from_us, s.purpose, s.holder or ""))
    at_us = floor_us(min(before_us, stop.from_us), width_us)
    kept_us = line.origin_us if line.trimmed_us is None else line.trimmed_us
    moved = line
    if kept_us is not None and at_us > kept_us:
        moved = replace(line, trimmed_us=at_us)

    # 4 Remove what is trimmed.
    moved, gone = _without_trimmed(moved, segments_max)
    if moved is not line:
        transaction.put(tables.LINES, (stream, producer), moved)
    _forget_late(transaction, stream, producer, moved, segments_max)
    files = {file for row in gone for file in row.segment.files}
    files |= set(_let_go(transaction, stream, producer, moved, width_us))
    return TrimResult(
        from_us=line.trimmed_us,
        trimmed_us=moved.trimmed_us,
        segments=len(gone),
        rows=sum(row.segment.rows for row in gone if row.end_version is None),
        files=_forgotten(transaction, files),
        has_more=len(gone) >= segments_max,
        held_by=stop if stop.from_us < before_us else None,
    )


def _hold_progress(
    transaction: Transaction, here: Participant, stream: StreamName, needed: Mapping[str, int]
) -> None:
    readers = _readers(transaction, here).get(stream, set()) | _adopting(transaction, here, stream)
    for key in transaction.rows(tables.HOLDS):
        if (key[0], key[2]) == (stream, PROGRESS) and key[1] not in readers:
            transaction.lock_name(tables.HOLDS, key)
            transaction.remove(tables.HOLDS, key)
    for reader in readers:
        key = (stream, reader, PROGRESS)
        hold = transaction.get(tables.HOLDS, key)
        if hold is not None and reader not in needed:
            continue
        from_us = needed.get(reader, BEGINNING_US)
        new_hold = Hold(stream=stream, holder=reader, purpose=PROGRESS, from_us=from_us)
        if hold is None or hold.hold != new_hold:
            place_hold(transaction, new_hold)


def _readers(transaction: Transaction, here: Participant) -> Mapping[StreamName, set[str]]:
    """Stream -> the fragments of this home that read it."""
    newest, wired = newest_assignments(transaction), transaction.rows(tables.FRAGMENTS)

    def make() -> dict[StreamName, set[str]]:
        readers: dict[StreamName, set[str]] = {}
        for assigned in newest.values():
            if assigned.producer.participant == here:
                for name in wired[assigned.fragment].inputs:
                    readers.setdefault(name, set()).add(assigned.fragment)
        return readers

    return transaction.made_of(("readers", here), (newest, wired), make)


def _adopting(transaction: Transaction, here: Participant, stream: StreamName) -> set[str]:
    """The fragments of this home that may commit what a provider computes of a stream."""
    last: dict[str, OwnerLine] = {}
    for (fragment, _, _), owned in sorted(transaction.rows(tables.OWNERS).items()):
        last[fragment] = owned
    wired, lines = transaction.rows(tables.FRAGMENTS), transaction.rows(tables.LINES)

    def may_adopt(owned: OwnerLine) -> bool:
        if owned.owner.participant != here:
            return True
        # The step in which the last rows of the provider are adopted may be under way.
        boundary_us = lines[stream, owned.owner].boundary_us
        return boundary_us is None or boundary_us <= owned.from_us

    return {
        name for name, owned in last.items() if stream in wired[name].outputs and may_adopt(owned)
    }


def _stops(
    transaction: Transaction, here: Participant, stream: StreamName, producer: Producer,
    line: LineRow,
) -> Iterator[TrimLimit]:  # fmt: skip
    for (name, who), chosen in transaction.rows(tables.LINES).items():
        if name == stream and who.is_import and not producer.is_import:
            disputed = [d.bucket_us for d in divergences(transaction, stream)]
            agreed_us = min([_chosen_us(chosen), *disputed])
            yield TrimLimit(holder=None, purpose=CHOICE, from_us=agreed_us)
    reached = [at for at in (line.boundary_us, line.end_us) if at is not None]
    reached_us = min(reached) if line.boundary_us is not None else BEGINNING_US
    yield TrimLimit(holder=None, purpose="boundary", from_us=reached_us)
    tentative = [r for r in line.live if r.segment.stability is Stability.TENTATIVE]
    if tentative:
        first_us = min(row.segment.range.from_us for row in tentative)
        yield TrimLimit(holder=None, purpose="tentative", from_us=first_us)
    for row in transaction.rows(tables.HOLDS).values():
        hold = row.hold
        if hold.stream == stream and row.is_held(transaction.store.clock.now_ms):
            yield TrimLimit(
                holder=hold.holder,
                purpose=hold.purpose,
                from_us=_held_from_us(transaction, here, row, producer),
                since_ms=row.placed_at_ms,
                limit_ms=hold.limit_ms,
            )


def _held_from_us(
    transaction: Transaction, here: Participant, row: HoldRow, producer: Producer
) -> int:
    """From where on a hold keeps a line: its reader has yet to read what was taken back since."""
    version = row.versions.get(producer.replica)
    if version is None or producer.participant != here:
        return row.hold.from_us
    since = recalls_after(transaction, (row.hold.stream, producer), version)
    return min([row.hold.from_us, *(recall.from_us for recall in since)])


def _chosen_us(chosen: LineRow) -> int:
    """Up to where what is read of a stream's producers is final."""
    tentative = [r for r in chosen.live if r.segment.stability is Stability.TENTATIVE]
    if tentative:
        return min(row.segment.range.from_us for row in tentative)
    return BEGINNING_US if chosen.boundary_us is None else chosen.boundary_us


def _without_trimmed(line: LineRow, segments_max: int) -> tuple[LineRow, list[SegmentRow]]:
    """The line without the rows that are trimmed, live ones first, and what went."""
    kept_us = BEGINNING_US if line.trimmed_us is None else line.trimmed_us
    trimmed = [row for row in (*line.live, *line.superseded) if row.segment.range.to_us <= kept_us]
    gone = trimmed[:segments_max]
    if not gone:
        return line, gone
    taken = set(map(id, gone))
    return replace(
        line,
        live=tuple(row for row in line.live if id(row) not in taken),
        superseded=tuple(row for row in line.superseded if id(row) not in taken),
    ), gone


def _let_go(
    transaction: Transaction, stream: StreamName, producer: Producer, line: LineRow, width_us: int
) -> Iterator[SegmentFile]:
    """The files of landed batches whose buckets are all trimmed; the batches stay known."""
    for key, batch in transaction.rows(tables.BATCHES).items():
        if (key[0], batch.producer) != (stream, producer) or batch.file is None:
            continue
        if line.trimmed_us is None or max(batch.counts) + width_us > line.trimmed_us:
            continue
        transaction.put(tables.BATCHES, key, replace(batch, file=None))
        yield batch.file


def _forget_late(
    transaction: Transaction, stream: StreamName, producer: Producer, line: LineRow,
    segments_max: int,
) -> None:  # fmt: skip
    """A late record of a trimmed bucket stays in quarantine alone."""
    trimmed_us = line.trimmed_us
    if trimmed_us is None:
        return
    lost = sorted(
        (row.late.stime_us, number)
        for number, row in transaction.rows(tables.LATE_RECORDS).items()
        if (row.stream, row.producer) == (stream, producer) and row.late.stime_us < trimmed_us
    )
    for _, number in lost[: 100 * segments_max]:
        transaction.remove(tables.LATE_RECORDS, number)


def _forgotten(transaction: Transaction, files: Iterable[SegmentFile]) -> tuple[SegmentFile, ...]:
    """Those of the files that nothing names now; they are known no more."""
    gone = {file.path: file for file in files}
    for file in _named(transaction) if gone else ():
        gone.pop(file.path, None)
    for file in gone.values():
        transaction.remove(tables.FILES, file.path)
    return tuple(gone[path] for path in sorted(gone))


def _named(transaction: Transaction) -> Iterator[SegmentFile]:
    for batch in transaction.rows(tables.BATCHES).values():
        if batch.file is not None:
            yield batch.file
    for line in transaction.rows(tables.LINES).values():
        for row in (*line.live, *line.superseded):
            yield from row.segment.files


def compact(
    transaction: Transaction,
    stream: StreamName,
    producer: Producer,
    segments: Sequence[Segment],
    file: SegmentFile,
) -> tuple[SegmentFile, ...]:
    """See `Trims.compact`."""
    line = lock_line(transaction, stream, producer)
    ranges = {(s.range, s.version) for s in segments}
    chosen = [
        row
        for row in line.live
        if (row.segment.range, row.segment.version) in ranges
        and row.segment.stability.is_final
        and row.segment.buckets
    ]
    if len(chosen) != len(segments):
        raise Conflict(f"the segments of {stream} to be compacted are not all there: read again")
    if sum(row.segment.rows for row in chosen) != file.rows:
        raise Refused(f"file {file.path} has other rows than the segments of {stream}")
    olds = {old for row in chosen for old in row.segment.files}
    record_files(transaction, stream, (file,))
    chosen_ids = set(map(id, chosen))
    live = tuple(
        replace(row, segment=replace(row.segment, files=(file,))) if id(row) in chosen_ids else row
        for row in line.live
    )
    transaction.put(tables.LINES, (stream, producer), replace(line, live=live))
    return _forgotten(transaction, olds - {file})
