"""Arguments and results of the catalog, beyond the values of the core: frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from medusa_core.commits import Lease, QuarantinedRecord, StepMetrics
from medusa_core.frozen import freeze
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Epoch, NetworkName, PlanId, StreamName, Version
from medusa_core.segments import Producer


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord:
    """A stream as deployed: `kind` is source or derived; columns map name to type."""

    name: StreamName
    kind: str
    width_us: int
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One line of the assignment log: who computes a fragment from a bucket on, under which plan.

    The log is append-only; an epoch is one higher than the last of (fragment, partition).
    """

    fragment: str
    producer: Producer
    epoch: Epoch
    plan: PlanId
    partition: int = 0
    from_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLine:
    """One line of the log of owners: who owns a fragment's buckets from one on, and why.

    The log is append-only; an epoch is one higher than the last of (fragment, partition). The last
    line that is for a bucket counts; without one the home that computes the fragment owns it. A
    bucket of another owner is waited for until `timeout_ms` after its inputs (NEVER_MS: as long as
    it is the owner; what is not there then is lost).
    """

    fragment: str
    epoch: Epoch
    owner: Producer
    from_us: int
    timeout_ms: int
    because: str
    partition: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a network needs in a home: its streams, plan, fragments, and who computes them.

    `fragments` maps a fragment's id to (input streams, output streams); a source's landing is a
    fragment of its own, `landing/<stream>`, without inputs. `starts_us` are the buckets with which
    fragments start that do not start at the origin of their inputs. `kept_ms` is the retention of
    streams that the home does not have yet; None: they are kept for good.
    """

    network: NetworkName
    document: str
    plan: PlanId
    plan_document: str
    streams: tuple[StreamRecord, ...]
    fragments: Mapping[str, tuple[tuple[StreamName, ...], tuple[StreamName, ...]]]
    assignments: tuple[Assignment, ...]
    starts_us: Mapping[str, int] = field(default_factory=dict)
    kept_ms: int | None = None

    def __post_init__(self) -> None:
        freeze(self, "fragments", "starts_us")


class LineProgress(NamedTuple):
    """How far a line is live, final and tentative; see the properties of `LineStatus`."""

    live_through_us: int | None
    stable_through_us: int | None
    tentative_through_us: int | None
    has_ended: bool


def progress_of(
    origin_us: int | None, boundary_us: int | None, end_us: int | None, tentative_us: int | None
) -> LineProgress:
    """The progress of a line whose first live tentative row begins at `tentative_us`."""
    has_ended = boundary_us == FOREVER_US
    through_us = end_us if has_ended else boundary_us
    if origin_us is None:
        through_us = None
    stable_us = through_us
    if through_us is not None and tentative_us is not None:
        stable_us = min(through_us, tentative_us)
    return LineProgress(
        through_us, stable_us, None if stable_us == through_us else through_us, has_ended
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStatus:
    """How a (stream, producer) stands: `boundary_us` ends its live rows, `promised_us` is what a
    source has promised, `end_us` where it ends, `tentative_us` where its first live tentative row
    begins, `corrected_us` where the row that was superseded last ended. Of what lies before
    `trimmed_us` nothing need be there.

    `boundary_us` is BEGINNING_US before the first row or promise, FOREVER_US once it has ended.
    `generation` is one more with each recall.
    """

    stream: StreamRecord
    producer: Producer
    version: Version
    origin_us: int | None
    boundary_us: int
    promised_us: int | None
    end_us: int | None
    tentative_us: int | None = None
    trimmed_us: int | None = None
    corrected_us: int | None = None
    generation: int = 1

    @property
    def _progress(self) -> LineProgress:
        return progress_of(self.origin_us, self.boundary_us, self.end_us, self.tentative_us)

    @property
    def has_ended(self) -> bool:
        """Whether its live rows reach its end; some of them may be tentative."""
        return self._progress.has_ended

    @property
    def kept_from_us(self) -> int | None:
        """Where what is surely there begins: the trim, else the origin; None before it began."""
        return self.origin_us if self.trimmed_us is None else self.trimmed_us

    @property
    def live_through_us(self) -> int | None:
        """Where the rows from the origin on have their first hole; None if it has not begun."""
        return self._progress.live_through_us

    @property
    def stable_through_us(self) -> int | None:
        """Where the rows from the origin on stop being final; None if it has not begun."""
        return self._progress.stable_through_us

    @property
    def tentative_through_us(self) -> int | None:
        """Where live rows end, if tentative ones lie behind the stable prefix; else None."""
        return self._progress.tentative_through_us

    @property
    def corrected_through_us(self) -> int | None:
        """Before this, all that was tentative is final now; None if nothing was corrected."""
        through_us = self.stable_through_us
        if self.corrected_us is None or through_us is None:
            return None
        return min(self.corrected_us, through_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus(LineStatus):
    """A line with the counts of its live segments and their rows, for people."""

    segments: int
    rows: int

    @classmethod
    def of(cls, line: LineStatus, *, segments: int, rows: int) -> StreamStatus:
        """A line, counted."""
        known = {fact.name: getattr(line, fact.name) for fact in fields(LineStatus)}
        return cls(**known, segments=segments, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A commit as it was made."""

    commit_key: str
    fragment: str
    plan: PlanId
    cause: str
    range: Range
    committed_at_ms: int
    versions: Mapping[StreamName, Version]
    metrics: StepMetrics = field(default_factory=StepMetrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A lease as it stands, held or not; `read_at_ms` is the catalog's clock at the look."""

    lease: Lease
    read_at_ms: int

    @property
    def expires_in_ms(self) -> int:
        """How long it is still held; below 1 since how long it is not."""
        return self.lease.expires_at_ms - self.read_at_ms

    @property
    def is_held(self) -> bool:
        """Whether its holder may commit."""
        return self.expires_in_ms > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan as stored: its fingerprint, the name of its network, its document (JSON)."""

    id: PlanId
    network: NetworkName
    document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedBuckets:
    """What was dropped of a line and is to be corrected, all of it in `range`.

    `buckets` lack records, `dropped` of them in sum: a bucket counts by its drop rate.
    """

    stream: StreamName
    producer: Producer
    range: Range
    buckets: int
    dropped: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReason:
    """How many records a stream lacks that are in quarantine for one reason.

    A record that several outputs lack counts for each of them.
    """

    stream: StreamName
    reason: str
    records: int


BY_REVISION = "revision"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """A record in quarantine under its number, and the batch with which it landed repaired, or
    `BY_REVISION` if a revision admitted it."""

    number: int
    record: QuarantinedRecord
    landed_as: str | None = None

    @property
    def result(self) -> str:
        """How the record came into its stream, for people; empty: it did not."""
        if self.landed_as is None:
            return ""
        return "by revision" if self.landed_as == BY_REVISION else "repaired"
