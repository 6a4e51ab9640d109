"""What the schedules of a run were: counts, means, and what was not met.

A run passes if no law was broken, if every schedule was as large as promised, and if every kind of
fault and every form of network occurred (from a hundred schedules on) and a crash at every gap
(from a thousand on).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pipelines.simulation.networks import Form
from pipelines.simulation.processes import GAPS, REPLICA_GAPS
from pipelines.simulation.schedule import ScheduleFigures
from pipelines.simulation.shapes import MIXED, REPLICA_KINDS, REPLICAS, WHOLE, Shape
from pipelines.simulation.world import NOTHING

PARTICIPANTS_MIN, FRAGMENTS_MIN, DEPTH_MIN, BUCKETS_MIN = 3, 4, 2, 40
FAULTS_MIN, KINDS_MIN = 5, 3
EVERY_KIND_FROM, EVERY_GAP_FROM = 100, 1_000
COUNTERS = ("forms", "faults", "gaps", "events", "commits", "reads", "sizes", "ticks")
SIZES = ("participants", "fragments", "depth", "buckets", "rows", "virtual_ms")


@dataclass(slots=True)
class RunFigures:
    """Sums over the schedules of a run, and the sentences about what failed.

    `ticks`: until everything was final after the last fault, and how many L1 allows; `ticks_most`
    is the longest that it took.
    """

    first_seed: int
    shape: Shape = WHOLE
    schedules: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    gaps: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)
    interleavings: int = 0
    sizes: Counter[str] = field(default_factory=Counter)
    ticks: Counter[str] = field(default_factory=Counter)
    ticks_most: int = 0
    violations: list[tuple[int, str]] = field(default_factory=list)
    shortfalls: list[str] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """Whether anything failed."""
        return bool(self.violations or self.shortfalls)

    @property
    def has_replicas(self) -> bool:
        """Whether there are schedules with replicas among them."""
        return self.shape in (REPLICAS, MIXED)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of faults that may happen."""
        return (*self.shape.kinds, *(REPLICA_KINDS if self.shape == MIXED else ()))

    def add(self, schedule: ScheduleFigures) -> None:
        """Count one schedule."""
        self.schedules += 1
        self.forms[schedule.form] += 1
        self.faults += schedule.faults
        self.gaps += schedule.gaps
        self.events += schedule.events
        self.commits += schedule.commits
        self.reads += schedule.reads
        self.interleavings += schedule.interleavings
        for name in SIZES:
            self.sizes[name] += getattr(schedule, name)
        self.ticks["taken"] += schedule.settled.ticks
        self.ticks["allowed"] += schedule.settled.ticks_max
        self.ticks_most = max(self.ticks_most, schedule.settled.ticks)
        if schedule.violation is not None:
            self.violations.append((schedule.seed, schedule.violation))
        elif self.shape in (WHOLE, REPLICAS, MIXED):
            self._look_at_size(schedule)

    def _look_at_size(self, schedule: ScheduleFigures) -> None:
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

    def merge(self, other: RunFigures) -> None:
        """Count the schedules of another part of the run."""
        self.schedules += other.schedules
        for name in COUNTERS:
            getattr(self, name).update(getattr(other, name))
        self.ticks_most = max(self.ticks_most, other.ticks_most)
        self.interleavings += other.interleavings
        self.violations = sorted(self.violations + other.violations)
        self.shortfalls = sorted(self.shortfalls + other.shortfalls)

    def close(self) -> None:
        """Look whether everything occurred, where there were schedules enough."""
        if self.schedules >= EVERY_KIND_FROM:
            missing = [kind for kind in self.kinds if not self.faults[kind]]
            self.shortfalls += [f"no fault of kind {kind}" for kind in missing]
            unmet = [form.value for form in Form if not self.forms[form.value]]
            self.shortfalls += [f"no network of the form {form}" for form in unmet]
        if self.schedules >= EVERY_GAP_FROM:
            crashed = {gap for kind, gap in self.gaps if kind == "crash"}
            gaps = REPLICA_GAPS if self.has_replicas else GAPS
            self.shortfalls += [f"no crash at gap {gap}" for gap in gaps if gap not in crashed]

    def mean(self, total: int) -> float:
        """A sum per schedule."""
        return total / max(self.schedules, 1)

    def line(self) -> str:
        """All of it in a line."""
        kinds = " ".join(
            f"{kind.replace(' ', '-')}={self.faults[kind]}" for kind in self.shape.kinds
        )
        forms = " ".join(f"{name.replace(' ', '-')}={n}" for name, n in sorted(self.forms.items()))
        sizes = " ".join(f"{name} {self.mean(self.sizes[name]):.1f}" for name in SIZES)
        between = ", ".join(
            f"{n} after a {what}" for what, n in sorted(self.reads.items()) if what != NOTHING
        )
        return (
            f"simulate faults: {self.schedules} schedules from seed {self.first_seed}, "
            f"{len(self.violations)} violations; per schedule: {sizes} "
            f"events {self.mean(self.events.total()):.0f} "
            f"commits {self.mean(self.commits.total()):.0f} "
            f"(corrections {self.mean(self.commits['correction']):.1f}) "
            f"faults {self.mean(self.faults.total()):.1f}; all final "
            f"{self.mean(self.ticks['taken']):.1f} ticks after the last fault, {self.ticks_most} "
            f"at most (L1 allows {self.mean(self.ticks['allowed']):.0f}); all: {kinds}; networks: "
            f"{forms}; reads: "
            f"{self.reads.total()} ({between or 'none after a trim or kill'}); homes read before "
            f"and after both a trim and a kill: {self.interleavings}"
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
                **{name: round(self.mean(self.sizes[name]), 2) for name in SIZES},
                "events": round(self.mean(self.events.total()), 2),
                "commits": round(self.mean(self.commits.total()), 2),
                "faults": round(self.mean(self.faults.total()), 2),
            },
            "ticks": {
                "mean": round(self.mean(self.ticks["taken"]), 2),
                "most": self.ticks_most,
                "allowed_mean": round(self.mean(self.ticks["allowed"]), 2),
            },
            "forms": dict(sorted(self.forms.items())),
            "faults": {kind: self.faults[kind] for kind in self.kinds},
            "gaps": gaps,
            "interleavings": self.interleavings,
            "reads": dict(sorted(self.reads.items())),
            "commits": dict(sorted(self.commits.items())),
            "events": dict(sorted(self.events.items())),
        }
