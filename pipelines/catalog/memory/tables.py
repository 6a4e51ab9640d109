"""The rows of the in-memory catalog: frozen values; their tables carry the names of `sql/`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from medusa_core.bounds import Bound
from medusa_core.certificates import Certificate
from medusa_core.commits import Commit, Hold, LateRow, LeaseKey, QuarantinedRecord
from medusa_core.digest import Digest
from medusa_core.drops.utility import Qos
from medusa_core.exchange import LineNews
from medusa_core.grid import Range
from medusa_core.names import NetworkName, PlanId, StreamName, Version
from medusa_core.recalls import RecallResult
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from medusa_core.sinks import SinkRecord
from medusa_core.states import Transition
from pipelines.catalog.memory.store import Table
from pipelines.catalog.records import Assignment, OwnerLine, StreamRecord

NEVER = Version(0)
"""The version of a line before its first commit."""


@dataclass(frozen=True, slots=True)
class FragmentRow:
    """A fragment as last deployed; `is_stopped`: it is computed no more, whatever the log says."""

    network: NetworkName
    inputs: tuple[StreamName, ...]
    outputs: tuple[StreamName, ...]
    starts_us: int | None = None
    is_stopped: bool = False


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as it reported last."""

    holder: str
    busy: float
    pace: float
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """Where a partition is placed, by which decision, since when and why."""

    worker: str
    number: int
    placed_at_ms: int
    because: str


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """Who has, or last had, a lease."""

    epoch: int
    holder: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A segment with the versions of its line between which it is live, and its commit's key."""

    segment: Segment
    begin_version: Version
    commit_key: str
    end_version: Version | None = None

    def is_live_at(self, version: Version) -> bool:
        """Whether it was live at a version."""
        ends = self.end_version
        return self.begin_version <= version and (ends is None or version < ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """What one producer wrote of one stream; `live` in event-time order, without overlaps."""

    version: Version = NEVER
    origin_us: int | None = None
    boundary_us: int | None = None
    promised_us: int | None = None
    end_us: int | None = None
    trimmed_us: int | None = None
    generation: int = 1
    live: tuple[SegmentRow, ...] = ()
    superseded: tuple[SegmentRow, ...] = ()

    @property
    def tentative_us(self) -> int | None:
        """Where the first live tentative row begins, if there is one."""
        for row in self.live:
            if row.segment.stability is Stability.TENTATIVE:
                return row.segment.range.from_us
        return None

    def live_after(self, time_us: int) -> tuple[SegmentRow, ...]:
        """The live rows that end behind an event time."""
        return self.live[bisect_right(self.live, time_us, key=lambda r: r.segment.range.to_us) :]

    def live_over(self, part: Range) -> tuple[SegmentRow, ...]:
        """The live rows that overlap a range."""
        return tuple(
            row for row in self.live_after(part.from_us) if row.segment.range.from_us < part.to_us
        )


@dataclass(frozen=True, slots=True)
class CommitRow:
    """A commit as it was made."""

    number: int
    commit: Commit
    versions: Mapping[StreamName, Version]
    committed_at_ms: int


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A landed batch; it lets go of its file when all its buckets are trimmed."""

    number: int
    producer: Producer
    file: SegmentFile | None
    counts: Mapping[int, int]
    state: str | None = None
    digests: Mapping[int, Digest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LateRecordRow:
    """A late record that waits for a revision, and when it arrived."""

    producer: Producer
    stream: StreamName
    late: LateRow
    arrived_ms: int


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A hold, when it was last placed, and the versions of each replica's line that its reader
    acknowledged."""

    hold: Hold
    placed_at_ms: int
    versions: Mapping[int, Version] = field(default_factory=dict)

    def is_held(self, now_ms: int) -> bool:
        """Whether it has not run out."""
        limit_ms = self.hold.limit_ms
        return limit_ms is None or self.placed_at_ms + limit_ms >= now_ms


@dataclass(frozen=True, slots=True)
class VersionRow:
    """Where the stable prefix of a line ended at a version, and when it came to be."""

    stable_us: int | None
    made_at_ms: int


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file and the stream whose rows it holds."""

    stream: StreamName
    file: SegmentFile


HOME: Table[str, None] = Table("home")
STREAMS: Table[StreamName, StreamRecord] = Table("stream")
NETWORKS: Table[NetworkName, str] = Table("network")
PLANS: Table[PlanId, tuple[NetworkName, str]] = Table("plan")
FRAGMENTS: Table[str, FragmentRow] = Table("fragment")
ASSIGNMENTS: Table[tuple[str, int, int], Assignment] = Table("assignment")
OWNERS: Table[tuple[str, int, int], OwnerLine] = Table("fragment_owner")
OWNER_RECALLS: Table[tuple[str, int, int], int] = Table("fragment_owner_recalls")
"""How many recalls and revisions the streams of the fragment had when the line was noted."""
LEASES: Table[LeaseKey, LeaseRow] = Table("lease")
WORKERS: Table[str, WorkerRow] = Table("worker")
PLACEMENTS: Table[str, PlacementRow] = Table("placement")
LINES: Table[tuple[StreamName, Producer], LineRow] = Table("stream_producer")
FILES: Table[str, FileRow] = Table("file")
COMMITS: Table[str, CommitRow] = Table("commit")
IMPORTS: Table[str, LineNews] = Table("import")
BATCHES: Table[tuple[StreamName, str, int], BatchRow] = Table("landed_batch")
QUARANTINE: Table[int, QuarantinedRecord] = Table("quarantine")
RETRIES: Table[int, str] = Table("quarantine_retry")
LATE_RECORDS: Table[int, LateRecordRow] = Table("late_record")
SOURCES: Table[StreamName, str] = Table("source")
ORDERS: Table[StreamName, None] = Table("stream_order")
"""A name per stream, locked shared by whoever places a hold and alone by whoever trims."""
CHAINS: Table[tuple[StreamName, Producer, Version], str] = Table("line_version")
VERSIONS: Table[tuple[StreamName, Producer, Version], VersionRow] = Table("line_version_made")
RETENTIONS: Table[StreamName, tuple[int | None]] = Table("stream_promise")
BOUNDS: Table[StreamName, tuple[Bound | None, int]] = Table("stream_bound")
FOLLOWINGS: Table[StreamName, bool] = Table("stream_following")
QOS: Table[StreamName, Qos | None] = Table("stream_qos")
TRANSITIONS: Table[int, Transition] = Table("transition")
HOLDS: Table[tuple[StreamName, str, str], HoldRow] = Table("hold")
SINKS: Table[tuple[StreamName, str], SinkRecord] = Table("sink")
CERTIFICATES: Table[int, Certificate] = Table("certificate")
RECALLS: Table[tuple[StreamName, Producer, int], RecallResult] = Table("recall")
