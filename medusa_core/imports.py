"""An import: what a home knows of a stream with several producers, and its choice among them.

In addition to the copies of the producers' lines (its own line included, if it computes the
stream itself) such a home keeps an import's line: its producer is `Producer(here, IMPORT)`, its
version counts the changes of the choice. Every local reader of the stream reads that line
(Borealis: SUnion with replicas of its upstream neighbours; here a choice is a row of the catalog,
and costs no job).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from medusa_core.commits import Cause, Commit, Lease, OutputSegment, StepMetrics
from medusa_core.decisions import DecisionReason
from medusa_core.digest import Digest
from medusa_core.divergence import Divergence
from medusa_core.exchange import import_fragment
from medusa_core.frozen import freeze
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Epoch, PlanId, StreamName, Version
from medusa_core.segments import Producer, Read, Segment, SegmentFile, Stability

UNVERIFIED = "unverified"
"""Why a row is not final though its producer's is: too few others have the same yet."""

DISPUTED = "disputed"
"""Why a row is not final though its producer's is: producers disagree, here or before."""

LOST = "lost"
"""Why a row is tentative and empty: who was heard has lost it, and others were not heard yet."""


def cause_of(stream: StreamName, why: str) -> StreamName:
    """How a reason stands among the missing inputs of a row: with its space no stream's name."""
    return StreamName(f"{stream} {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedLine:
    """One producer's line of the stream as it stands here, and those of its live rows that matter.

    `boundary_us` is None before it has begun, FOREVER_US once it has ended; `tentative_us` is where
    its first live tentative row begins; before `compared_us` its final rows have been compared with
    those of others; `segments` are in event-time order.
    """

    producer: Producer
    origin_us: int | None = None
    boundary_us: int | None = None
    end_us: int | None = None
    tentative_us: int | None = None
    trimmed_us: int | None = None
    compared_us: int | None = None
    segments: tuple[Segment, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether its live rows reach its end."""
        return self.boundary_us == FOREVER_US

    @property
    def final_through_us(self) -> int | None:
        """Up to where all of it is final: FOREVER_US if to its end; None before it has begun."""
        if self.boundary_us is None or self.tentative_us is None:
            return self.boundary_us
        return min(self.boundary_us, self.tentative_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportKnowledge:
    """A stream's producers as they stand here, and how far the import's line has come.

    `plan` is the one under which the import is assigned. `verify` producers must agree before a row
    is final. `window_us` is up to where all rows of the producers behind `boundary_us` are known.
    `tentative` are the ranges of live tentative rows that producers may have as final now, and
    `lacks` what the newest row lacks (None: it is final). `compare` is the range in which the
    producers' final rows are to be compared, all of which are known. `divergences` are open.
    """

    stream: StreamName
    reader: Producer
    epoch: Epoch
    plan: PlanId
    width_us: int
    producers: tuple[ProducedLine, ...]
    partition: int = 0
    verify: int = 1
    boundary_us: int | None = None
    end_us: int | None = None
    window_us: int = FOREVER_US
    tentative: tuple[Range, ...] = ()
    lacks: tuple[StreamName, ...] | None = None
    compare: Range | None = None
    divergences: tuple[Divergence, ...] = ()
    clock_ms: int = field(default=0, compare=False)

    @property
    def has_ended(self) -> bool:
        """Whether the import's line has come to its end."""
        return self.boundary_us == FOREVER_US

    @property
    def starts_us(self) -> int | None:
        """Where the next row begins; None as long as no producer has begun."""
        if self.boundary_us is not None:
            return self.boundary_us
        origins = [p.origin_us for p in self.producers if p.origin_us is not None]
        return min(origins, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose:
    """Read a range of a stream as a producer has it, or less sure than that.

    `producer` and `version` are None where no producer has a row of what is read: of a gap, or of
    what is empty, since it is outside a line's life.
    `fresh_ms` goes along, so that age never shrinks (S11).
    """

    stream: StreamName
    range: Range
    producer: Producer | None
    version: Version | None
    stability: Stability
    plan: PlanId
    because: DecisionReason
    missing: tuple[StreamName, ...] = ()
    buckets: Mapping[int, Digest] = field(default_factory=dict)
    files: tuple[SegmentFile, ...] = ()
    fresh_ms: int | None = None

    def __post_init__(self) -> None:
        freeze(self, "buckets")

    @property
    def output(self) -> OutputSegment:
        """The row to be written."""
        return OutputSegment(
            stream=self.stream,
            range=self.range,
            stability=self.stability,
            buckets=self.buckets,
            files=self.files,
            fresh_ms=self.fresh_ms,
            missing=self.missing,
        )

    @property
    def reads(self) -> tuple[Read, ...]:
        """Its lineage: the producer's own row."""
        if self.producer is None or self.version is None:
            return ()
        return (
            Read(
                output=self.stream,
                input=self.stream,
                producer=self.producer,
                range=self.range,
                version=self.version,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRows:
    """What is committed of a stream in one piece; `rows` in event-time order, apart.

    `compared_us` says how far each producer's line has been compared now; `end_us` ends the
    import's line. `waits_until_ms` is when there is more to choose even if nothing happens.
    """

    stream: StreamName
    rows: tuple[Choose, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    compared_us: Mapping[Producer, int] = field(default_factory=dict)
    end_us: int | None = None
    waits_until_ms: int | None = None

    def __post_init__(self) -> None:
        freeze(self, "compared_us")

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to commit."""
        return not (self.rows or self.divergences or self.compared_us) and self.end_us is None


def commits_of(lease: Lease, chosen: ChosenRows) -> tuple[Commit, ...]:
    """The commits that make the chosen rows, in event-time order; each is of one plan."""
    return tuple(_commit(lease, run) for run in _runs(chosen.rows))


def _runs(rows: Iterable[Choose]) -> list[list[Choose]]:
    runs: list[list[Choose]] = []
    for row in rows:
        if runs and runs[-1][-1].plan == row.plan:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _commit(lease: Lease, run: list[Choose]) -> Commit:
    records = sum(digest.rows for row in run for digest in row.buckets.values())
    return Commit(
        lease=lease,
        plan=run[0].plan,
        cause=Cause.IMPORT,
        segments=tuple(row.output for row in run),
        lineage=tuple(read for row in run for read in row.reads),
        metrics=StepMetrics(records_in=records, records_out=records),
    )


def is_import_of(lease: Lease, stream: StreamName) -> bool:
    """Whether a lease is the one under which a stream's import is written."""
    return lease.key.fragment == import_fragment(stream) and lease.key.producer.is_import


def explain_choice(choice: Choose) -> str:
    """One line: what is chosen and why."""
    of = "nobody" if choice.producer is None else f"{choice.producer} v{choice.version}"
    what = f"read {choice.stream} {choice.range.shown} of {of} as {choice.stability.value}"
    if choice.missing:
        what += f" without {', '.join(choice.missing)}"
    return f"{what}: {choice.because}"
