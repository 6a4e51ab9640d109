"""The load of fragments: CPU time of a process tree, divided among the activities that used it.

Between two readings of a clock of CPU time there is a *span*, in which one activity ran: steps,
landing, an import, housekeeping, nothing. Its CPU belongs to that activity; where several ran
together, as in one Spark job, each has a part by weight. The CPU time of deciding belongs to the
steps that result from it. Time is divided in whole microseconds, so parts always add up to the
whole.

Limit: work that a span leaves to be done after it (a garbage collection, a compiler's thread) is
found in a later span.

Source: load as the metered CPU of migratable query fragments, NSDI 2004.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite
from typing import NamedTuple, TypeVar

from medusa_core.commits import Cause, Lane
from medusa_core.frozen import freeze

K = TypeVar("K")

START_US = 500_000
"""An engine that starts takes more CPU than this; one that runs already takes none."""

WINDOW_MS = 60_000
"""Over how long the load of now is an average."""


class ActivityKind(Enum):
    """What CPU was spent on where it was no fragment's work."""

    DECIDING = "deciding"
    DELIVERY = "delivery"
    HOUSEKEEPING = "housekeeping"
    STARTING = "starting"
    UNATTRIBUTED = "unattributed"


class LoadKey(NamedTuple):
    """Whose load it is, and why: a fragment's partition by cause (landings and imports, too)."""

    fragment: str
    partition: int
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentSpan:
    """Activity for a fragment; `weight` is its share of activity that fragments have in common."""

    of: LoadKey
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"a weight of {self.weight}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What was spent between two looks (CPU, us), and on what: fragments, else a kind.

    `delivery_us` of it was spent by the threads of deliveries. A span of deciding belongs to
    the fragments of its `tick`, if it has any.
    """

    cpu_us: int
    fragments: tuple[FragmentSpan, ...] = ()
    kind: ActivityKind = ActivityKind.UNATTRIBUTED
    delivery_us: int = 0
    tick: int | None = None

    def __post_init__(self) -> None:
        if self.cpu_us < 0 or self.delivery_us < 0:
            raise ValueError(f"{self.cpu_us} us, including {self.delivery_us} us for deliveries")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """CPU (us) by work and by kind; nothing is left out: all of it is `total_us`."""

    by_key: Mapping[LoadKey, int] = field(default_factory=dict)
    kinds: Mapping[ActivityKind, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "by_key")
        freeze(self, "kinds")

    @property
    def total_us(self) -> int:
        """Everything that the process tree spent."""
        return sum(self.by_key.values()) + sum(self.kinds.values())


def shares_of(spans: Iterable[Span]) -> Shares:
    """Deal out what was spent in the spans, whatever their order."""
    by_key: dict[LoadKey, int] = {}
    kinds: dict[ActivityKind, int] = {}
    by_tick: dict[int, dict[LoadKey, int]] = {}
    around: dict[int, int] = {}
    for span in spans:
        delivered_us = min(span.delivery_us, span.cpu_us)
        _add(kinds, ActivityKind.DELIVERY, delivered_us)
        left_us = span.cpu_us - delivered_us
        if span.fragments:
            weights: dict[LoadKey, float] = {}
            for part in sorted(span.fragments, key=_order):
                weights[part.of] = weights.get(part.of, 0.0) + part.weight
            of_tick = by_tick.setdefault(span.tick, {}) if span.tick is not None else {}
            for key, part_us in _dealt(left_us, weights).items():
                _add(by_key, key, part_us)
                of_tick[key] = of_tick.get(key, 0) + part_us
        elif span.kind is ActivityKind.DECIDING and span.tick is not None:
            _add(around, span.tick, left_us)
        else:
            _add(kinds, span.kind, left_us)
    for tick, left_us in around.items():
        if by_tick.get(tick):
            for key, part_us in _dealt(left_us, by_tick[tick]).items():
                _add(by_key, key, part_us)
        else:
            _add(kinds, ActivityKind.DECIDING, left_us)
    return Shares(by_key=by_key, kinds=kinds)


def _order(span: FragmentSpan) -> tuple[str, int, str, float]:
    return (span.of.fragment, span.of.partition, span.of.cause.value, span.weight)


def _add(to: dict[K, int], key: K, amount: int) -> None:
    if amount:
        to[key] = to.get(key, 0) + amount


def _dealt(amount: int, weights: Mapping[LoadKey, float]) -> dict[LoadKey, int]:
    """Whole parts by weight (alike where all are 0) that add up to the amount, none negative."""
    keys = sorted(weights, key=lambda k: (k.fragment, k.partition, k.cause.value))
    whole = float(sum(weights[key] for key in keys))
    parts: dict[LoadKey, int] = {}
    dealt, reached = 0, 0.0
    for number, key in enumerate(keys, 1):
        reached += weights[key]
        share = reached / whole if whole else number / len(keys)
        upto = amount if number == len(keys) else min(int(amount * share), amount)
        parts[key], dealt = upto - dealt, upto
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """What one driver spent in one period, as it is recorded once.

    `driver` is unique to the process, `number` counts its samples; `ended_ago_ms` is how long ago
    the period ended when the sample is sent. `length_ms` is above 0.
    """

    driver: str
    number: int
    lane: Lane
    length_ms: int
    shares: Shares
    ended_ago_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSample:
    """A sample as the home has it: its period by the catalog's clock, `[from_ms, to_ms)`."""

    from_ms: int
    to_ms: int
    shares: Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of now, in CPU seconds per second: an average over the last `window_ms`."""

    window_ms: int
    by_key: Mapping[LoadKey, float]
    kinds: Mapping[ActivityKind, float]

    def __post_init__(self) -> None:
        freeze(self, "by_key")
        freeze(self, "kinds")

    @property
    def total(self) -> float:
        """All that the participant's drivers spend."""
        return sum(self.by_key.values()) + sum(self.kinds.values())

    @property
    def corrections(self) -> float:
        """What is spent on corrections: metered apart, since it ends when all is corrected."""
        return sum(load for key, load in self.by_key.items() if key.cause is Cause.CORRECTION)

    @property
    def carried(self) -> float:
        """What thresholds and marginal costs go by: all but corrections."""
        return max(self.total - self.corrections, 0.0)

    def of(self, fragment: str, partition: int = 0) -> float:
        """The load of a fragment's partition, without corrections."""
        return sum(
            load
            for key, load in self.by_key.items()
            if (key.fragment, key.partition) == (fragment, partition)
            and key.cause is not Cause.CORRECTION
        )


def load_of(
    samples: Sequence[RecordedSample], now_ms: int, window_ms: int = WINDOW_MS
) -> Load | None:
    """The load over the window that ends now; None where no sample reaches into it.

    Of a period that reaches in only partly, that part of what it spent counts. What is not recorded
    yet is not counted as idle: the average is over the time from the first to the last sample.
    """
    last_ms = max((sample.to_ms for sample in samples), default=now_ms)
    return load_between(samples, now_ms - window_ms, last_ms)


def load_between(samples: Sequence[RecordedSample], from_ms: int, until_ms: int) -> Load | None:
    """The load over `[from_ms, until_ms)`, as `load_of` that of a window: the average over the time
    between them from the first to the last sample; None where there is none.

    A period in which an engine was started is left out as soon as the same fragments have a later
    one: their first steps make plans, and have Java compile them.
    """
    within = _without_starts(
        [s for s in samples if s.to_ms > from_ms and s.from_ms < until_ms and s.to_ms > s.from_ms]
    )
    if not within:
        return None
    first_ms = max(min(s.from_ms for s in within), from_ms)
    length_ms = min(max(s.to_ms for s in within), until_ms) - first_ms
    by_key: dict[LoadKey, float] = {}
    kinds: dict[ActivityKind, float] = {}
    for sample in sorted(within, key=lambda s: (s.to_ms, s.from_ms)):
        inside_ms = min(sample.to_ms, until_ms) - max(sample.from_ms, from_ms)
        inside = inside_ms / (sample.to_ms - sample.from_ms)
        scale = inside / (length_ms * 1_000)
        for key, spent_us in sample.shares.by_key.items():
            by_key[key] = by_key.get(key, 0.0) + spent_us * scale
        for kind, spent_us in sample.shares.kinds.items():
            kinds[kind] = kinds.get(kind, 0.0) + spent_us * scale
    return Load(window_ms=length_ms, by_key=by_key, kinds=kinds)


def _without_starts(samples: Sequence[RecordedSample]) -> list[RecordedSample]:
    """The samples without those of starts that a later one of the same fragments replaces."""
    starts = [s for s in samples if s.shares.kinds.get(ActivityKind.STARTING, 0) > START_US]
    return [
        s
        for s in samples
        if s not in starts
        or not any(
            later.from_ms >= s.to_ms - 1 and later.shares.by_key.keys() & s.shares.by_key.keys()
            for later in samples
            if later not in starts
        )
    ]
