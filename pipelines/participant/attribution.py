"""Attribution of a driver's activities to fragments and causes, for its CPU meter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from medusa_core.commits import Cause, Commit
from medusa_core.decide import CloseBuckets, ComputeStep, Promote
from medusa_core.exchange import import_fragment
from medusa_core.fragments import landing_fragment
from medusa_core.loads import Work, WorkKey
from medusa_core.names import StreamName
from pipelines.sources.live.live_source import Polled

STEP_RECORDS = 1_000
"""What a step costs beside its records (files, a commit), in records: small steps share a job."""


def work_of(decision: CloseBuckets | ComputeStep | Promote, commit: Commit | None = None) -> Work:
    """The work of a decision; its weight among those done with it grows with its records."""
    records = 0
    if commit is not None:
        written = sum(sum(d.rows for d in s.buckets.values()) for s in commit.segments)
        records = commit.metrics.records_in + written
    return Work(of=_key_of(decision), weight=STEP_RECORDS + records)


def _key_of(decision: CloseBuckets | ComputeStep | Promote) -> WorkKey:
    match decision:
        case CloseBuckets():
            return WorkKey(landing_fragment(decision.landing.stream), 0, Cause.LANDING)
        case ComputeStep():
            known = decision.fragment
            return WorkKey(known.fragment.id, known.partition, decision.cause)
        case Promote():
            known = decision.fragment
            return WorkKey(known.fragment.id, known.partition, Cause.CORRECTION)
        case _:
            assert_never(decision)


def landing_works(stream: StreamName, polled: Polled | None) -> Sequence[Work]:
    """The landing of a source, or of all that its feed has brought something of."""
    members = dict(polled.members) if polled is not None else {}
    counts = {name: told.landed + told.quarantined for name, told in members.items()}
    brought = {name: count for name, count in counts.items() if count}
    return [
        Work(of=WorkKey(landing_fragment(name), 0, Cause.LANDING), weight=count)
        for name, count in (brought or dict.fromkeys(members, 1) or {stream: 1}).items()
    ]


def import_works(segments: Iterable[tuple[StreamName, int]]) -> Sequence[Work]:
    """The imports of streams, by how many segments came of each."""
    return [
        Work(of=WorkKey(import_fragment(stream), 0, Cause.IMPORT), weight=1 + count)
        for stream, count in segments
    ]
