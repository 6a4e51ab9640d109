"""A step's commit as one value, and the catalog's reply to it.

Progress is made by commits only. A commit is keyed by what was computed, so that the same commit
sent again after a lost reply finds the first one. It names the lease under which it was computed,
so that a driver that slept past its lease is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256

from medusa_core.digest import Digest
from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import Range
from medusa_core.names import Epoch, PlanId, StreamName, Version
from medusa_core.segments import Producer, Read, SegmentFile, Stability, check_buckets

CONTENT_BYTES_MAX = 1_024
"""How much of a quarantined record is kept."""


class Lane(Enum):
    """Which part of a fragment's work a lease is for."""

    LIVE = "live"
    BACKLOG = "backlog"


class Cause(Enum):
    """Why a step was made; it is metered and billed by cause."""

    LANDING = "landing"
    NORMAL = "normal"
    TENTATIVE = "tentative"
    CORRECTION = "correction"
    IMPORT = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseKey:
    """What a lease is for: one driver at a time computes (fragment, partition, producer, lane)."""

    fragment: str
    producer: Producer
    partition: int = 0
    lane: Lane = Lane.LIVE

    def __str__(self) -> str:
        return f"{self.fragment} p{self.partition} of {self.producer} ({self.lane.value})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease as granted: `holder` is unique to the driver, times are the catalog's clock."""

    key: LeaseKey
    epoch: Epoch
    holder: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSegment:
    """A segment to be written; the catalog gives it its version.

    `fresh_ms` is when its age was 0, by the home's clock (None: it is 0 at the commit).
    """

    stream: StreamName
    range: Range
    stability: Stability
    buckets: Mapping[int, Digest] = field(default_factory=dict)
    files: tuple[SegmentFile, ...] = ()
    fresh_ms: int | None = None
    missing: tuple[StreamName, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "buckets")
        check_buckets(self.stream, self.range, self.buckets)
        if bool(self.missing) and self.stability.is_final:
            raise Refused(f"segment of {self.stream} misses inputs but is {self.stability.value}")
        if self.files and not self.buckets:
            raise Refused(f"segment of {self.stream} names files but holds no rows")
        if self.buckets and not self.files:
            raise Refused(f"segment of {self.stream} holds rows but names no file")


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRow:
    """All values of a late record that a revision is to admit, and their digest.

    `row` is in the form of `pipelines.storage.late_rows`.
    """

    stime_us: int
    row: bytes
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRecord:
    """A record that could not be used: where it came from, why, and its first bytes.

    `origin` is a file or a box; `position` a line of the file, a row, or a bucket start; `field` a
    column or an expression. Bad bytes come in bad records: what is no text becomes U+FFFD.
    `size_bytes` and `sha256` (64 hexadecimal digits) are those of the whole record as its source
    had it, without its line end; None where it was never whole in memory. `outputs` are all outputs
    that lack a record on which a box failed, in declared order. `late` is given when a record lands
    that a revision is to admit; a catalog keeps it apart, and answers without it.
    """

    stream: StreamName
    origin: str
    position: int | None
    field: str
    reason: str
    content: str
    size_bytes: int | None = None
    sha256: str | None = None
    outputs: tuple[StreamName, ...] = ()
    late: LateRow | None = None

    def __post_init__(self) -> None:
        for name in ("origin", "field", "reason", "content"):
            object.__setattr__(self, name, _as_text(getattr(self, name)))

    @classmethod
    def of(
        cls,
        record: bytes | str,
        *,
        stream: StreamName,
        origin: str,
        position: int | None,
        field: str,
        reason: str,
        is_whole: bool = True,
        outputs: tuple[StreamName, ...] = (),
        late: LateRow | None = None,
    ) -> QuarantinedRecord:
        """What is kept of a record: its first 1,024 bytes, the length and hash of all of them.

        Without length and hash if what is given is not the whole record.
        """
        whole = record.encode("utf-8", "surrogatepass") if isinstance(record, str) else record
        return cls(
            stream=stream, origin=origin, position=position, field=field, reason=reason,
            content=_beginning(whole),
            size_bytes=len(whole) if is_whole else None,
            sha256=sha256(whole).hexdigest() if is_whole else None,
            outputs=outputs, late=late,
        )  # fmt: skip

    @property
    def is_complete(self) -> bool:
        """Whether `content` is the whole record, and not its beginning or what was no text."""
        kept = self.content.encode()
        return len(kept) == self.size_bytes and sha256(kept).hexdigest() == self.sha256


def _beginning(record: bytes) -> str:
    """The first bytes as text; a character that the cut goes through is left out."""
    text = record[:CONTENT_BYTES_MAX].decode(errors="replace")
    if len(record) > CONTENT_BYTES_MAX and text.endswith("\ufffd"):
        return text.rstrip("\ufffd")
    return text


def _as_text(text: str) -> str:
    """The text with NUL and lone surrogates, which no database holds, replaced."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\ufffd")


VERIFY = "verify"
"""The phase in which a step's job is compared with another plan: it is no cost of such steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What a step cost: records in and out, Spark jobs, milliseconds per phase."""

    records_in: int = 0
    records_out: int = 0
    spark_jobs: int = 0
    phases_ms: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "phases_ms")

    @property
    def step_ms(self) -> float:
        """The milliseconds of all phases except verification."""
        return sum(ms for phase, ms in self.phases_ms.items() if phase != VERIFY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One step's results: segments of one or more streams, lineage, quarantine, metering.

    `ends` tells that the output streams end with this commit: their boundary becomes FOREVER_US.
    """

    lease: Lease
    plan: PlanId
    cause: Cause
    segments: tuple[OutputSegment, ...]
    lineage: tuple[Read, ...] = ()
    quarantine: tuple[QuarantinedRecord, ...] = ()
    metrics: StepMetrics = field(default_factory=StepMetrics)
    ends: bool = False

    def __post_init__(self) -> None:
        if not self.segments:
            raise Refused(f"commit of {self.lease.key} has no segments")
        written = {s.stream for s in self.segments}
        for read in self.lineage:
            if read.output not in written:
                raise Refused(f"commit of {self.lease.key} has lineage of {read.output}, unwritten")

    @property
    def scope(self) -> tuple[LeaseKey, Epoch, str, PlanId, Cause, bool]:
        """The lease, plan and cause; whatever else may differ in one commit (`joined_commit`)."""
        lease = self.lease
        return lease.key, lease.epoch, lease.holder, self.plan, self.cause, self.ends

    @property
    def key(self) -> str:
        """The same for the same computation: fragment, producer, ranges, lineage, plan, epoch."""
        parts = [
            str(self.lease.key),
            str(self.lease.epoch),
            self.plan,
            *(f"{s.stream}{s.range}{s.stability.value}" for s in self.segments),
            *(
                f"{r.output}<{r.input}@{r.producer}{r.range}v{r.version}d{r.drop_rate}"
                for r in self.lineage
            ),
        ]
        return sha256("\n".join(parts).encode()).hexdigest()


def joined_commit(commits: Sequence[Commit]) -> Commit:
    """Several steps of one fragment in one commit: all of them are made, or none.

    Raises Refused unless they have the same scope, and if one ends its streams.
    """
    first = commits[0]
    if len(commits) == 1:
        return first
    if first.ends or any(commit.scope != first.scope for commit in commits):
        raise Refused(f"commits of {first.lease.key} cannot be joined: commit each by itself")
    phases_ms: dict[str, float] = {}
    for commit in commits:
        for phase, ms in commit.metrics.phases_ms.items():
            phases_ms[phase] = phases_ms.get(phase, 0.0) + ms
    return replace(
        first,
        segments=tuple(segment for commit in commits for segment in commit.segments),
        lineage=tuple(dict.fromkeys(read for commit in commits for read in commit.lineage)),
        quarantine=tuple(record for commit in commits for record in commit.quarantine),
        metrics=StepMetrics(
            records_in=sum(commit.metrics.records_in for commit in commits),
            records_out=sum(commit.metrics.records_out for commit in commits),
            spark_jobs=sum(commit.metrics.spark_jobs for commit in commits),
            phases_ms=phases_ms,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The catalog's answer: the version each stream got, and when, by the catalog's clock.

    `again` tells that this very commit had been made before and nothing was written now.
    """

    versions: Mapping[StreamName, Version]
    committed_at_ms: int
    again: bool = False

    def __post_init__(self) -> None:
        freeze(self, "versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedBatch:
    """A file of landed records, sorted by event time; keyed so that it lands once.

    `counts` maps bucket start to records. Nothing is promised of a bucket until it is closed.
    `state` is what the source must know to continue after this batch (a JSON text of its own).
    `retried` are the numbers of quarantined records that were repaired and land with it.
    `file_of` names the stream under which a file is known that holds other streams' records too;
    None: all of the file is this batch. `digests` are those of all buckets, if the file has the
    form of a segment's, so that segments may name it.
    """

    stream: StreamName
    query_id: str
    batch_id: int
    file: SegmentFile | None
    counts: Mapping[int, int]
    quarantine: tuple[QuarantinedRecord, ...] = ()
    state: str | None = None
    retried: tuple[int, ...] = ()
    file_of: StreamName | None = None
    digests: Mapping[int, Digest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "counts", "digests")
        rows, counted = self.file.rows if self.file else 0, sum(self.counts.values())
        if (counted > rows or (rows > 0) != (counted > 0)) if self.file_of else rows != counted:
            raise Refused(f"batch {self.batch_id} of {self.stream} counts other rows than its file")
        digested = {at: digest.rows for at, digest in self.digests.items()}
        if digested and (digested != dict(self.counts) or self.file_of):
            raise Refused(f"batch {self.batch_id} of {self.stream} has digests of other rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedPart:
    """A landed file with records of a range of a stream.

    `digests` are those of its buckets in the range; none if they were not computed at landing.
    `is_promised`: its source has promised that no record follows in any bucket of the file.
    """

    file: SegmentFile
    digests: Mapping[int, Digest]
    is_promised: bool

    def __post_init__(self) -> None:
        freeze(self, "digests")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePromise:
    """What a source promises under a lease: no later record before `boundary_us`.

    `origin_us` is where its stream begins, `end_us` where it ends, once that is known.
    """

    lease: Lease
    stream: StreamName
    origin_us: int
    boundary_us: int
    end_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Something that keeps buckets of a stream from being trimmed: from `from_us` on.

    `path_ms` is what a reader says that the path behind costs with it.
    """

    stream: StreamName
    holder: str
    purpose: str
    from_us: int
    limit_ms: int | None = None
    path_ms: int = 0
