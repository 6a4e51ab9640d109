"""The log of owners of fragments in memory: who owns a fragment's buckets from one on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from medusa_core.errors import Conflict, Refused
from medusa_core.exchange import IMPORT_PREFIX, import_fragment
from medusa_core.fragments import MOVED_PREFIX
from medusa_core.names import Participant, StreamName
from medusa_core.recalls import RecallResult
from medusa_core.segments import Producer
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import lock_line, newest_assignments
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import FragmentRow
from pipelines.catalog.records import OwnerLine


def owners(transaction: Transaction, fragment: str, partition: int) -> tuple[OwnerLine, ...]:
    """See `Owners.fragment_owners`."""
    log = sorted(transaction.rows(tables.OWNERS).items())
    return tuple(row for (of, part, _), row in log if (of, part) == (fragment, partition))


def change_owner(transaction: Transaction, here: Participant, line: OwnerLine) -> None:
    """See `Owners.change_owner`."""
    transaction.lock_name(tables.HOME, "only")
    row = transaction.get(tables.FRAGMENTS, line.fragment)
    own = [
        a.producer
        for a in newest_assignments(transaction).values()
        if (a.fragment, a.partition, a.producer.participant)
        == (line.fragment, line.partition, here)
        and not a.producer.is_import
    ]
    if row is None or not row.inputs or not own:
        raise Refused(f"fragment {line.fragment} is not computed here: change its owner elsewhere")
    log = owners(transaction, line.fragment, line.partition)
    if line in log:
        return
    if line.epoch != len(log) + 1:
        raise Conflict(f"epoch {line.epoch} of the owners of {line.fragment} is not the next one")
    for output in row.outputs:
        _check(transaction, line, log, output, own[0])
    key = (line.fragment, line.partition, line.epoch)
    transaction.put(tables.OWNERS, key, line)
    transaction.put(tables.OWNER_RECALLS, key, recalls_of(transaction.rows(tables.RECALLS), row))


def recalls_of(
    recalls: Mapping[tuple[StreamName, Producer, int], RecallResult], row: FragmentRow
) -> int:
    """How many recalls and revisions the streams have had that a fragment reads or writes."""
    return sum(stream in (*row.inputs, *row.outputs) for stream, _, _ in recalls)


def stop(transaction: Transaction, here: Participant, fragment: str) -> bool:
    """See `Owners.stop_fragment`."""
    if not fragment.startswith(MOVED_PREFIX):
        raise Refused(f"fragment {fragment} is no moved one: change its contracts")
    row = transaction.get(tables.FRAGMENTS, fragment)
    if row is None or row.is_stopped:
        return False
    transaction.put(tables.FRAGMENTS, fragment, replace(row, is_stopped=True))
    _stop_imports(transaction, here, row)
    others = [
        other
        for name, other in transaction.rows(tables.FRAGMENTS).items()
        if not other.is_stopped and not name.startswith(IMPORT_PREFIX)
    ]
    written = {stream for other in others for stream in other.outputs}
    for stream, holder, purpose in list(transaction.rows(tables.HOLDS)):
        is_own = (holder, purpose) == (fragment, "progress")
        if is_own or (stream in row.outputs and stream not in written):
            transaction.remove(tables.HOLDS, (stream, holder, purpose))
    return True


def _stop_imports(transaction: Transaction, here: Participant, stopped: FragmentRow) -> None:
    """Inputs that nothing else here reads are imported no more."""
    own = {
        name
        for (name, _, _), line in transaction.rows(tables.ASSIGNMENTS).items()
        if line.producer.participant == here
    }
    wired = transaction.rows(tables.FRAGMENTS)
    read = {stream for name in own if not wired[name].is_stopped for stream in wired[name].inputs}
    read |= {
        stream
        for name, row in wired.items()
        if name.startswith(MOVED_PREFIX) and name not in own and not row.is_stopped
        for stream in row.outputs
    }
    for stream in (*stopped.inputs, *stopped.outputs):
        known = wired.get(import_fragment(stream))
        if known is not None and stream not in read:
            transaction.put(
                tables.FRAGMENTS, import_fragment(stream), replace(known, is_stopped=True)
            )


def stopped_producers(transaction: Transaction) -> Collection[tuple[StreamName, Producer]]:
    """The lines of providers whose moves have ended."""
    wired, log = transaction.rows(tables.FRAGMENTS), transaction.rows(tables.ASSIGNMENTS)

    def make() -> set[tuple[StreamName, Producer]]:
        return {
            (stream, line.producer)
            for (name, _, _), line in log.items()
            if name.startswith(MOVED_PREFIX) and wired[name].is_stopped
            for stream in wired[name].outputs
        }

    return transaction.made_of("stopped producers", (wired, log), make)


def _check(
    transaction: Transaction,
    line: OwnerLine,
    log: tuple[OwnerLine, ...],
    output: str,
    own: Producer,
) -> None:
    """Refused or Conflict if the owner of an output's buckets cannot change there."""
    lock_line(transaction, StreamName(output), own)
    lines = transaction.rows(tables.LINES)
    record = next(r for name, r in transaction.rows(tables.STREAMS).items() if name == output)
    if not any(of == (output, line.owner) for of in lines):
        raise Refused(f"{line.owner} writes no line of {output}: deploy it first")
    if line.from_us % record.width_us:
        raise Refused(f"{line.from_us} is no bucket of {output}")
    boundary_us = next(row.boundary_us for of, row in lines.items() if of == (output, own))
    if boundary_us is not None and line.from_us < boundary_us:
        raise Conflict(f"{output} is computed up to {boundary_us}: read again and decide again")
    ahead = [o.from_us for o in log if boundary_us is None or o.from_us > boundary_us]
    if ahead and line.from_us > max(ahead):
        raise Conflict(f"the owner of {line.fragment} changes at {max(ahead)} already")
