"""Segments: runs of whole buckets with one stability and version, the unit of row, file, job.

Nothing is overwritten: a later version supersedes an earlier one, and every output names exactly
its inputs. Stable and gap are final; only tentative segments are superseded, and by final ones
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from medusa_core.digest import Digest, sum_of
from medusa_core.errors import Refused
from medusa_core.frozen import FrozenMap, freeze
from medusa_core.grid import Range
from medusa_core.names import Participant, PlanId, StreamName, Version


class Stability(Enum):
    """What a segment promises; the values are the labels in the catalog."""

    STABLE = "stable"
    TENTATIVE = "tentative"
    GAP = "gap"

    @property
    def is_final(self) -> bool:
        """Whether the content never changes again in its generation."""
        return self is not Stability.TENTATIVE


IMPORT = -1
"""Stands where a replica's number does: what a home has chosen to read of a stream's producers."""


class Producer(NamedTuple):
    """Who wrote a segment: a participant and which of its replicas, or its import (`IMPORT`)."""

    participant: Participant
    replica: int = 0

    @property
    def is_import(self) -> bool:
        """Whether it computed nothing, but chose among those who did."""
        return self.replica == IMPORT

    def __str__(self) -> str:
        return f"{self.participant}/{'import' if self.is_import else self.replica}"


def reading_order(producer: Producer, here: Participant) -> tuple[bool, bool, Producer]:
    """The key by which a home finds the line that it reads of a stream: the least one.

    What it has chosen among several producers, else what it computes itself, else the first by
    name.
    """
    is_own = producer.participant == here
    return (not (is_own and producer.is_import), not is_own, producer)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One file with rows of one stream; `path` is relative to the home's storage root."""

    path: str
    size_bytes: int
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of buckets as its producer wrote it; `buckets` maps bucket start to digest, if rows.

    `age_ms` was its age when it came into this home, at `arrived_ms` of the home's clock; `missing`
    names the inputs that it was computed without. `drop_rate` is the greatest rate at which its
    home dropped records of what it was computed from, as its lineage there says (a partner's: 0).
    """

    stream: StreamName
    producer: Producer
    range: Range
    stability: Stability
    version: Version
    plan: PlanId
    buckets: Mapping[int, Digest] = field(default_factory=dict)
    files: tuple[SegmentFile, ...] = ()
    age_ms: int = 0
    missing: tuple[StreamName, ...] = ()
    arrived_ms: int = field(default=0, compare=False)
    drop_rate: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        freeze(self, "buckets")
        check_buckets(self.stream, self.range, self.buckets)
        if bool(self.missing) and self.stability.is_final:
            raise Refused(f"segment of {self.stream} misses inputs but is {self.stability.value}")

    @property
    def fresh_ms(self) -> int:
        """When its age was 0, by this home's clock."""
        return self.arrived_ms - self.age_ms

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(digest.rows for digest in self.buckets.values())

    @property
    def digest(self) -> Digest:
        """The digest of the whole segment: the sum over its buckets."""
        return sum_of(self.buckets.values())

    def within(self, part: Range) -> Mapping[int, Digest]:
        """The non-empty buckets that lie in `part`."""
        return FrozenMap({at: d for at, d in self.buckets.items() if part.holds(at)})


def check_buckets(stream: str, whole: Range, buckets: Mapping[int, Digest]) -> None:
    """Refuse buckets outside of the segment or listed without a row in them."""
    for at_us, digest in buckets.items():
        if not whole.holds(at_us):
            raise Refused(f"bucket {at_us} of {stream} is outside its segment {whole}")
        if digest.rows <= 0:
            raise Refused(f"bucket {at_us} of {stream} is listed but has no rows: leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One line of lineage: what an output stream was computed from, and at which drop rate.

    `version` is the producer's own version that was read; a range without rows is read too.
    `content` is the fingerprint of what was there (`content_of`), kept where the output may be
    superseded, so that a correction that changes nothing is known without a job.
    """

    output: StreamName
    input: StreamName
    producer: Producer
    range: Range
    version: Version
    drop_rate: float = 0.0
    content: str | None = field(default=None, compare=False)


def drop_rate_of(reads: Iterable[Read]) -> float:
    """The highest drop rate of some reads; 0 without any."""
    return max((read.drop_rate for read in reads), default=0.0)


def content_of(segments: Iterable[Segment], part: Range) -> str:
    """A fingerprint of the rows of `part`, bucket by bucket: the same for the same content.

    It does not depend on how a producer cut the range, nor on versions and stability.
    """
    words = sorted(
        f"{at_us} {digest.rows} {digest.sum_a} {digest.sum_b}"
        for segment in segments
        for at_us, digest in segment.within(part).items()
    )
    return sha256("\n".join(words).encode()).hexdigest()


def digest_over(segments: tuple[Segment, ...], part: Range) -> Digest:
    """The digest of `part` of a stream, however its producer cut it into segments."""
    return sum_of(d for segment in segments for d in segment.within(part).values())
