"""Values as the catalog's functions take them (JSON), and rows as values again."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import RowMapping

from medusa_core.bounds import Bound, Policy
from medusa_core.commits import (
    Commit,
    LandedBatch,
    Lane,
    LateRow,
    Lease,
    LeaseKey,
    OutputSegment,
    QuarantinedRecord,
    StepMetrics,
)
from medusa_core.cursors import Cursor
from medusa_core.digest import Digest
from medusa_core.drops.utility import qos_of_document
from medusa_core.grid import BEGINNING_US, Range
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version
from medusa_core.segments import Producer, Read, Segment, SegmentFile, Stability
from medusa_core.states import State, Transition
from pipelines.catalog.knowledge_rows import (
    Assigned,
    AssignedLines,
    Line,
    OwnedFrom,
    PlannedFrom,
)
from pipelines.catalog.records import (
    Assignment,
    Deployment,
    LeaseRecord,
    LineStatus,
    OwnerLine,
    QuarantineEntry,
    StepRecord,
    StreamRecord,
    StreamStatus,
)

Row = Mapping[str, Any] | RowMapping


def key_fields(key: LeaseKey) -> dict[str, Any]:
    """A lease key as the functions' arguments."""
    return {
        "fragment": key.fragment,
        "partition": key.partition,
        "participant": key.producer.participant,
        "replica": key.producer.replica,
        "lane": key.lane.value,
    }


def line_fields(stream: StreamName, producer: Producer) -> dict[str, Any]:
    """A line as the arguments of a statement."""
    return {
        "stream": stream,
        "participant": producer.participant,
        "replica": producer.replica,
    }


def deployment_document(deployment: Deployment) -> str:
    """What medusa.deploy takes."""
    return json.dumps(
        {
            "network": deployment.network,
            "document": deployment.document,
            "plan": deployment.plan,
            "plan_document": deployment.plan_document,
            "kept_ms": deployment.kept_ms,
            "streams": [
                {
                    "name": s.name,
                    "kind": s.kind,
                    "width_us": s.width_us,
                    "columns": [[name, type_] for name, type_ in s.columns.items()],
                    "key_columns": list(s.key),
                }
                for s in deployment.streams
            ],
            "fragments": [
                {
                    "id": id_,
                    "inputs": list(inputs),
                    "outputs": list(outputs),
                    "starts_us": deployment.starts_us.get(id_),
                }
                for id_, (inputs, outputs) in deployment.fragments.items()
            ],
            "assignments": [
                {
                    "fragment": a.fragment,
                    "partition": a.partition,
                    "epoch": a.epoch,
                    "participant": a.producer.participant,
                    "replica": a.producer.replica,
                    "plan": a.plan,
                    "from_us": a.from_us,
                }
                for a in deployment.assignments
            ],
        }
    )


def owner_values(line: OwnerLine) -> dict[str, Any]:
    """What medusa.change_owner takes."""
    return {
        "fragment": line.fragment,
        "partition": line.partition,
        "epoch": line.epoch,
        "participant": line.owner.participant,
        "replica": line.owner.replica,
        "from_us": line.from_us,
        "timeout_ms": line.timeout_ms,
        "because": line.because,
    }


def owner_line_of(row: Row) -> OwnerLine:
    """A row of the log of owners."""
    return OwnerLine(
        fragment=row["fragment"],
        partition=row["partition"],
        epoch=Epoch(row["epoch"]),
        owner=producer_of(row),
        from_us=row["from_us"],
        timeout_ms=row["timeout_ms"],
        because=row["because"],
    )


def segment_fields(segment: OutputSegment) -> dict[str, Any]:
    """A segment to be written, as the functions take it."""
    buckets = sorted(segment.buckets.items())
    return {
        "from_us": segment.range.from_us,
        "to_us": segment.range.to_us,
        "stability": segment.stability.value,
        "fresh_ms": segment.fresh_ms,
        "missing": list(segment.missing),
        "bucket_us": [at_us for at_us, _ in buckets],
        "bucket_rows": [digest.rows for _, digest in buckets],
        "sum_a": [digest.sum_a for _, digest in buckets],
        "sum_b": [digest.sum_b for _, digest in buckets],
        "files": files_document(segment.files),
    }


def commit_document(commit: Commit) -> str:
    """What medusa.commit_step takes."""
    streams: dict[StreamName, list[dict[str, Any]]] = {}
    for segment in commit.segments:
        streams.setdefault(segment.stream, []).append(segment_fields(segment))
    return json.dumps(
        {
            "key": commit.key,
            **key_fields(commit.lease.key),
            "epoch": commit.lease.epoch,
            "holder": commit.lease.holder,
            "plan": commit.plan,
            "cause": commit.cause.value,
            "ends": commit.ends,
            "streams": streams,
            "lineage": [
                {
                    "output": read.output,
                    "position": position,
                    "input": read.input,
                    "participant": read.producer.participant,
                    "replica": read.producer.replica,
                    "from_us": read.range.from_us,
                    "to_us": read.range.to_us,
                    "read_version": read.version,
                    "drop_rate": read.drop_rate,
                    "content": read.content,
                }
                for position, read in enumerate(commit.lineage)
            ],
            "quarantine": _quarantine(commit.quarantine),
            "metrics": {
                "records_in": commit.metrics.records_in,
                "records_out": commit.metrics.records_out,
                "spark_jobs": commit.metrics.spark_jobs,
                "phases_ms": dict(commit.metrics.phases_ms),
            },
        }
    )


def landing_document(lease: Mapping[str, Any], batch: LandedBatch) -> str:
    """What medusa.land takes; `lease` as the functions' arguments."""
    files = files_document((batch.file,) if batch.file else ())
    return json.dumps({**batch_fields(lease, batch), "files": files})


def batch_fields(lease: Mapping[str, Any], batch: LandedBatch) -> dict[str, Any]:
    """A landed batch without its file."""
    return {
        **lease,
        "stream": batch.stream,
        "query_id": batch.query_id,
        "batch_id": batch.batch_id,
        "bucket_us": list(batch.counts.keys()),
        "bucket_records": list(batch.counts.values()),
        "sum_a": [batch.digests[at].sum_a for at in batch.counts] if batch.digests else None,
        "sum_b": [batch.digests[at].sum_b for at in batch.counts] if batch.digests else None,
        "quarantine": _quarantine(batch.quarantine),
        "retried": list(batch.retried),
        "source_state": batch.state,
    }


def files_document(files: Iterable[SegmentFile]) -> list[dict[str, Any]]:
    """Files as the functions take them."""
    return [
        {"path": f.path, "size_bytes": f.size_bytes, "sha256": f.sha256, "rows": f.rows}
        for f in files
    ]


def _quarantine(records: Iterable[QuarantinedRecord]) -> list[dict[str, Any]]:
    return [
        {
            "stream": r.stream,
            "origin": r.origin,
            "position": r.position,
            "field": r.field,
            "reason": r.reason,
            "content": r.content,
            "size_bytes": r.size_bytes,
            "sha256": r.sha256,
            "outputs": list(r.outputs),
            **_late(r.late),
        }
        for r in records
    ]


def _late(late: LateRow | None) -> dict[str, Any]:
    if late is None:
        return {}
    return {
        "late_us": late.stime_us,
        "late_row": b64encode(late.row).decode(),
        "late_a": late.digest.sum_a,
        "late_b": late.digest.sum_b,
    }


def quarantine_entry_of(row: Row) -> QuarantineEntry:
    """A row of `quarantine_entries`."""
    fields = dict(row)
    number, landed_as = fields.pop("quarantine_id"), fields.pop("landed_as")
    return QuarantineEntry(number=number, record=quarantined_of(fields), landed_as=landed_as)


def quarantined_of(row: Row) -> QuarantinedRecord:
    """A row of `quarantined`."""
    fields = dict(row)
    return QuarantinedRecord(**{**fields, "outputs": tuple(fields["outputs"])})


def producer_of(row: Row) -> Producer:
    """From the columns participant and replica."""
    return Producer(Participant(row["participant"]), row["replica"])


def file_of(path: str, size_bytes: int, sha256: str, rows: int) -> SegmentFile:
    """From its columns."""
    return SegmentFile(path=path, size_bytes=size_bytes, sha256=sha256, rows=rows)


def digests_of(row: Row) -> Iterator[Digest]:
    """Of the buckets of a row, whose sums are texts with commas; NULL: there are none."""
    sums_a = map(int, row["sum_a"].split(",")) if row["sum_a"] else ()
    sums_b = map(int, row["sum_b"].split(",")) if row["sum_b"] else ()
    return map(Digest, row["bucket_rows"], sums_a, sums_b)


def segment_of(row: Row, stream: StreamName, producer: Producer) -> Segment:
    """From the columns that every query of segments has."""
    return Segment(
        stream=stream,
        producer=producer,
        range=Range(row["from_us"], row["to_us"]),
        stability=Stability(row["stability"]),
        version=Version(row["version"]),
        plan=PlanId(row["plan"]),
        buckets=dict(zip(row["bucket_us"], digests_of(row), strict=True)),
        files=tuple(file_of(*f) for f in row["files"] or ()),
        age_ms=row["age_ms"],
        arrived_ms=row.get("arrived_ms") or 0,
        missing=tuple(StreamName(name) for name in row["missing"]),
        drop_rate=row.get("drop_rate") or 0.0,
    )


def read_of(row: Row) -> Read:
    """A line of lineage."""
    return Read(
        output=StreamName(row["output"]),
        input=StreamName(row["input"]),
        producer=producer_of(row),
        range=Range(row["from_us"], row["to_us"]),
        version=Version(row["read_version"]),
        drop_rate=row["drop_rate"],
        content=row.get("content"),
    )


def line_of(row: Row) -> LineStatus:
    """A stream and producer as they stand."""
    return LineStatus(
        stream=StreamRecord(
            name=StreamName(row["name"]),
            kind=row["kind"],
            width_us=row["width_us"],
            columns=dict(row["columns"]),
            key=tuple(row["key_columns"]),
        ),
        producer=producer_of(row),
        version=Version(row["last_version"]),
        origin_us=row["origin_us"],
        boundary_us=BEGINNING_US if row["boundary_us"] is None else row["boundary_us"],
        promised_us=row["promised_us"],
        end_us=row["end_us"],
        tentative_us=row["tentative_us"],
        trimmed_us=row["trimmed_us"],
        corrected_us=row["corrected_us"],
        generation=row["generation"],
    )


def cursor_of(row: Row) -> Cursor:
    """A cursor as it stands."""
    return Cursor(
        stream=StreamName(row["stream"]),
        name=row["name"],
        producer=producer_of(row),
        version=Version(row["version"]),
        from_us=row["from_us"],
        incarnation=row["incarnation"],
        incarnation_here=row["incarnation_here"],
        chain=row["chain"],
        chain_here=row["chain_here"],
        stable_us=row["stable_us"],
        last_version=Version(row["last_version"]),
        placed_at_ms=row["placed_at_ms"],
        moved_at_ms=row["moved_at_ms"],
    )


def status_of(row: Row) -> StreamStatus:
    """The same, counted."""
    return StreamStatus.of(line_of(row), segments=row["segments"], rows=row["rows"])


def lease_of(row: Row) -> LeaseRecord:
    """A lease as it stands."""
    key = LeaseKey(
        fragment=row["fragment"],
        producer=producer_of(row),
        partition=row["partition"],
        lane=Lane(row["lane"]),
    )
    return LeaseRecord(
        lease=Lease(
            key=key,
            epoch=Epoch(row["epoch"]),
            holder=row["holder"],
            expires_at_ms=row["expires_at_ms"],
        ),
        read_at_ms=row["read_at_ms"],
    )


def assignment_of(row: Row) -> Assignment:
    """A line of the assignment log."""
    return Assignment(
        fragment=row["fragment"],
        producer=producer_of(row),
        epoch=Epoch(row["epoch"]),
        plan=PlanId(row["plan"]),
        partition=row["partition"],
        from_us=row["from_us"],
    )


def step_of(row: Row) -> StepRecord:
    """A commit as it was made."""
    return StepRecord(
        commit_key=row["key"],
        fragment=row["fragment"],
        plan=PlanId(row["plan"]),
        cause=row["cause"],
        range=Range(row["from_us"], row["to_us"]),
        committed_at_ms=row["committed_at_ms"],
        versions=row["versions"],
        metrics=StepMetrics(
            records_in=row["records_in"],
            records_out=row["records_out"],
            spark_jobs=row["spark_jobs"],
            phases_ms=row["phases_ms"],
        ),
    )


def bound_of(
    bound_ms: int, during_failure: str, during_stabilization: str, failure_ms_max: int | None
) -> Bound:
    """What is promised of a stream, from its columns."""
    return Bound(
        bound_ms=bound_ms,
        during_failure=Policy(during_failure),
        during_stabilization=Policy(during_stabilization),
        failure_ms_max=failure_ms_max,
    )


def promise_of(row: Row) -> tuple[Bound | None, int]:
    """The bound and the lag of a stream, as promised."""
    bound = None
    if row["bound_ms"] is not None:
        bound = bound_of(
            row["bound_ms"],
            row["during_failure"],
            row["during_stabilization"],
            row["failure_ms_max"],
        )
    return bound, row["lag_ms"]


def transition_of(row: Row) -> Transition:
    """A transition as it was noted."""
    return Transition(
        fragment=row["fragment"],
        partition=row["partition"],
        producer=producer_of(row),
        state=State(row["state"]),
        because=row["because"],
        changed_at_ms=row["changed_at_ms"],
    )


def assigned_lines_of(document: Row) -> AssignedLines:
    """The document of the query `knowledge_assigned`."""
    landed: dict[int, dict[int, int]] = {}
    for line_id, bucket_us, records in document["landed"] or ():
        landed.setdefault(line_id, {})[bucket_us] = records
    return AssignedLines(
        clock_ms=document["clock_ms"],
        assigned=tuple(
            Assigned(
                fragment=a["fragment"],
                partition=a["partition"],
                producer=producer_of(a),
                epoch=Epoch(a["epoch"]),
                plans=tuple(PlannedFrom(PlanId(p), from_us) for p, from_us in a["plans"]),
                inputs=tuple(a["inputs"]),
                outputs=tuple(a["outputs"]),
                is_corrected_apart=a["is_corrected_apart"],
                starts_us=BEGINNING_US if a["starts_us"] is None else a["starts_us"],
                owners=tuple(
                    OwnedFrom(Producer(Participant(participant), replica), from_us, timeout_ms)
                    for participant, replica, from_us, timeout_ms in a["owners"] or ()
                ),
            )
            for a in document["assigned"] or ()
        ),
        lines=tuple(
            Line(
                line_id=ln["line_id"],
                stream=StreamName(ln["stream"]),
                producer=producer_of(ln),
                kind=ln["kind"],
                width_us=ln["width_us"],
                origin_us=ln["origin_us"],
                boundary_us=ln["boundary_us"],
                promised_us=ln["promised_us"],
                end_us=ln["end_us"],
                tentative_us=ln["tentative_us"],
                lag_ms=ln["lag_ms"],
                bound=bound_of(*ln["bound"]) if ln["bound"] else None,
                path_ms=ln["path_ms"] or 0,
                qos=qos_of_document(ln["qos"]) if ln["qos"] else None,
                lacks=None if ln["lacks"] is None else tuple(map(StreamName, ln["lacks"])),
                revised=ln["revised"] or 0,
            )
            for ln in document["lines"] or ()
        ),
        landed=landed,
    )
