"""Many schedules one after the other, and what they were: counts, means, and what was not met.

A run passes if no law was broken, if every schedule was as large as promised, and if, from a
hundred schedules on, every kind of fault and every gap occurred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pipelines.simulation.faults import FAULTS_MIN, KINDS, KINDS_MIN
from pipelines.simulation.processes import GAPS
from pipelines.simulation.schedule import ScheduleFigures, run_schedule
from pipelines.simulation.world import Tell

PARTICIPANTS_MIN, FRAGMENTS_MIN, DEPTH_MIN, BUCKETS_MIN = 3, 4, 2, 40
EVERY_KIND_FROM = 100


@dataclass(slots=True)
class RunFigures:
    """Sums over the schedules of a run, and the sentences about what failed."""

    first_seed: int
    schedules: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    gaps: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[int, str]] = field(default_factory=list)
    shortfalls: list[str] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """Whether anything failed."""
        return bool(self.violations or self.shortfalls)

    def add(self, schedule: ScheduleFigures) -> None:
        """Count one schedule."""
        self.schedules += 1
        self.faults += schedule.faults
        self.gaps += schedule.gaps
        self.events += schedule.events
        self.commits += schedule.commits
        for name in ("participants", "fragments", "depth", "buckets", "rows", "virtual_ms"):
            self.sizes[name] += getattr(schedule, name)
        if schedule.violation is not None:
            self.violations.append((schedule.seed, schedule.violation))
            return
        least = {
            "participants": (schedule.participants, PARTICIPANTS_MIN),
            "fragments": (schedule.fragments, FRAGMENTS_MIN),
            "fragments in a chain": (schedule.depth, DEPTH_MIN),
            "buckets": (schedule.buckets, BUCKETS_MIN),
            "faults": (schedule.faults.total(), FAULTS_MIN),
            "kinds of faults": (len(schedule.faults), KINDS_MIN),
        }
        for what, (found, wanted) in least.items():
            if found < wanted:
                self.shortfalls.append(
                    f"schedule {schedule.seed} had {found} {what}, not {wanted} at least"
                )

    def close(self) -> None:
        """Look whether everything occurred, where there were schedules enough."""
        if self.schedules < EVERY_KIND_FROM:
            return
        self.shortfalls += [f"no fault of kind {kind}" for kind in KINDS if not self.faults[kind]]
        crashed = {gap for kind, gap in self.gaps if kind == "crash"}
        self.shortfalls += [f"no crash at gap {gap}" for gap in GAPS if gap not in crashed]

    def mean(self, total: int) -> float:
        """A sum per schedule."""
        return total / max(self.schedules, 1)

    def line(self) -> str:
        """All of it in a line."""
        kinds = " ".join(f"{kind.replace(' ', '-')}={self.faults[kind]}" for kind in KINDS)
        sizes = " ".join(f"{name} {self.mean(n):.1f}" for name, n in self.sizes.items())
        return (
            f"simulate faults: {self.schedules} schedules from seed {self.first_seed}, "
            f"{len(self.violations)} violations; per schedule: {sizes} "
            f"events {self.mean(self.events.total()):.0f} "
            f"commits {self.mean(self.commits.total()):.0f} "
            f"(corrections {self.mean(self.commits['correction']):.1f}) "
            f"faults {self.mean(self.faults.total()):.1f}; all: {kinds}"
        )

    def document(self) -> dict[str, object]:
        """All of it as JSON values."""
        gaps: dict[str, dict[str, int]] = {}
        for (kind, gap), n in sorted(self.gaps.items()):
            gaps.setdefault(kind, {})[gap] = n
        return {
            "schedules": self.schedules,
            "first_seed": self.first_seed,
            "violations": [{"seed": seed, "violation": text} for seed, text in self.violations],
            "shortfalls": self.shortfalls,
            "means": {
                **{name: round(self.mean(n), 2) for name, n in self.sizes.items()},
                "events": round(self.mean(self.events.total()), 2),
                "commits": round(self.mean(self.commits.total()), 2),
                "faults": round(self.mean(self.faults.total()), 2),
            },
            "faults": {kind: self.faults[kind] for kind in KINDS},
            "gaps": gaps,
            "commits": dict(sorted(self.commits.items())),
            "events": dict(sorted(self.events.items())),
        }


def run_schedules(
    schedules: int,
    seed: int,
    *,
    tell: Tell | None = None,
    begun: Callable[[int], None] = lambda seed: None,
    violations_max: int = 1_000_000,
) -> RunFigures:
    """Run the schedules of the seeds from `seed` on; stop at so many violations."""
    figures = RunFigures(first_seed=seed)
    for number in range(seed, seed + schedules):
        begun(number)
        figures.add(run_schedule(number, tell))
        if len(figures.violations) >= violations_max:
            break
    figures.close()
    return figures
