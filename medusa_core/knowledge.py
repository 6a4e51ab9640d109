"""The knowledge of one participant: values read in one snapshot of its own catalog.

Nothing else enters a decision: no clock, no file, no partner's catalog. Lists are cut where a
step could not use more; `known_through_us` is the limit up to which they are complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from medusa_core.bounds import Bound, strictest
from medusa_core.drops.utility import Qos
from medusa_core.fragments import Fragment, origin_of
from medusa_core.frozen import freeze
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import Epoch, Participant, PlanId, StreamName
from medusa_core.segments import Producer, Read, Segment
from medusa_core.step_costs import NOT_MEASURED, Cost

RECORDS_PER_STEP_MAX = 250_000
BUCKETS_PER_STEP_MAX = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one step may take at most; a single bucket is never cut.

    `capacity` is how many seconds of steps a second may have: what is above it is an overload.
    """

    records_per_step_max: int = RECORDS_PER_STEP_MAX
    buckets_per_step_max: int = BUCKETS_PER_STEP_MAX
    capacity: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingKnowledge:
    """A source's landed records that no segment holds yet.

    `closed_us`: the stream's boundary, the end of its live rows (or the origin). `boundary_us`: the
    source's promise. `end_us`: the end of the last bucket, once the source has ended. `counts`:
    records per non-empty bucket from `closed_us` to `known_through_us`. `plan` is that of the next
    bucket; at `until_us` another plan begins.
    """

    stream: StreamName
    producer: Producer
    epoch: Epoch
    width_us: int
    closed_us: int
    boundary_us: int
    end_us: int | None
    counts: Mapping[int, int]
    known_through_us: int
    plan: PlanId
    until_us: int = FOREVER_US

    def __post_init__(self) -> None:
        freeze(self, "counts")


def _end_us(segment: Segment) -> int:
    return segment.range.to_us


@dataclass(frozen=True, slots=True, kw_only=True)
class InputKnowledge:
    """A stream as this home reads it: its live segments from where a fragment needs them on.

    `lag_ms` is how long after the event time of a bucket it is due at the edge, as declared; only
    differences of lags are used.
    """

    stream: StreamName
    width_us: int
    origin_us: int
    boundary_us: int
    end_us: int | None
    segments: tuple[Segment, ...]
    known_through_us: int
    lag_ms: int = 0

    def overlapping(self, part: Range) -> Iterator[Segment]:
        """The live segments that share an instant with `part`, in order."""
        first = bisect_right(self.segments, part.from_us, key=_end_us)
        for segment in islice(self.segments, first, None):
            if segment.range.from_us >= part.to_us:
                return
            yield segment


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputKnowledge:
    """A stream that a fragment writes here: how far its live rows reach without a hole.

    `bound` is what is promised of it, here or at the end of the path that it is on (None: nothing,
    as of recorded input). `path_ms` is what partners say that the rest of the path costs with them.
    `tentative_us` is where the first live tentative row begins, if there is one; `lacks` are the
    inputs that the newest row was computed without (None: it is final). `qos` is what it is worth
    by delay and loss, if records of it may be dropped.
    """

    stream: StreamName
    width_us: int
    boundary_us: int
    has_ended: bool = False
    bound: Bound | None = None
    path_ms: int = 0
    tentative_us: int | None = None
    lacks: tuple[StreamName, ...] | None = None
    qos: Qos | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TentativeKnowledge:
    """A live tentative segment of this producer and what it was computed from."""

    segment: Segment
    reads: tuple[Read, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedKnowledge:
    """A live final segment of this producer that read versions of its inputs that were revised.

    `changed` names, by input, the ranges that it read and that differ now; `part` is what of the
    segment is kept.
    """

    segment: Segment
    part: Range
    changed: Mapping[StreamName, tuple[Range, ...]]

    def __post_init__(self) -> None:
        freeze(self, "changed")


NEVER_MS = 2**53
"""The time-out of a provider whose buckets are never computed here."""


def is_never(timeout_ms: int) -> bool:
    """Whether what a lost provider has not computed is given up, and computed by nobody."""
    return timeout_ms >= NEVER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKnowledge:
    """The provider that a fragment has moved to, and what this home has of its line.

    `producer` owns the buckets of `range`; its final rows are waited for until `timeout_ms` after
    the inputs were here. `segments` are live rows by output, from the frontier on and where
    something is owed.
    """

    producer: Producer
    range: Range
    timeout_ms: int
    segments: Mapping[StreamName, tuple[Segment, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "segments")

    @property
    def is_lossy(self) -> bool:
        """Whether what it has not computed when another owner follows is lost."""
        return is_never(self.timeout_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentKnowledge:
    """A fragment assigned here: under which plan and epoch, and how its streams stand.

    `plan` is that of the next bucket; at `until_us` another plan begins. `cost` is what its steps
    have cost lately. `is_corrected_apart`: a driver of the backlog lane holds its corrections.
    `width_us` is the widest output's: all outputs advance together, by its buckets. `bound` is what
    is promised of them together. Nothing is computed before `starts_us`, a bucket of that width.
    `provider` is who owns the next bucket, or a later one, if that is not this home.
    """

    fragment: Fragment
    plan: PlanId
    producer: Producer
    epoch: Epoch
    partition: int
    inputs: Mapping[StreamName, InputKnowledge]
    outputs: Mapping[StreamName, OutputKnowledge]
    tentative: tuple[TentativeKnowledge, ...] = ()
    revised: tuple[RevisedKnowledge, ...] = ()
    until_us: int = FOREVER_US
    cost: Cost = NOT_MEASURED
    is_corrected_apart: bool = False
    starts_us: int = BEGINNING_US
    provider: ProviderKnowledge | None = None
    width_us: int = field(init=False)
    bound: Bound | None = field(init=False)

    def __post_init__(self) -> None:
        freeze(self, "inputs", "outputs")
        outputs = self.outputs.values()
        object.__setattr__(self, "width_us", max(o.width_us for o in outputs))
        object.__setattr__(self, "bound", strictest(o.bound for o in outputs))

    @property
    def origin_us(self) -> int:
        """Where its outputs begin: with the first of its inputs, or where it starts."""
        origins = {name: its.origin_us for name, its in self.inputs.items()}
        return max(origin_of(origins, self.width_us), self.starts_us)

    @property
    def lag_ms(self) -> int:
        """The lag of its outputs: that of the input that is due last."""
        return max(i.lag_ms for i in self.inputs.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Everything one participant may know now; `fragments` each after those it reads.

    `clock_ms` is the catalog's clock when it was read.
    """

    participant: Participant
    landings: tuple[LandingKnowledge, ...]
    fragments: tuple[FragmentKnowledge, ...]
    limits: Limits = field(default_factory=Limits)
    clock_ms: int = field(default=0, compare=False)
