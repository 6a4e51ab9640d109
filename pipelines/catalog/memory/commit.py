"""The commit in memory, in the numbered order of `Steps.commit`: the model of the SQL function.

Written from the interface's words and not from the SQL, so that driving both with one sequence of
commands compares two readings of the same promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

from medusa_core.commits import (
    Cause,
    Commit,
    CommitResult,
    LandedBatch,
    Lease,
    LeaseKey,
    OutputSegment,
    QuarantinedRecord,
)
from medusa_core.digest import Digest
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import FOREVER_US, Range, merged_ranges
from medusa_core.names import Epoch, StreamName, Version
from medusa_core.recalls import RecallResult
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.recalled import check_commit, recalls_after, revision_since
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import CommitRow, FileRow, LineRow, SegmentRow, VersionRow
from pipelines.catalog.records import Assignment


def newest_assignments(transaction: Transaction) -> Mapping[tuple[str, int, int], Assignment]:
    """Fragment, partition and replica -> who is to compute it, by the newest line of the log."""
    log = transaction.rows(tables.ASSIGNMENTS)

    def make() -> dict[tuple[str, int, int], Assignment]:
        newest: dict[tuple[str, int, int], Assignment] = {}
        for (fragment, partition, epoch), line in log.items():
            of = (fragment, partition, line.producer.replica)
            if of not in newest or newest[of].epoch < epoch:
                newest[of] = line
        return newest

    return transaction.made_of("newest of the log", (log,), make)


def check_epoch(transaction: Transaction, key: LeaseKey, epoch: Epoch) -> None:
    """S8: Conflict unless the epoch is the newest that the home knows for this fragment."""
    newest = newest_assignments(transaction).get(
        (key.fragment, key.partition, key.producer.replica)
    )
    if newest is None:
        raise Refused(f"fragment {key.fragment} is not assigned to anybody: deploy it first")
    if (newest.epoch, newest.producer) != (epoch, key.producer):
        raise Conflict(
            f"fragment {key.fragment} is assigned to {newest.producer} under epoch {newest.epoch}, "
            f"not to {key.producer} under epoch {epoch}: read the assignment again"
        )


def check_lease(transaction: Transaction, lease: Lease) -> None:
    """S8: locks the lease; Conflict unless the named holder has it and it has not expired."""
    held = transaction.lock_row(tables.LEASES, lease.key)
    if held is None or (held.holder, held.epoch) != (lease.holder, lease.epoch):
        raise Conflict(f"the lease of {lease.key} is not held by {lease.holder}: acquire it")
    if held.expires_at_ms <= transaction.store.clock.now_ms:
        raise Conflict(f"the lease of {lease.key} expired: acquire it again and decide again")
    check_epoch(transaction, lease.key, lease.epoch)


def lock_line(transaction: Transaction, stream: StreamName, producer: Producer) -> LineRow:
    """The locked line; Refused if there is none."""
    line = transaction.lock_row(tables.LINES, (stream, producer))
    if line is None:
        raise Refused(f"stream {stream} has no line by {producer}: deploy an assignment first")
    return line


def check_writes(transaction: Transaction, fragment: str, stream: StreamName) -> None:
    """Refused unless the fragment writes the stream."""
    row = transaction.get(tables.FRAGMENTS, fragment)
    if row is None or stream not in row.outputs:
        raise Refused(f"fragment {fragment} does not write stream {stream}")


def commit_step(transaction: Transaction, commit: Commit) -> CommitResult:
    """See `Steps.commit`."""
    lease = commit.lease

    # 1 The same key committed before? Its answer again.
    key = _key_now(transaction, commit)
    made = transaction.get(tables.COMMITS, key)
    if made is not None:
        return CommitResult(
            versions=made.versions, committed_at_ms=made.committed_at_ms, again=True
        )

    # 2 Lock the lease.
    check_lease(transaction, lease)
    is_imported = lease.key.producer.is_import and commit.cause is Cause.IMPORT
    is_known = is_imported and transaction.get(tables.PLANS, commit.plan) is not None
    if not is_known and not any(
        (fragment, partition, line.plan) == (lease.key.fragment, lease.key.partition, commit.plan)
        and epoch <= lease.epoch
        for (fragment, partition, epoch), line in transaction.rows(tables.ASSIGNMENTS).items()
    ):
        raise Refused(f"fragment {lease.key.fragment} was never assigned under plan {commit.plan}")
    check_commit(transaction, commit)
    streams = sorted({segment.stream for segment in commit.segments})
    for stream in streams:
        check_writes(transaction, lease.key.fragment, stream)

    # 3 Lock the lines in one order and number them. Who waits here is called again from the start,
    # so that lease and epoch are as they stand after the wait.
    lines: dict[StreamName, LineRow] = {}
    for stream in streams:
        line = lock_line(transaction, stream, lease.key.producer)
        lines[stream] = replace(line, version=Version(line.version + 1))

    now_ms = transaction.store.clock.now_ms
    for stream, line in lines.items():
        given = [segment for segment in commit.segments if segment.stream == stream]
        parts = sorted(given, key=lambda segment: segment.range)
        # 4 Supersede overlapped tentative rows; what is final stays, but for what read a revision.
        line = _revised(transaction, (stream, lease.key.producer), line, commit, parts)
        line = supersede(line, check_parts(transaction, line, parts, commit))
        # 5 Write segments and files, and move the boundary.
        for segment in given:
            record_files(transaction, stream, segment.files)
            check_kept(line, segment)
            check_buckets(transaction, segment)
        line = write(line, parts, commit, key, now_ms)
        line = moved(line, parts[0].range.from_us, ends=commit.ends)
        transaction.put(tables.LINES, (stream, lease.key.producer), line)
        _chain(transaction, commit, key, line.version, given)
    write_quarantine(transaction, commit.quarantine)
    versions = {stream: line.version for stream, line in lines.items()}
    row = CommitRow(transaction.next_number(), commit, versions, now_ms)
    transaction.put(tables.COMMITS, key, row)
    return CommitResult(versions=versions, committed_at_ms=now_ms)


def _revised(
    transaction: Transaction, of: tuple[StreamName, Producer], line: LineRow, commit: Commit,
    parts: list[OutputSegment],
) -> LineRow:  # fmt: skip
    """The line in its next generation, if a correction replaces final rows that read revisions."""
    because = [
        since
        for part in parts
        for row in line.live_over(part.range)
        if (since := _revision_behind(transaction, row, part, commit)) is not None
    ]
    if not because:
        return line
    for part in parts:
        # A final row that read no revision is a conflict, see `check_parts`.
        if all(map(is_tentative, line.live_over(part.range))):
            raise Refused(
                f"a commit of {part.stream} replaces final rows, but none from "
                f"{part.range.from_us} on (S13): commit these ranges apart"
            )
    return note_revision(
        transaction, of, line, [(part.range, part.buckets) for part in parts], because[-1].because,
        because[-1].who,
    )  # fmt: skip


def _revision_behind(
    transaction: Transaction, row: SegmentRow, part: OutputSegment, commit: Commit
) -> RecallResult | None:
    """The revision for which a correction may replace a final row by another final one."""
    if is_tentative(row) or part.stability is not Stability.STABLE:
        return None
    if commit.cause is not Cause.CORRECTION:
        return None
    return revision_since(transaction, row, commit.lineage)


def note_revision(
    transaction: Transaction, of: tuple[StreamName, Producer], line: LineRow,
    parts: list[tuple[Range, Mapping[int, Digest]]], because: str, who: str,
    generation: int | None = None,
) -> LineRow:  # fmt: skip
    """The line in its next generation, or in that which a partner names, in which these ranges hold
    these buckets."""
    before = {
        at: digest
        for part, _ in parts
        for row in line.live_over(part)
        for at, digest in row.segment.within(part).items()
    }
    after = {at: digest for _, buckets in parts for at, digest in buckets.items()}
    differ = (at for at in {*before, *after} if before.get(at) != after.get(at))
    width_us = width_of(transaction, of[0])
    changed = merged_ranges(Range(at, at + width_us) for at in differ)
    revision = RecallResult(
        stream=of[0],
        producer=of[1],
        generation=generation or line.generation + 1,
        from_us=changed[0].from_us if changed else FOREVER_US,
        version=line.version,
        because=because,
        who=who,
        recalled_at_ms=transaction.store.clock.now_ms,
        ranges=merged_ranges(part for part, _ in parts),
        changed=changed,
    )
    transaction.put(tables.RECALLS, (*of, revision.generation), revision)
    return replace(line, generation=revision.generation)


def _key_now(transaction: Transaction, commit: Commit) -> str:
    """The commit's key in the generations of its lines that recalls began, so that a recalled
    result has another key. After a revision the same is not computed again.

    A correction of tentative rows that is sent again finds its own rows final.
    """
    streams = sorted({segment.stream for segment in commit.segments})
    of = commit.lease.key.producer
    lines = {stream: transaction.get(tables.LINES, (stream, of)) for stream in streams}
    recalled = {
        stream: [r.generation for r in recalls_after(transaction, (stream, of), tables.NEVER)
                 if not r.is_revision]
        for stream, line in lines.items()
        if line and line.generation > 1
    }  # fmt: skip
    key = commit.key + "".join(f"@{max(found)}" for found in recalled.values() if found)
    if commit.cause is not Cause.CORRECTION or transaction.get(tables.COMMITS, key) is not None:
        return key
    is_revision = any(
        not is_tentative(row)
        for segment in commit.segments
        if (line := lines[segment.stream]) is not None
        for row in line.live_over(segment.range)
    )
    return f"{commit.key}@revision" if is_revision else key


def _chain(
    transaction: Transaction, commit: Commit, key: str, version: Version, given: list[OutputSegment]
) -> None:
    """Extend the line's chain by what was written, but for what may differ the next time."""
    of = (given[0].stream, commit.lease.key.producer)
    before = transaction.get(tables.CHAINS, (*of, Version(version - 1))) or ""
    written = [(s.range, s.stability, s.missing, sorted(s.buckets.items())) for s in given]
    text = f"{before}\n{key}\n{written}"
    transaction.put(tables.CHAINS, (*of, version), sha256(text.encode()).hexdigest())
    note_version(transaction, *of, version)


def note_version(
    transaction: Transaction, stream: StreamName, producer: Producer, version: Version
) -> None:
    """Keep how the line stands at a version that has just been written."""
    line = transaction.get(tables.LINES, (stream, producer))
    assert line is not None, "a version is of a line"
    ends = [at for at in (line.boundary_us, line.end_us) if at is not None]
    ends += [row.segment.range.from_us for row in line.live if is_tentative(row)]
    row = VersionRow(min(ends, default=None), transaction.store.clock.now_ms)
    transaction.put(tables.VERSIONS, (stream, producer, version), row)


def width_of(transaction: Transaction, stream: StreamName) -> int:
    """The bucket width of a stream that is deployed here."""
    record = transaction.get(tables.STREAMS, stream)
    assert record is not None, f"a line of {stream} implies the stream"
    return record.width_us


def check_parts(
    transaction: Transaction, line: LineRow, parts: list[OutputSegment], commit: Commit
) -> list[Range]:
    """The ranges to be written, if they fit the grid, the line's life and what stands there."""
    past_us: int | None = None
    for part in parts:
        at, width_us = part.range, width_of(transaction, part.stream)
        if at.from_us % width_us or at.to_us % width_us:
            raise Refused(f"segment {at} of {part.stream} is not on its grid of {width_us} us")
        if past_us is not None and at.from_us < past_us:
            raise Refused(f"segment {at} of {part.stream} overlaps another of the same commit")
        if line.origin_us is not None and at.from_us < line.origin_us:
            raise Refused(f"segment {at} of {part.stream} is before its origin {line.origin_us}")
        if line.end_us is not None and at.to_us > line.end_us:
            raise Refused(f"segment {at} of {part.stream} is after its end {line.end_us}")
        past_us = at.to_us
        for row in line.live_over(at):
            old = row.segment
            is_revised = _revision_behind(transaction, row, part, commit) is not None
            if (old.stability.is_final and not is_revised) or not part.stability.is_final:
                raise Conflict(
                    f"segment {at} of {part.stream} is {old.stability.value} over "
                    f"{old.range}: read again and decide again"
                )
    return [part.range for part in parts]


def supersede(line: LineRow, ranges: list[Range]) -> LineRow:
    """The line without the rows that `ranges` (in order) overlap, but with what is left of them."""
    if not ranges or not line.live_over(Range(ranges[0].from_us, ranges[-1].to_us)):
        return line
    live: list[SegmentRow] = []
    ended: list[SegmentRow] = []
    for row in line.live:
        if any(row.segment.range.overlaps(part) for part in ranges):
            ended.append(replace(row, end_version=line.version))
            live += [
                replace(row, segment=cut(row.segment, left), begin_version=line.version)
                for left in remainders(row.segment.range, ranges)
            ]
        else:
            live.append(row)
    return replace(line, live=tuple(live), superseded=(*line.superseded, *ended))


def remainders(whole: Range, ranges: list[Range]) -> list[Range]:
    """What the ranges (in order, apart from each other) leave of a whole."""
    left: list[Range] = []
    at_us = whole.from_us
    for part in ranges:
        if not part.overlaps(whole):
            continue
        if at_us < part.from_us:
            left.append(Range(at_us, part.from_us))
        at_us = part.to_us
    return [*left, Range(at_us, whole.to_us)] if at_us < whole.to_us else left


def cut(segment: Segment, part: Range) -> Segment:
    """A part of a segment: the same content, version and files (none if it holds no row)."""
    buckets = segment.within(part)
    return replace(segment, range=part, buckets=buckets, files=segment.files if buckets else ())


def check_kept(line: LineRow, segment: OutputSegment) -> None:
    """Conflict if a segment begins where all was final and is trimmed."""
    if line.trimmed_us is not None and segment.range.from_us < line.trimmed_us:
        raise Conflict(
            f"segment {segment.range} of {segment.stream} begins before {line.trimmed_us}, where "
            "all is trimmed: read again and decide again"
        )


def check_buckets(transaction: Transaction, segment: OutputSegment) -> None:
    """Refused if a bucket does not begin on the stream's grid, or if a gap has rows."""
    if segment.buckets and segment.stability is Stability.GAP:
        raise Refused(f"segment {segment.range} of {segment.stream} is a gap and has rows")
    width_us = width_of(transaction, segment.stream)
    for at_us in segment.buckets:
        if at_us % width_us:
            raise Refused(f"bucket {at_us} of {segment.stream} is not on its grid")


def write(
    line: LineRow, parts: list[OutputSegment], commit: Commit, key: str, now_ms: int
) -> LineRow:
    """The line with the new segments; their age is what it is now."""
    rates: dict[StreamName, float] = {}
    for read in commit.lineage:
        rates[read.output] = max(rates.get(read.output, 0.0), read.drop_rate)
    rows = [
        SegmentRow(
            Segment(
                stream=part.stream,
                producer=commit.lease.key.producer,
                range=part.range,
                stability=part.stability,
                version=line.version,
                plan=commit.plan,
                buckets=part.buckets,
                files=part.files,
                age_ms=0 if part.fresh_ms is None else max(now_ms - part.fresh_ms, 0),
                arrived_ms=now_ms,
                missing=part.missing,
                drop_rate=rates.get(part.stream, 0.0),
            ),
            begin_version=line.version,
            commit_key=key,
        )
        for part in parts
    ]
    live = sorted((*line.live, *rows), key=lambda row: row.segment.range)
    return replace(line, live=tuple(live))


def moved(line: LineRow, first_us: int, *, ends: bool) -> LineRow:
    """The line with its boundary where its live rows now reach without a hole."""
    at_us = first_us if line.boundary_us is None else line.boundary_us
    for row in line.live_after(at_us):
        if row.segment.range.from_us > at_us:
            break
        at_us = row.segment.range.to_us
    if line.generation > 1 and line.live_after(at_us):
        raise Conflict(f"the line was recalled and is at {at_us}: read again and decide again")
    end_us = line.end_us
    if ends and at_us != FOREVER_US:
        if line.live_after(at_us) or (end_us is not None and at_us < end_us):
            raise Refused(f"the stream cannot end at {at_us}: compute what is missing before")
        end_us = at_us
    if end_us is not None and at_us >= end_us:
        at_us = FOREVER_US
    origin_us = first_us if line.origin_us is None else line.origin_us
    return replace(line, origin_us=origin_us, boundary_us=at_us, end_us=end_us)


def record_files(
    transaction: Transaction, stream: StreamName, files: Iterable[SegmentFile]
) -> None:
    """Know files; Refused if a path is known with another content or for another stream."""
    for file in sorted(files, key=lambda f: f.path):
        if transaction.get(tables.FILES, file.path) is None:
            transaction.lock_name(tables.FILES, file.path)
            transaction.put(tables.FILES, file.path, FileRow(stream, file))
        elif transaction.get(tables.FILES, file.path) != FileRow(stream, file):
            raise Refused(f"file {file.path} is known with other content: write under a new name")


def write_quarantine(
    transaction: Transaction,
    records: Iterable[QuarantinedRecord],
    landed_by: Producer | None = None,
) -> None:
    """Write records to quarantine, and keep all of a late one that a revision is to admit."""
    for record in records:
        if transaction.get(tables.STREAMS, record.stream) is None:
            raise Refused(f"quarantine names stream {record.stream}, which is not deployed here")
        number = transaction.next_number()
        transaction.put(tables.QUARANTINE, number, replace(record, late=None))
        if record.late is not None and landed_by is not None:
            arrived_ms = transaction.store.clock.now_ms
            row = tables.LateRecordRow(landed_by, record.stream, record.late, arrived_ms)
            transaction.put(tables.LATE_RECORDS, number, row)


def is_tentative(row: SegmentRow) -> bool:
    """Whether a row may be superseded."""
    return row.segment.stability is Stability.TENTATIVE


def note_retries(transaction: Transaction, batch: LandedBatch) -> None:
    """Note which quarantined records land repaired with a batch, each once."""
    for number in batch.retried:
        record = transaction.get(tables.QUARANTINE, number)
        if record is None or record.stream != batch.stream:
            raise Refused(f"stream {batch.stream} has no record {number} in quarantine")
        if transaction.get(tables.RETRIES, number) is not None:
            raise Refused(f"record {number} of quarantine has landed already")
        transaction.put(tables.RETRIES, number, batch.query_id)
        if transaction.get(tables.LATE_RECORDS, number) is not None:
            transaction.remove(tables.LATE_RECORDS, number)
