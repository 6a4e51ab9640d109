"""The news of a line after a version, as participants exchange it.

For each producer that it reads a home keeps a copy of that producer's line, row by row and
version by version, so that lineage, digests and time travel mean the same in both homes. Only
durations cross between participants, never timestamps to decide by.

A reader stores with its version the line's chain there: a fingerprint of all commits before. A
home that was restored from an old backup and committed more has another chain at that version,
which the reader notices, however far the line has advanced since.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256

from medusa_core.errors import Diverged, Refused
from medusa_core.grid import FOREVER_US, Range
from medusa_core.line_revisions import LineRevision
from medusa_core.names import Epoch, NetworkName, PlanId, StreamName, Version
from medusa_core.recalls import LineRecall, begins_again_us, check_recalls
from medusa_core.segments import Producer, Segment

IMPORT_PREFIX = "import/"
IMPORT_PURPOSE = "import"
"""What a reader's hold at its partner is for."""

READER_LIMIT_MS = 24 * 3_600_000
"""For how long a partner keeps buckets for a reader that gives no sign."""


_CHAIN = re.compile(r"[0-9a-f]{64}")


def import_fragment(stream: StreamName) -> str:
    """The fragment under which a home imports a stream: assigned and leased like any other."""
    return f"{IMPORT_PREFIX}{stream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportStatus:
    """A partner's line that a home imports: how far its copy has come, and under which assignment.

    `boundary_us` is None as long as nothing of the line has come; `tentative_us` is where its first
    live tentative row begins, if there is one; from `disputed_us` on another producer disagrees;
    `chain` is the line's at `version`, if it is known;
    `read_at_ms` is this home's clock when all this was read.
    """

    stream: StreamName
    producer: Producer
    version: Version
    boundary_us: int | None
    reader: Producer
    epoch: Epoch
    plan: PlanId
    tentative_us: int | None = None
    disputed_us: int | None = None
    chain: str | None = None
    read_at_ms: int = field(default=0, compare=False)

    def check_goes_on(self, news: LineNews) -> None:
        """Diverged unless the news is of the line that has been read here up to `version`."""
        if self.chain is not None and news.chain_after not in (None, self.chain):
            raise Diverged(
                f"the line of {self.stream} by {self.producer} is not the one that was read up to "
                f"{self.version}: its home was restored from a backup and continued: call its "
                "operator"
            )

    @property
    def safe_through_us(self) -> int | None:
        """Up to where the copy is complete, final and undisputed: the partner need not keep that.

        What is disputed its producer may have to take back, which it can of what it keeps only.
        """
        ends = (self.boundary_us, self.tentative_us, self.disputed_us)
        return None if self.boundary_us is None else min(at for at in ends if at is not None)

    @property
    def has_ended(self) -> bool:
        """Whether all of the line has come, to its end."""
        return self.boundary_us == FOREVER_US


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSegment:
    """A segment and the versions of its line between which it is live (no end: live now)."""

    segment: Segment
    begin_version: Version
    end_version: Version | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPlan:
    """A plan that segments name: its network and its document, which settles the fingerprint."""

    id: PlanId
    network: NetworkName
    document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineNews:
    """What happened to a line after version `after`, complete up to `version`.

    `segments` are the rows that became live or were superseded in between, as they stood at
    `version`. `origin_us` is None as long as the line has not begun, `end_us` until its end is
    known. A source that is known to end where its rows end has news without a new version.
    What of the line lies before `trimmed_us`, and came neither with this news nor before, is gone.
    `chain_after` and `chain` are the line's at `after` and at `version`, as 64 hexadecimal digits;
    None where the home does not know them. `made_ago_ms` is the time since `version` was committed,
    by the sender's clock; it and the segments' `age_ms` are as of the moment at which the sender
    read its home. `requested_at_ms` is when the news was requested, by the reader's clock, which
    the reader notes; `read_after_ms` is a lower bound of the time from the request to that moment.
    `recalls` are all that the line went through after `after`, oldest first: of what one behind
    `version` takes back nothing is reported. `revision` is the first one after `after`, None if
    there is none: the news and its `recalls` end before it, or the news holds only the version that
    the revision made. The first news of a copy includes all revisions.
    """

    stream: StreamName
    producer: Producer
    after: Version
    version: Version
    origin_us: int | None
    end_us: int | None
    segments: tuple[PublishedSegment, ...] = ()
    plans: tuple[PublishedPlan, ...] = ()
    trimmed_us: int | None = None
    chain_after: str | None = None
    chain: str | None = None
    requested_at_ms: int | None = field(default=None, compare=False)
    read_after_ms: int = field(default=0, compare=False)
    made_ago_ms: int | None = field(default=None, compare=False)
    recalls: tuple[LineRecall, ...] = ()
    revision: LineRevision | None = None

    def __post_init__(self) -> None:
        if self.version < self.after:
            raise Diverged(
                f"the line of {self.stream} by {self.producer} is at {self.version}, before "
                f"{self.after}: its home was restored from a backup: call its operator"
            )
        for published in self.segments:
            segment = published.segment
            if (segment.stream, segment.producer) != (self.stream, self.producer):
                raise Refused(f"news of {self.stream} by {self.producer} holds a foreign segment")
        for chain in (self.chain_after, self.chain):
            if chain is not None and not _CHAIN.fullmatch(chain):
                raise Refused(f"news of {self.stream} by {self.producer} has an invalid chain")
        check_recalls(self.recalls)
        if any(recall.version <= self.after for recall in self.recalls):
            raise Refused(f"news of {self.stream} by {self.producer} names other recalls")
        if self.revision is not None:
            at = self.revision.version
            if at <= self.after or (
                at <= self.version and (self.after + 1, at) != (at, self.version)
            ):
                raise Refused(
                    f"news of {self.stream} by {self.producer} after {self.after} reaches over the "
                    f"revision of version {at}"
                )

    @property
    def replaced(self) -> tuple[Range, ...]:
        """The ranges that the revision replaces if this is its news; else none."""
        revision = self.revision
        is_its = revision is not None and revision.version == self.version
        return revision.ranges if revision is not None and is_its else ()

    @property
    def begins_again_us(self) -> int | None:
        """From when on the line took back what it had; None if it took nothing back."""
        return begins_again_us(self.recalls)

    def fresh_ms(self, segment: Segment) -> int | None:
        """When a segment's age was 0, by the reader's clock: the time of transfer counts.

        It is never later than it was (S11): of the time for which the request was on its way,
        which no clock measures alone, all counts as age.
        """
        read_at_ms = self._read_at_ms
        return None if read_at_ms is None else read_at_ms - segment.age_ms

    def delay_ms(self, now_ms: int) -> int | None:
        """The time since the sender committed `version`; None if it is not known."""
        read_at_ms = self._read_at_ms
        if read_at_ms is None or self.made_ago_ms is None:
            return None
        return max(now_ms - read_at_ms, 0) + self.made_ago_ms

    @property
    def _read_at_ms(self) -> int | None:
        """When the sender read its home, by the reader's clock, or earlier."""
        requested_at_ms = self.requested_at_ms
        return None if requested_at_ms is None else requested_at_ms + self.read_after_ms

    @property
    def key(self) -> str:
        """The same for the same news, so that an import sent again is made once."""
        parts = (self.stream, self.producer, self.after, self.version, self.origin_us, self.end_us,
                 self.trimmed_us, self.chain,
                 *(f"recall {r.generation} {r.from_us}" for r in self.recalls))  # fmt: skip
        return sha256("\n".join(["import", *map(str, parts)]).encode()).hexdigest()
