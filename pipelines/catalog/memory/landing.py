"""Landing in memory: batches logged once, and what sources promise (S1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medusa_core.commits import LandedBatch, LandedPart, Lease, SourcePromise
from medusa_core.errors import Refused
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from pipelines.catalog.memory import commit, tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import BatchRow


def land(transaction: Transaction, lease: Lease, batch: LandedBatch) -> bool:
    """See `Landing.land`."""
    stream, producer = batch.stream, lease.key.producer
    key = (stream, batch.query_id, batch.batch_id)
    commit.check_lease(transaction, lease)
    commit.check_writes(transaction, lease.key.fragment, stream)
    # Replicas of a source land one after the other: a batch lands once for all of them.
    transaction.lock_row(tables.STREAMS, stream)
    line = commit.lock_line(transaction, stream, producer)
    if transaction.get(tables.BATCHES, key) is not None:
        return False
    width_us = commit.width_of(transaction, stream)
    for at_us in batch.counts:
        if at_us % width_us:
            raise Refused(f"batch {batch.batch_id} of {stream} counts {at_us}, off grid")
    for at_us in batch.counts:
        closed = line.boundary_us is not None and at_us < line.boundary_us
        promised = line.promised_us is not None and at_us + width_us <= line.promised_us
        if closed or promised:
            raise Refused(f"batch {batch.batch_id} of {stream} has late records in {at_us}")
    if batch.file:
        commit.record_files(transaction, batch.file_of or stream, (batch.file,))
    row = BatchRow(
        transaction.next_number(), producer, batch.file, batch.counts, batch.state, batch.digests
    )
    transaction.put(tables.BATCHES, key, row)
    commit.write_quarantine(transaction, batch.quarantine, producer)
    commit.note_retries(transaction, batch)
    return True


def land_many(transaction: Transaction, landed: Sequence[tuple[Lease, LandedBatch]]) -> bool:
    """See `Landing.land_many`."""
    files = {batch.file for _, batch in landed if batch.file}
    if len(files) > 1:
        raise Refused("batches that land together are in one file: write one")
    is_new = [
        land(transaction, lease, batch)
        for lease, batch in sorted(landed, key=lambda item: item[0].key.fragment)
    ]
    if not any(is_new):
        return False
    if not all(is_new):
        raise Refused("some batches landed without the others that come with them")
    rows = sum(sum(batch.counts.values()) for _, batch in landed)
    if rows != sum(file.rows for file in files):
        raise Refused(f"batches with {rows} records would land in a file of others: count again")
    return True


def promise(transaction: Transaction, promise: SourcePromise) -> None:
    """See `Landing.promise`."""
    lease, stream, origin_us, end_us = (
        promise.lease, promise.stream, promise.origin_us, promise.end_us
    )  # fmt: skip
    commit.check_lease(transaction, lease)
    commit.check_writes(transaction, lease.key.fragment, stream)
    key = (stream, lease.key.producer)
    line, record = commit.lock_line(transaction, *key), transaction.get(tables.STREAMS, stream)
    assert record is not None, "a line implies its stream"
    if record.kind != "source":
        raise Refused(f"{stream} is computed, not landed: only a source makes promises")
    last_us = origin_us if end_us is None else end_us
    if origin_us % record.width_us or last_us % record.width_us or last_us < origin_us:
        raise Refused(f"the origin and end of {stream} are not on its grid or in order")
    landed = landed_counts(transaction, *key)
    if any(at_us < origin_us for at_us in landed):
        raise Refused(f"stream {stream} has landed records before {origin_us}")
    if end_us is not None and any(at_us >= end_us for at_us in landed):
        raise Refused(f"stream {stream} has landed records behind {end_us}")
    if line.promised_us is not None and promise.boundary_us < line.promised_us:
        raise Refused(f"source {stream} has promised {line.promised_us} already (S1)")
    if line.origin_us not in (None, origin_us) or (
        line.end_us is not None and end_us not in (None, line.end_us)
    ):
        raise Refused(f"stream {stream} already has another origin or end")
    reached_us = origin_us if line.boundary_us is None else line.boundary_us
    if end_us is not None and reached_us >= end_us:
        reached_us = FOREVER_US
    moved = replace(
        line,
        origin_us=origin_us,
        boundary_us=reached_us,
        promised_us=promise.boundary_us,
        end_us=line.end_us if end_us is None else end_us,
    )
    transaction.put(tables.LINES, key, moved)


def landed_counts(
    transaction: Transaction, stream: StreamName, producer: Producer
) -> Mapping[int, int]:
    """Landed records per bucket."""
    batches = transaction.rows(tables.BATCHES)

    def make() -> dict[tuple[StreamName, Producer], dict[int, int]]:
        counts: dict[tuple[StreamName, Producer], dict[int, int]] = {}
        for (name, _, _), batch in batches.items():
            mine = counts.setdefault((name, batch.producer), {})
            for at_us, records in batch.counts.items():
                mine[at_us] = mine.get(at_us, 0) + records
        return counts

    return transaction.made_of("landed", (batches,), make).get((stream, producer), {})


def landed_parts(
    transaction: Transaction, stream: StreamName, part: Range
) -> tuple[LandedPart, ...]:
    """See `LandedFiles.landed_parts`."""
    record = transaction.get(tables.STREAMS, stream)
    width_us = record.width_us if record else 0
    found: list[tuple[int, LandedPart]] = []
    for (name, _, _), batch in transaction.rows(tables.BATCHES).items():
        inside = [at for at in batch.counts if part.from_us - width_us < at < part.to_us]
        if name != stream or batch.file is None or not inside:
            continue
        line = transaction.get(tables.LINES, (stream, batch.producer))
        promised_us = None if line is None else line.promised_us
        landed = LandedPart(
            file=batch.file,
            digests={at: batch.digests[at] for at in sorted(inside) if at in batch.digests},
            is_promised=promised_us is not None and max(batch.counts) + width_us <= promised_us,
        )
        found.append((batch.number, landed))
    return tuple(landed for _, landed in sorted(found, key=lambda item: item[0]))


def landed_batches(
    transaction: Transaction, stream: StreamName, query_id: str
) -> Mapping[int, int]:
    """See `LandedFiles.landed_batches`."""
    batches = transaction.rows(tables.BATCHES)

    def make() -> dict[int, int]:
        mine = {key[2]: row for key, row in batches.items() if key[:2] == (stream, query_id)}
        return {number: sum(mine[number].counts.values()) for number in sorted(mine)}

    return transaction.made_of(("batches", stream, query_id), (batches,), make)
