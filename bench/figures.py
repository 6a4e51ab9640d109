"""From samples to figures: medians, 90th percentiles, ratios against targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.contender import Milliseconds
from bench.growth import Growth
from bench.rounds import Measured

SMALL_RECORDS, LARGE_RECORDS = 1_000, 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The steps of one contender: milliseconds, and records per second at the median."""

    p50_ms: float
    p90_ms: float
    min_ms: float
    records_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A promise as a ratio, and what was measured: of the medians, and as a median of ratios.

    `paired` compares neighbours in time: where it is far from `measured`, the machine was busy.
    """

    what: str
    measured: float
    paired: float
    sign: str
    bound: float

    @property
    def is_met(self) -> bool:
        """Whether the measured figure keeps the promise."""
        return self.measured <= self.bound if self.sign == "<=" else self.measured >= self.bound


def p90(values: Sequence[float]) -> float:
    """The value that nine in ten are not above."""
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * 9 // 10) - 1, 0)]


def figure_of(steps: Sequence[Milliseconds], records: int) -> Figure:
    """Figures of the counted steps of a contender."""
    totals = [ms["total"] for ms in steps]
    middle = median(totals)
    return Figure(
        p50_ms=middle, p90_ms=p90(totals), min_ms=min(totals), records_per_s=records / middle * 1000
    )


def phases_of(steps: Sequence[Milliseconds]) -> dict[str, float]:
    """The median of each part of a step."""
    names = {name: None for ms in steps for name in ms}
    return {name: median([ms.get(name, 0.0) for ms in steps]) for name in names}


def time_ratios(
    ours: Sequence[Milliseconds], theirs: Sequence[Milliseconds]
) -> tuple[float, float]:
    """Our time over theirs: ratio of the medians, and median of the ratios turn by turn."""
    mine, others = ([ms["total"] for ms in steps] for steps in (ours, theirs))
    ticks = [a / b for a, b in zip(mine, others, strict=True)]
    return median(mine) / median(others), median(ticks)


def targets_of(measured: Measured) -> list[Target]:
    """What bench/README.md promises of this workload."""
    workload, steps = measured.workload, measured.steps
    name = f"{workload.query}, {workload.records:,} records a step"
    by_bare = time_ratios(steps["medusa"], steps["bare"])
    by_streaming = time_ratios(steps["medusa"], steps["streaming"])
    if workload.records == SMALL_RECORDS:
        return [_target(f"{name}: p50 of a step, c / b", by_streaming, "<=", 0.25)]
    return [
        _target(f"{name}: throughput, c / a", (1 / by_bare[0], 1 / by_bare[1]), ">=", 0.95),
        _target(
            f"{name}: throughput, c / b", (1 / by_streaming[0], 1 / by_streaming[1]), ">=", 2.1
        ),
    ]


def growth_targets_of(growth: Growth) -> list[Target]:
    """A tick over the largest catalog against one over the smallest."""
    small, large = min(growth.ticks), max(growth.ticks)
    ratios = time_ratios(growth.ticks[large], growth.ticks[small])
    return [_target(f"a tick with {large:,} / {small:,} segments", ratios, "<=", 1.2)]


def _target(what: str, ratios: tuple[float, float], sign: str, bound: float) -> Target:
    return Target(what=what, measured=ratios[0], paired=ratios[1], sign=sign, bound=bound)


def document_of(measured: Measured) -> dict[str, Any]:
    """A workload with all its samples and figures as JSON values."""
    records = measured.workload.records
    return {
        "workload": asdict(measured.workload),
        "rows": dict(measured.rows),
        "figures": {n: asdict(figure_of(s, records)) for n, s in measured.steps.items()},
        "phases_ms": {n: phases_of(s) for n, s in measured.steps.items()},
        "samples_ms": {n: [dict(ms) for ms in s] for n, s in measured.steps.items()},
    }


def growth_document_of(growth: Growth) -> dict[str, Any]:
    """The ticks with all their samples and figures as JSON values."""
    return {
        "segments": {str(size): n for size, n in growth.segments.items()},
        "fill_s": {str(size): seconds for size, seconds in growth.fill_s.items()},
        "phases_ms": {str(size): phases_of(ms) for size, ms in growth.ticks.items()},
        "samples_ms": {str(size): [dict(m) for m in ms] for size, ms in growth.ticks.items()},
    }
