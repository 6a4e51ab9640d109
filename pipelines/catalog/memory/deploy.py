"""Deployment in memory: brings in desired state; the same state again changes nothing."""

from __future__ import annotations

import re
from dataclasses import replace

from medusa_core.errors import Conflict, Refused
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.fragments import MOVED_PREFIX
from medusa_core.names import Participant, check_name
from medusa_core.segments import IMPORT
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import FragmentRow, LineRow
from pipelines.catalog.memory.trim import declare_retention
from pipelines.catalog.records import Assignment, Deployment, StreamRecord

_STREAM_NAME = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)?")


def deploy(transaction: Transaction, here: Participant, deployment: Deployment) -> None:
    """See `Deployments.deploy`."""
    transaction.lock_name(tables.HOME, "only")
    for record in deployment.streams:
        is_new = transaction.get(tables.STREAMS, record.name) is None
        _declare(transaction, record)
        if is_new and deployment.kept_ms is not None:
            declare_retention(transaction, record.name, deployment.kept_ms)
    transaction.put(tables.NETWORKS, deployment.network, deployment.document)
    plan = (deployment.network, deployment.plan_document)
    if (transaction.get(tables.PLANS, deployment.plan) or plan) != plan:
        raise Refused(f"plan {deployment.plan} exists with another document")
    transaction.put(tables.PLANS, deployment.plan, plan)
    for fragment, (inputs, outputs) in deployment.fragments.items():
        _bring_in(
            transaction,
            fragment,
            FragmentRow(
                deployment.network,
                tuple(inputs),
                tuple(outputs),
                deployment.starts_us.get(fragment),
            ),
        )
    for assignment in deployment.assignments:
        _assign(transaction, here, assignment)


def _declare(transaction: Transaction, record: StreamRecord) -> None:
    if not _STREAM_NAME.fullmatch(record.name) or record.kind not in ("source", "derived"):
        raise Refused(f"stream {record.name} of kind {record.kind} has an invalid name: correct it")
    deployed = transaction.get(tables.STREAMS, record.name)
    if record.width_us <= 0 or (deployed is not None and _shape(deployed) != _shape(record)):
        raise Refused(f"stream {record.name} exists with another shape: choose another name")
    transaction.put(tables.STREAMS, record.name, record)


def _shape(record: StreamRecord) -> tuple[object, ...]:
    return (record.kind, record.width_us, tuple(record.columns.items()), record.key)


def _bring_in(transaction: Transaction, fragment: str, row: FragmentRow) -> None:
    records = {name: transaction.get(tables.STREAMS, name) for name in (*row.inputs, *row.outputs)}
    for name, record in records.items():
        if record is None:
            raise Refused(f"fragment {fragment} names stream {name}, which is not declared")
    for output in row.outputs:
        its = records[output]
        if row.starts_us is not None and its and row.starts_us % its.width_us:
            raise Refused(f"fragment {fragment} starts at no bucket of {output}")
        for input_ in row.inputs:
            wide, narrow = records[output], records[input_]
            if wide and narrow and wide.width_us % narrow.width_us:
                raise Refused(f"the buckets of {output} are no multiple of those of {input_}")
    for other, deployed in transaction.rows(tables.FRAGMENTS).items():
        # An import writes a line of its own of what others compute, and so does a provider.
        has_own = any(name.startswith((IMPORT_PREFIX, MOVED_PREFIX)) for name in (fragment, other))
        if other != fragment and not has_own and set(deployed.outputs) & set(row.outputs):
            raise Refused(f"fragment {fragment} writes a stream that {other} writes already")
        if other == fragment and deployed.network != row.network:
            raise Refused(f"fragment {fragment} belongs to network {deployed.network}")
        if other == fragment and deployed.starts_us != row.starts_us:
            raise Refused(f"fragment {fragment} starts at another bucket: that stays as it is")
    before = transaction.get(tables.FRAGMENTS, fragment)
    is_stopped = before is not None and before.is_stopped
    is_stopped = is_stopped and not fragment.startswith(IMPORT_PREFIX)
    transaction.put(tables.FRAGMENTS, fragment, replace(row, is_stopped=is_stopped))
    # A new output gets a line of everybody who was ever assigned, not of the next one only.
    for (assigned, _, _), assignment in transaction.rows(tables.ASSIGNMENTS).items():
        if assigned == fragment:
            _bring_lines(transaction, row, assignment)


def _bring_lines(transaction: Transaction, fragment: FragmentRow, assignment: Assignment) -> None:
    if assignment.fragment.startswith(IMPORT_PREFIX) and not assignment.producer.is_import:
        return
    for output in fragment.outputs:
        if transaction.get(tables.LINES, (output, assignment.producer)) is None:
            transaction.put(tables.LINES, (output, assignment.producer), LineRow())


def _assign(transaction: Transaction, here: Participant, assignment: Assignment) -> None:
    fragment = transaction.get(tables.FRAGMENTS, assignment.fragment)
    if fragment is None or transaction.get(tables.PLANS, assignment.plan) is None:
        raise Refused(f"the assignment of {assignment.fragment} names what is not deployed")
    is_import = assignment.fragment.startswith(IMPORT_PREFIX)
    if assignment.partition < 0 or assignment.producer.replica < (IMPORT if is_import else 0):
        raise Refused(f"the assignment of {assignment.fragment} counts below 0")
    check_name("participant", assignment.producer.participant)
    _bring_lines(transaction, fragment, assignment)
    log = [
        epoch
        for name, partition, epoch in transaction.rows(tables.ASSIGNMENTS)
        if (name, partition) == (assignment.fragment, assignment.partition)
    ]
    key = (assignment.fragment, assignment.partition, assignment.epoch)
    if transaction.get(tables.ASSIGNMENTS, key) == assignment:
        return
    if assignment.epoch != max(log, default=0) + 1:
        raise Conflict(
            f"epoch {assignment.epoch} of fragment {assignment.fragment} is not the next one: "
            "read again and decide again"
        )
    if assignment.producer.participant == here:
        _check_inputs_are_kept(transaction, fragment, assignment)
    transaction.put(tables.ASSIGNMENTS, key, assignment)


def _check_inputs_are_kept(
    transaction: Transaction, fragment: FragmentRow, assignment: Assignment
) -> None:
    """Refused if an output would begin over input that is gone, as if there had been none."""
    lines = transaction.rows(tables.LINES)
    has_begun = all(lines[o, assignment.producer].boundary_us is not None for o in fragment.outputs)
    for (stream, _), line in lines.items():
        if stream in fragment.inputs and line.trimmed_us is not None and not has_begun:
            raise Refused(
                f"fragment {assignment.fragment} would begin without what {stream} has lost before "
                f"{line.trimmed_us}: let it read a stream that is whole"
            )
