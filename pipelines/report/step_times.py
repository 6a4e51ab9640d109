"""The time of each step by phase, from the metering in its commit and the times of the commits.

A step cannot meter its own commit, which holds the metering. Time between two commits that is in
no phase is deciding and committing; the first step of a run is not counted so (Spark starts
there), nor is a pause in which nothing ran, such as the night before a replay was continued.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.catalog.records import StepRecord
from pipelines.report.charts import Bar

BETWEEN = "decide and commit"
ORDER = ("read", "plan", "spark", "write", "sync")
PAUSE_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentTimes:
    """The steps of one fragment, in order, and the milliseconds of each phase in all of them."""

    fragment: str
    steps: tuple[StepRecord, ...]
    bars: tuple[Bar, ...]

    def total_ms(self, phase: str) -> float:
        """Milliseconds that all steps spent in a phase."""
        return sum(bar.phases_ms.get(phase, 0.0) for bar in self.bars)


def step_times(steps: Sequence[StepRecord]) -> tuple[FragmentTimes, ...]:
    """Times by fragment, the one that took longest first."""
    seen: dict[str, list[tuple[StepRecord, Bar]]] = {}
    for at, step in enumerate(steps):
        phases = dict(step.metrics.phases_ms)
        is_first = step.fragment not in seen
        if at and not is_first:
            between = step.committed_at_ms - steps[at - 1].committed_at_ms - sum(phases.values())
            if 0 < between < PAUSE_MS:
                phases[BETWEEN] = between
        mine = seen.setdefault(step.fragment, [])
        mine.append((step, Bar(label=str(len(mine) + 1), phases_ms=phases)))
    found = [
        FragmentTimes(
            fragment=fragment,
            steps=tuple(step for step, _ in made),
            bars=tuple(bar for _, bar in made),
        )
        for fragment, made in seen.items()
    ]
    return tuple(sorted(found, key=lambda f: -sum(bar.total_ms for bar in f.bars)))


def phases_of(times: Sequence[FragmentTimes]) -> list[str]:
    """Every phase that took time, in the order of a step; what is not known comes last."""
    names = dict.fromkeys(name for f in times for bar in f.bars for name in bar.phases_ms)
    known = [name for name in ORDER if name in names]
    others = sorted(name for name in names if name not in (*ORDER, BETWEEN))
    return [*known, *others, *([BETWEEN] if BETWEEN in names else [])]
