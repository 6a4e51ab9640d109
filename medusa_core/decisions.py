"""Decisions: the next actions of a participant, as data with a reason in numbers.

Apply, explain and simulate read the same list; none of them decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medusa_core.commits import Cause
from medusa_core.frozen import freeze
from medusa_core.grid import Range, shown_us
from medusa_core.knowledge import FragmentKnowledge, LandingKnowledge, TentativeKnowledge
from medusa_core.names import StreamName
from medusa_core.segments import Producer, Read, Segment, Stability, drop_rate_of


@dataclass(frozen=True, slots=True)
class DecisionReason:
    """Why, in a phrase and in the numbers that it was decided by."""

    reason: str
    numbers: Mapping[str, int | float]

    def __post_init__(self) -> None:
        freeze(self, "numbers")

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {shown_us(value)}" for name, value in self.numbers.items())
        return f"{self.reason} ({numbers})" if numbers else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseBuckets:
    """Make landed records of a run of buckets a stable segment of the source's stream."""

    landing: LandingKnowledge
    range: Range
    ends: bool
    because: DecisionReason


@dataclass(frozen=True, slots=True)
class OutputAge:
    """A part of a step's outputs, and when it could have been computed, by the home's clock."""

    range: Range
    fresh_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStep:
    """Compute a run of output buckets of a fragment from named input versions.

    `missing` names the inputs that are not there and those that a tentative input was without.
    `ages` tell, piece by piece, when the inputs that are there could have been used (none: no bound
    is promised, so nobody asks). `is_revision`: it replaces final outputs.
    """

    fragment: FragmentKnowledge
    range: Range
    outputs: tuple[StreamName, ...]
    reads: tuple[Read, ...]
    stability: Stability
    cause: Cause
    ends: bool
    because: DecisionReason
    missing: tuple[StreamName, ...] = ()
    ages: tuple[OutputAge, ...] = ()
    is_revision: bool = False

    @property
    def fresh_ms(self) -> int | None:
        """Of the oldest piece."""
        return min((aged.fresh_ms for aged in self.ages), default=None)


def ages_within(ages: Iterable[OutputAge], part: Range) -> tuple[OutputAge, ...]:
    """The pieces that lie in a range."""
    inside = ((aged.range.intersection(part), aged.fresh_ms) for aged in ages)
    return tuple(OutputAge(range_, ms) for range_, ms in inside if range_ is not None)


def pieces_of(ages: Sequence[OutputAge], whole: Range) -> list[tuple[Range, int | None]]:
    """The ranges that outputs are committed in, with their ages; without ages, all of it."""
    return [(aged.range, aged.fresh_ms) for aged in ages] or [(whole, None)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote:
    """Make tentative outputs final as they stand: their inputs turned out to be what was read."""

    fragment: FragmentKnowledge
    range: Range
    tentative: tuple[TentativeKnowledge, ...]
    reads: tuple[Read, ...]
    fresh_ms: int
    because: DecisionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Commit final rows that a provider has computed of a moved fragment, as this home's own.

    `segments` are the provider's, by output; they may reach beyond `range`. `ages`: see
    `ComputeStep`. `is_lost`: there are none, and the buckets become a gap.
    """

    fragment: FragmentKnowledge
    range: Range
    provider: Producer
    segments: Mapping[StreamName, tuple[Segment, ...]]
    reads: tuple[Read, ...]
    cause: Cause
    ends: bool
    because: DecisionReason
    ages: tuple[OutputAge, ...] = ()
    is_lost: bool = False

    def __post_init__(self) -> None:
        freeze(self, "segments")


@dataclass(frozen=True, slots=True, kw_only=True)
class DropBuckets:
    """Commit outputs without a row and without a job, since the load is above the capacity.

    Tentative ones are computed when it has fallen; a gap stays as it is. `reads` have the rate.
    """

    fragment: FragmentKnowledge
    range: Range
    outputs: tuple[StreamName, ...]
    stability: Stability
    reads: tuple[Read, ...]
    ends: bool
    because: DecisionReason
    ages: tuple[OutputAge, ...] = ()

    @property
    def cause(self) -> Cause:
        """Why it is committed: in place of a step, or as an answer that is owed another."""
        return Cause.NORMAL if self.stability.is_final else Cause.TENTATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do for a fragment or a source now; `until_ms` is when that changes by itself."""

    of: str
    because: DecisionReason
    until_ms: int | None = None


Doable = CloseBuckets | ComputeStep | Promote | Adopt | DropBuckets
"""What ends with a commit."""

Decision = Doable | Wait


def explain(decisions: Iterable[Decision]) -> list[str]:
    """One line for each decision: what and why."""
    return [_explain(decision) for decision in decisions]


def _explain(decision: Decision) -> str:
    match decision:
        case CloseBuckets():
            what = f"close {decision.landing.stream} {decision.range.shown}"
        case ComputeStep():
            names = ", ".join(decision.outputs)
            what = f"compute {names} {decision.range.shown} as {decision.stability.value}"
            if decision.missing:
                what += f" without {', '.join(decision.missing)}"
            if rate := drop_rate_of(decision.reads):
                what += f" without {rate:.0%} of the records"
        case Promote():
            names = ", ".join(t.segment.stream for t in decision.tentative)
            what = f"promote {names} {decision.range.shown}"
        case Adopt():
            names = ", ".join(decision.segments)
            does = "declare a gap in" if decision.is_lost else "adopt"
            what = f"{does} {names} {decision.range.shown} of {decision.provider}"
        case DropBuckets():
            names = ", ".join(decision.outputs)
            what = f"drop {names} {decision.range.shown} as {decision.stability.value}"
        case Wait():
            what = f"wait: {decision.of}"
    return f"{what}: {decision.because}"
