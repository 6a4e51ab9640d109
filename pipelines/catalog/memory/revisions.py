"""Revisions in memory, written from the words of `Recalls.revise` and not from the SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from medusa_core.commits import Cause, Commit, Lane, Lease, LeaseKey
from medusa_core.errors import Conflict, Refused
from medusa_core.fragments import landing_fragment
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Epoch, Participant, StreamName, Version
from medusa_core.recalls import RecallResult
from medusa_core.revisions import RevisionRequest
from medusa_core.segments import Producer, Segment, Stability
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import (
    check_buckets,
    lock_line,
    newest_assignments,
    note_revision,
    note_version,
    record_files,
    supersede,
    width_of,
)
from pipelines.catalog.memory.late_records import admit_late, check_late
from pipelines.catalog.memory.recalls import MOVED_BACK
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import CommitRow, LineRow, SegmentRow
from pipelines.catalog.memory.trim import hold_again


def revise(transaction: Transaction, here: Participant, request: RevisionRequest) -> RecallResult:
    """See `Recalls.revise`."""
    of = (request.stream, request.producer)

    # 1 The same revision made before? Its answer again.
    made = transaction.get(tables.COMMITS, request.key)
    if made is not None:
        return _made(transaction, of, made.versions[request.stream])

    # 2 May it be?
    record = transaction.get(tables.STREAMS, request.stream)
    if record is None or transaction.get(tables.LINES, of) is None:
        raise Refused(f"stream {request.stream} has no line by {request.producer}: deploy it first")
    if request.producer.participant != here or request.producer.is_import:
        raise Refused(f"the line of {request.stream} by {request.producer} is not written here")
    if record.kind != "source":
        raise Refused(f"{request.stream} is computed: revise the sources that it is computed from")
    reached = behind(transaction, request.stream)
    for stream in sorted(reached):
        _check_producers(transaction, stream)

    # 3 Hold what is to be read again.
    from_us = request.ranges[0].from_us
    hold_for_revision(transaction, request.stream, from_us, request.behind, request.needed)

    # 4 Lock the line; is it as it was when its rows were read?
    line = lock_line(transaction, *of)
    if line.generation != request.generation:
        raise Conflict(f"{request.stream} was revised or recalled meanwhile: read it again")
    for one in request.segments:
        _check_part(transaction, line, one.segment.range, request.stream)
        check_buckets(transaction, one.segment)
    for fragment, inputs in request.needed.items():
        for stream, from_us in inputs.items():
            lines = [row for (s, _), row in transaction.rows(tables.LINES).items() if s == stream]
            if lines and all(_is_lost(row, from_us) for row in lines):
                raise Refused(f"{fragment} reads {stream} from {from_us} on, which is trimmed")

    if request.late:
        check_late(transaction, line, request)

    # 5 Replace the ranges, and no other bucket (S13).
    now_ms = transaction.store.clock.now_ms
    line = replace(line, version=Version(line.version + 1))
    parts = [(one.segment.range, one.segment.buckets) for one in request.segments]
    line = note_revision(transaction, of, line, parts, request.because, request.who)
    line = supersede(line, list(request.ranges))
    for one in request.segments:
        record_files(transaction, request.stream, one.segment.files)
    rows = [
        SegmentRow(
            Segment(
                stream=request.stream,
                producer=request.producer,
                range=one.segment.range,
                stability=one.segment.stability,
                version=line.version,
                plan=one.plan,
                buckets=one.segment.buckets,
                files=one.segment.files,
                arrived_ms=now_ms,
            ),
            begin_version=line.version,
            commit_key=request.key,
        )
        for one in request.segments
    ]
    live = tuple(sorted((*line.live, *rows), key=lambda row: row.segment.range))
    transaction.put(tables.LINES, of, replace(line, live=live))
    key = LeaseKey(
        fragment=landing_fragment(request.stream), producer=request.producer, lane=Lane.BACKLOG
    )
    commit = Commit(
        lease=Lease(key=key, epoch=_epoch(transaction, key), holder="", expires_at_ms=0),
        plan=request.segments[0].plan,
        cause=Cause.CORRECTION,
        segments=tuple(one.segment for one in request.segments),
    )
    versions = {request.stream: line.version}
    row = CommitRow(transaction.next_number(), commit, versions, now_ms)
    transaction.put(tables.COMMITS, request.key, row)
    before = transaction.get(tables.CHAINS, (*of, Version(line.version - 1))) or ""
    text = f"{before}\n{request.key}"
    transaction.put(tables.CHAINS, (*of, line.version), sha256(text.encode()).hexdigest())
    note_version(transaction, *of, line.version)
    admit_late(transaction, request)
    return _made(transaction, of, line.version)


def behind(transaction: Transaction, stream: StreamName) -> set[StreamName]:
    """A stream and all that is computed from it in this home, over the wiring."""
    found, todo = {stream}, [stream]
    while todo:
        name = todo.pop()
        for fragment in transaction.rows(tables.FRAGMENTS).values():
            new = set(fragment.outputs) - found if name in fragment.inputs else set()
            found |= new
            todo += sorted(new)
    return found


def _made(
    transaction: Transaction, of: tuple[StreamName, Producer], version: Version
) -> RecallResult:
    found = transaction.rows(tables.RECALLS).items()
    return next(r for (s, p, _), r in found if (s, p) == of and r.version == version)


def _check_producers(transaction: Transaction, stream: StreamName) -> None:
    """Refused for a stream that several producers write."""
    producers = [p for s, p in transaction.rows(tables.LINES) if s == stream]
    if len(producers) > 1:
        raise Refused(f"{stream} has several producers: a revision of it is not followed")


def hold_for_revision(
    transaction: Transaction, stream: StreamName, from_us: int,
    streams: Mapping[StreamName, int], needed: Mapping[str, Mapping[StreamName, int]],
) -> None:  # fmt: skip
    """Move back the holds of all who read a stream or one behind it again, and hold what fragments
    read again."""
    reached, begins = behind(transaction, stream), {stream: from_us, **streams}
    for key, row in transaction.rows(tables.HOLDS).items():
        at_us = begins.get(key[0], FOREVER_US)
        if key[0] in reached and row.hold.purpose in MOVED_BACK and row.hold.from_us > at_us:
            transaction.share_name(tables.ORDERS, key[0])
            transaction.lock_name(tables.HOLDS, key)
            moved = replace(row, hold=replace(row.hold, from_us=at_us))
            transaction.put(tables.HOLDS, key, moved)
    first: dict[StreamName, int] = {}
    for inputs in needed.values():
        for name, at_us in inputs.items():
            first[name] = min(first.get(name, FOREVER_US), at_us)
    for name, at_us in sorted(first.items()):
        hold_again(transaction, name, at_us)


def _check_part(transaction: Transaction, line: LineRow, part: Range, stream: StreamName) -> None:
    width_us = width_of(transaction, stream)
    if part.from_us % width_us or part.to_us % width_us:
        raise Refused(f"segment {part} of {stream} is not on its grid of {width_us} us")
    if line.trimmed_us is not None and part.from_us < line.trimmed_us != line.origin_us:
        raise Refused(f"{stream} is trimmed before {line.trimmed_us}: revise what is kept")
    rows = [row.segment for row in line.live_over(part)]
    covered = sum(
        min(s.range.to_us, part.to_us) - max(s.range.from_us, part.from_us)
        for s in rows
        if s.stability is Stability.STABLE
    )
    if covered != part.to_us - part.from_us:
        raise Refused(f"{stream} is not stable in all of {part}: revise what is stable")


def _is_lost(line: LineRow, from_us: int) -> bool:
    lost_us = line.trimmed_us
    return lost_us is not None and line.origin_us != lost_us and from_us < lost_us


def _epoch(transaction: Transaction, key: LeaseKey) -> Epoch:
    newest = newest_assignments(transaction).get((key.fragment, 0, key.producer.replica))
    if newest is None:
        raise Refused(f"fragment {key.fragment} is not assigned to anybody: deploy it first")
    return newest.epoch
