"""Attribution of a driver's activities to fragments and causes, for its CPU meter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from medusa_core.commits import Cause, Commit
from medusa_core.decide import Adopt, CloseBuckets, ComputeStep, Doable, DropBuckets, Promote
from medusa_core.exchange import import_fragment
from medusa_core.fragments import landing_fragment
from medusa_core.loads import FragmentSpan, LoadKey
from medusa_core.names import StreamName
from pipelines.sources.live.live_source import Polled

STEP_RECORDS = 1_000
"""The fixed cost of a step (files, a commit), in records: small steps share a job."""


def spans_of(decision: Doable, commit: Commit | None = None) -> FragmentSpan:
    """The work of a decision; its weight among those done with it grows with its records."""
    records = 0
    if commit is not None:
        written = sum(sum(d.rows for d in s.buckets.values()) for s in commit.segments)
        records = commit.metrics.records_in + written
    return FragmentSpan(of=_key_of(decision), weight=STEP_RECORDS + records)


def _key_of(decision: Doable) -> LoadKey:
    match decision:
        case CloseBuckets():
            return LoadKey(landing_fragment(decision.landing.stream), 0, Cause.LANDING)
        case ComputeStep() | Adopt() | DropBuckets():
            known = decision.fragment
            return LoadKey(known.fragment.id, known.partition, decision.cause)
        case Promote():
            known = decision.fragment
            return LoadKey(known.fragment.id, known.partition, Cause.CORRECTION)
        case _:
            assert_never(decision)


def landing_spans(stream: StreamName, polled: Polled | None) -> Sequence[FragmentSpan]:
    """The landing of a source, or of all that its feed has brought something of."""
    members = dict(polled.members) if polled is not None else {}
    counts = {name: poll.landed + poll.quarantined for name, poll in members.items()}
    brought = {name: count for name, count in counts.items() if count}
    return [
        FragmentSpan(of=LoadKey(landing_fragment(name), 0, Cause.LANDING), weight=count)
        for name, count in (brought or dict.fromkeys(members, 1) or {stream: 1}).items()
    ]


def import_spans(segments: Iterable[tuple[StreamName, int]]) -> Sequence[FragmentSpan]:
    """The imports of streams, by how many segments came of each."""
    return [
        FragmentSpan(of=LoadKey(import_fragment(stream), 0, Cause.IMPORT), weight=1 + count)
        for stream, count in segments
    ]
