"""Small values for the catalog's tests: src (source) -> sums (windows) -> big (a filter)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from medusa_core.commits import (
    Cause,
    Commit,
    LandedBatch,
    Lane,
    Lease,
    LeaseKey,
    OutputSegment,
    QuarantinedRecord,
)
from medusa_core.digest import Digest
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range
from medusa_core.names import Epoch, NetworkName, Participant, PlanId, StreamName, Version
from medusa_core.network import Aggregate, Filter, Network, Output, Source
from medusa_core.plans import fingerprint_of
from medusa_core.segments import Producer, Read, SegmentFile, Stability
from pipelines.catalog.records import Assignment, Deployment, StreamRecord

WIDTH_US = 10_000_000
ALPHA = Participant("alpha")
ME = Producer(ALPHA)
PLAN = fingerprint_of("{}")
"""Of the document that deployments here have: partners check that it is of this fingerprint."""
FIRST, SECOND = Epoch(1), Epoch(2)
HOUR_MS = 3_600_000
SRC, SUMS, BIG = StreamName("src"), StreamName("sums"), StreamName("big")
LANDING, MAIN, TAIL = "landing/src", "example/main", "example/tail"
WRITES = {LANDING: SRC, MAIN: SUMS, TAIL: BIG}
_paths = count(1)


def a_network(size: str = "20s") -> Network:
    return Network(
        name="example",
        sources=(Source(name="src", columns={"at": "bigint", "key": "string"}, time="at"),),
        boxes=(
            Aggregate(name="sums", input="src", size=size, columns={"n": "count(*)"}),
            Filter(name="over", input="sums", cases={"big": "n > 1"}, fragment="tail"),
        ),
        outputs=(Output(name="big", input="over.big"),),
        bucket="10s",
    )


def some_fragments(size: str = "20s") -> dict[str, Fragment]:
    return {fragment.id: fragment for fragment in fragments_of(a_network(size))}


def a_stream(name: StreamName, kind: str = "derived", width_us: int = WIDTH_US) -> StreamRecord:
    return StreamRecord(name=name, kind=kind, width_us=width_us, columns={"n": "bigint"})


def an_assignment(fragment: str, epoch: Epoch = FIRST, producer: Producer = ME,
                  plan: PlanId = PLAN) -> Assignment:  # fmt: skip
    return Assignment(fragment=fragment, producer=producer, epoch=epoch, plan=plan)


def a_deployment(
    *,
    widths_us: Mapping[StreamName, int] | None = None,
    assignments: tuple[Assignment, ...] | None = None,
    fragments: Mapping[str, tuple[tuple[StreamName, ...], tuple[StreamName, ...]]] | None = None,
    plan: PlanId = PLAN,
    plan_document: str = "{}",
) -> Deployment:
    widths_us = widths_us or {}
    return Deployment(
        network=NetworkName("example"),
        document="{}",
        plan=plan,
        plan_document=plan_document,
        streams=tuple(
            a_stream(name, "source" if name == SRC else "derived", widths_us.get(name, WIDTH_US))
            for name in (SRC, SUMS, BIG)
        ),
        fragments=fragments
        or {LANDING: ((), (SRC,)), MAIN: ((SRC,), (SUMS,)), TAIL: ((SUMS,), (BIG,))},
        assignments=assignments
        if assignments is not None
        else tuple(an_assignment(name) for name in (LANDING, MAIN, TAIL)),
    )


def a_key(fragment: str = MAIN, lane: Lane = Lane.LIVE, producer: Producer = ME) -> LeaseKey:
    return LeaseKey(fragment=fragment, producer=producer, lane=lane)


def a_lease(fragment: str = MAIN, holder: str = "me", epoch: Epoch = FIRST,
            lane: Lane = Lane.LIVE) -> Lease:  # fmt: skip
    """A lease as its holder names it; whether it is held is for the catalog to know."""
    return Lease(key=a_key(fragment, lane), epoch=epoch, holder=holder, expires_at_ms=0)


def buckets(*bounds: int) -> Range:
    """A range in whole buckets."""
    return Range(bounds[0] * WIDTH_US, bounds[1] * WIDTH_US)


def a_file(rows: int, path: str | None = None, sha256: str = "ab") -> SegmentFile:
    path = path or f"files/{next(_paths)}"
    return SegmentFile(path=path, size_bytes=10, sha256=sha256, rows=rows)


def a_segment(
    from_bucket: int,
    to_bucket: int,
    stability: Stability = Stability.STABLE,
    *,
    stream: StreamName = SUMS,
    rows: Mapping[int, int] | None = None,
    file: SegmentFile | None = None,
    missing: tuple[StreamName, ...] = (),
) -> OutputSegment:
    """A segment over whole buckets; `rows` maps a bucket's number to how many rows it has."""
    digests = {
        at * WIDTH_US: Digest(n, n * 2**64 - at, n * 2**63 + at)
        for at, n in sorted((rows or {}).items())
    }
    files = (file or a_file(sum((rows or {}).values())),) if digests else ()
    return OutputSegment(
        stream=stream,
        range=buckets(from_bucket, to_bucket),
        stability=stability,
        buckets=digests,
        files=files,
        missing=missing,
    )


def a_read(output: StreamName = SUMS, input_: StreamName = SRC, part: Range | None = None,
           version: int = 1) -> Read:  # fmt: skip
    return Read(
        output=output,
        input=input_,
        producer=ME,
        range=part or buckets(0, 1),
        version=Version(version),
    )


def a_commit(
    *segments: OutputSegment,
    lease: Lease | None = None,
    lineage: tuple[Read, ...] = (),
    quarantine: tuple[QuarantinedRecord, ...] = (),
    ends: bool = False,
    plan: PlanId = PLAN,
) -> Commit:
    return Commit(
        lease=lease or a_lease(),
        plan=plan,
        cause=Cause.NORMAL,
        segments=segments,
        lineage=lineage,
        quarantine=quarantine,
        ends=ends,
    )


def a_batch(
    batch_id: int = 0,
    rows: Mapping[int, int] | None = None,
    *,
    query_id: str = "query",
    file: SegmentFile | None = None,
    quarantine: tuple[QuarantinedRecord, ...] = (),
) -> LandedBatch:
    """A landed batch; `rows` maps a bucket's number to records."""
    counts = {at * WIDTH_US: n for at, n in (rows or {}).items()}
    return LandedBatch(
        stream=SRC,
        query_id=query_id,
        batch_id=batch_id,
        file=(file or a_file(sum(counts.values()))) if counts else None,
        counts=counts,
        quarantine=quarantine,
    )


def with_state(batch: LandedBatch, state: str) -> LandedBatch:
    return replace(batch, state=state)


def a_bad_record(reason: str = "no number") -> QuarantinedRecord:
    return QuarantinedRecord(
        stream=SRC, origin="a.csv", position=7, field="at", reason=reason, content="x,y"
    )


def replace_streams(deployment: Deployment, streams: tuple[StreamRecord, ...]) -> Deployment:
    return replace(deployment, streams=streams)
