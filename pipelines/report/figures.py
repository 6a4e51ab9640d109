"""Everything that a report shows, read from one home: nothing is passed by hand.

Counts come from the digests that live segments carry per bucket, times from the metering of each
commit, rows from the files that the segments name. Limit: a report is about the live state;
superseded rows are not in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from medusa_core.calendar_windows import usual_length_us
from medusa_core.commits import QuarantinedRecord
from medusa_core.digest import Digest, sum_of
from medusa_core.grid import Range, floor_us
from medusa_core.names import PlanId, StreamName
from medusa_core.network import Aggregate, Network, Rank
from medusa_core.segments import Segment
from pipelines.catalog.records import StepRecord, StreamStatus
from pipelines.homes.home import Home
from pipelines.language.check import check_network
from pipelines.spark.deployment import plan_of
from pipelines.storage.segment_rows import columns_of
from pipelines.storage.stable_rows import Rows, read_rows, stable_through_us

FIRST_ROWS = 8
ROWS_READ_MAX = 20_000
"""So many rows of an output are read: for pictures of its values, and the first of them as rows."""
QUARANTINE_READ_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """A stream: how it stands, its live segments, and how far it is stable."""

    status: StreamStatus
    segments: tuple[Segment, ...]
    stable_through_us: int | None

    @property
    def name(self) -> StreamName:
        """Its name."""
        return self.status.stream.name

    @property
    def has_ended(self) -> bool:
        """Whether its end is known and all before it is stable."""
        end_us, through_us = self.status.end_us, self.stable_through_us
        return end_us is not None and through_us is not None and through_us >= end_us

    @property
    def buckets(self) -> Mapping[int, Digest]:
        """Start of each non-empty bucket -> its digest."""
        return {at: d for s in self.segments for at, d in s.buckets.items()}

    @property
    def digest(self) -> Digest:
        """The digest of the whole stream."""
        return sum_of(s.digest for s in self.segments)

    def rows_per_window(self, window_us: int) -> dict[int, int]:
        """Start of each non-empty window -> rows whose event time lies in it."""
        counts: Counter[int] = Counter()
        for at_us, digest in self.buckets.items():
            counts[floor_us(at_us, window_us)] += digest.rows
        return dict(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFigures:
    """The records in quarantine: how many in all, and by reason among the first so many.

    `by_reason` counts a record for each stream that lacks it.
    """

    count: int
    looked_at: int
    by_reason: Mapping[tuple[str, str], int]
    first: tuple[QuarantinedRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One home at one moment."""

    network: Network
    sources: tuple[StreamFigures, ...]
    outputs: tuple[StreamFigures, ...]
    others: tuple[StreamFigures, ...]
    steps: tuple[StepRecord, ...]
    quarantine: QuarantineFigures
    rows: Mapping[StreamName, Rows]
    window_us: int
    plan_here: PlanId
    engine_here: Mapping[str, str]

    @property
    def streams(self) -> tuple[StreamFigures, ...]:
        """Every stream: sources, what crosses between fragments, outputs."""
        return (*self.sources, *self.others, *self.outputs)

    @property
    def plans(self) -> tuple[PlanId, ...]:
        """The fingerprints under which the steps were made."""
        return tuple(dict.fromkeys(step.plan for step in self.steps))


def read_figures(home: Home, network: Network) -> Figures:
    """Read a home that this network was run in; raises Unavailable if a file of it is damaged."""
    streams = {s.stream.name: stream_figures(home, s) for s in home.catalog.streams()}
    read = [s.stream_name for s in network.sources]
    sources = [streams[name] for name in read if name in streams]
    outputs = [streams[StreamName(o.name)] for o in network.outputs if o.name in streams]
    shown = {s.name for s in (*sources, *outputs)}
    widths = [s.status.stream.width_us for s in streams.values()]
    plan = plan_of(network, check_network(network), widths[0], home.directory)
    return Figures(
        network=network,
        sources=tuple(sources),
        outputs=tuple(outputs),
        others=tuple(s for name, s in streams.items() if name not in shown),
        steps=home.catalog.steps(),
        quarantine=quarantine_figures(home),
        rows={o.name: first_rows(home, o) for o in outputs},
        window_us=window_of(network, widths),
        plan_here=plan.id,
        engine_here=plan.engine,
    )


def stream_figures(home: Home, status: StreamStatus) -> StreamFigures:
    """The figures of one (stream, producer)."""
    segments = home.catalog.segments(status.stream.name, producer=status.producer)
    return StreamFigures(
        status=status,
        segments=segments,
        stable_through_us=stable_through_us(segments, status.kept_from_us),
    )


def quarantine_figures(home: Home) -> QuarantineFigures:
    """How many records are in quarantine and why."""
    records = home.catalog.quarantined(QUARANTINE_READ_MAX)
    return QuarantineFigures(
        count=home.catalog.quarantine_count(),
        looked_at=len(records),
        by_reason=Counter((s, r.reason) for r in records for s in {r.stream, *r.outputs}),
        first=records[:FIRST_ROWS],
    )


def first_rows(home: Home, stream: StreamFigures, limit: int = ROWS_READ_MAX) -> Rows:
    """The first rows of a stream's stable prefix."""
    columns = columns_of(stream.status.stream)
    kept_from_us, through_us = stream.status.kept_from_us, stream.stable_through_us
    if kept_from_us is None or through_us is None or through_us <= kept_from_us:
        return Rows(columns=columns, stimes_us=(), values=(), has_more=False)
    part = Range(kept_from_us, through_us)
    segments = [s for s in stream.segments if s.range.overlaps(part)]
    return read_rows(home.storage, segments, columns, part, limit)


def window_of(network: Network, widths_us: Sequence[int]) -> int:
    """What the pictures count by: the shortest window of the network, in whole buckets."""
    windows = [
        usual_length_us(b.every) if isinstance(b, Aggregate) and b.every else b.advance_us
        for b in network.boxes
        if isinstance(b, Aggregate | Rank)
    ]
    whole_us = lcm(*widths_us)
    if not windows:
        return whole_us
    return -(-min(windows) // whole_us) * whole_us


def busiest_bucket(streams: Sequence[StreamFigures]) -> tuple[StreamFigures, Segment, int] | None:
    """The bucket with the most rows among the streams (the first of them), with its segment."""
    found = [
        (digest.rows, stream, segment, at_us)
        for stream in streams
        for segment in stream.segments
        for at_us, digest in segment.buckets.items()
    ]
    if not found:
        return None
    _, stream, segment, at_us = max(found, key=lambda f: (f[0], -f[3]))
    return stream, segment, at_us
