"""Figures of a run of schedules: counts, means, and missed requirements.

A run passes if no law was broken, if every schedule was as large as promised, and if every kind
of fault and every form of network occurred (from a hundred schedules on) and a crash at every gap
(from a thousand on). Markets have no network and other gaps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pipelines.simulation.faults.schedule import ScheduleFigures
from pipelines.simulation.faults.schedule_shapes import (
    MARKETS,
    MIXED,
    MOVES,
    REPLICA_KINDS,
    REPLICAS,
    REVISION_KINDS,
    REVISIONS,
    WHOLE,
    Shape,
)
from pipelines.simulation.faults.simulated_networks import Form
from pipelines.simulation.faults.simulated_processes import (
    GAPS,
    MOVING,
    REPLICA_GAPS,
    REVISION_GAPS,
)
from pipelines.simulation.faults.world import NOTHING
from pipelines.simulation.rounds.market_faults import MARKET_GAPS
from pipelines.simulation.rounds.market_schedule import MARKET, TO_REST, TO_REST_MAX

PARTICIPANTS_MIN, FRAGMENTS_MIN, DEPTH_MIN, BUCKETS_MIN = 3, 4, 2, 40
FAULTS_MIN, KINDS_MIN = 5, 3
EVERY_KIND_FROM, EVERY_GAP_FROM = 100, 1_000
COUNTERS = (
    "forms", "faults", "gaps", "events", "commits", "reads", "sizes", "ticks", "market",
    "revisions", "moves",
)  # fmt: skip
MARKET_EVENTS = ("offer", "answer", "room", "move")
SIZES = ("participants", "fragments", "depth", "buckets", "rows", "virtual_ms")


@dataclass(slots=True)
class RunFigures:
    """Sums over the schedules of a run, and the sentences about what failed.

    `ticks`: until everything was final after the last fault, and how many L1 allows; `ticks_most`
    is the longest that it took. `market`: messages and moves in markets, and in how many
    rounds they came to rest; `rounds_most` is the longest that it took. `revisions`: how many
    were made, and in how many schedules. `moves`: states of moves in the homes that give and take.
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
    market: Counter[str] = field(default_factory=Counter)
    rounds_most: int = 0
    revisions: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
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
    def has_revisions(self) -> bool:
        """Whether there are schedules with revisions among them."""
        return self.shape in (REVISIONS, MIXED)

    @property
    def has_moves(self) -> bool:
        """Whether there are schedules with moves among them."""
        return self.shape in (MOVES, MIXED)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of faults that may happen."""
        if self.shape != MIXED:
            return (*self.shape.kinds, *(REVISION_KINDS if self.has_revisions else ()))
        kinds = (*self.shape.kinds, *REPLICA_KINDS, *REVISION_KINDS, *MARKETS.kinds)
        return tuple(dict.fromkeys(kinds))

    @property
    def all_gaps(self) -> tuple[str, ...]:
        """Where somebody is to crash."""
        if self.shape.market:
            return MARKET_GAPS
        found = (
            *(REPLICA_GAPS if self.has_replicas else GAPS),
            *(REVISION_GAPS if self.has_revisions else ()),
            *((MOVING,) if self.has_moves else ()),
            *(MARKET_GAPS if self.shape.markets else ()),
        )
        return tuple(dict.fromkeys(found))

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
        self.market.update(schedule.market)
        self.rounds_most = max(self.rounds_most, schedule.market[TO_REST])
        self.revisions.update(schedule.revisions)
        self.revisions["schedules"] += schedule.revisions["sources"] > 0
        self.moves.update(schedule.moves)
        self.moves["schedules"] += schedule.moves["given accepted"] > 0
        if schedule.violation is not None:
            self.violations.append((schedule.seed, schedule.violation))
        elif self.shape in (WHOLE, REPLICAS, REVISIONS, MOVES, MIXED, MARKETS):
            self._look_at_size(schedule)

    def _look_at_size(self, schedule: ScheduleFigures) -> None:
        least = {
            "participants": (schedule.participants, PARTICIPANTS_MIN),
            "fragments": (schedule.fragments, FRAGMENTS_MIN),
            "faults": (schedule.faults.total(), FAULTS_MIN),
            "kinds of faults": (len(schedule.faults), KINDS_MIN),
        }
        if not schedule.market:
            least |= {
                "fragments in a chain": (schedule.depth, DEPTH_MIN),
                "buckets": (schedule.buckets, BUCKETS_MIN),
            }
        for what, (found, expected) in least.items():
            if found < expected:
                self.shortfalls.append(
                    f"schedule {schedule.seed} had {found} {what}, not {expected} at least"
                )

    def merge(self, other: RunFigures) -> None:
        """Count the schedules of another part of the run."""
        self.schedules += other.schedules
        for name in COUNTERS:
            getattr(self, name).update(getattr(other, name))
        self.ticks_most = max(self.ticks_most, other.ticks_most)
        self.rounds_most = max(self.rounds_most, other.rounds_most)
        self.interleavings += other.interleavings
        self.violations = sorted(self.violations + other.violations)
        self.shortfalls = sorted(self.shortfalls + other.shortfalls)

    def close(self) -> None:
        """Look whether everything occurred, where there were schedules enough."""
        if self.schedules >= EVERY_KIND_FROM:
            missing = [kind for kind in self.kinds if not self.faults[kind]]
            self.shortfalls += [f"no fault of kind {kind}" for kind in missing]
            unmet = [form.value for form in Form if not self.forms[form.value]]
            if not self.shape.market:
                self.shortfalls += [f"no network of the form {form}" for form in unmet]
            kinds = MARKET_EVENTS if self.shape in (MARKETS, MIXED) else ()
            self.shortfalls += [
                f"no {kind} in any market" for kind in kinds if not self.market[kind]
            ]
        if self.schedules >= EVERY_GAP_FROM:
            crashed = {gap for kind, gap in self.gaps if kind == "crash"}
            missed = [gap for gap in self.all_gaps if gap not in crashed]
            self.shortfalls += [f"no crash at gap {gap}" for gap in missed]

    def mean(self, total: int) -> float:
        """A sum per schedule."""
        return total / max(self.schedules, 1)

    @property
    def markets(self) -> int:
        """How many of the schedules were markets."""
        return sum(n for form, n in self.forms.items() if form.startswith(MARKET))

    def mean_ticks(self, what: str) -> float:
        """Of those that have streams."""
        return self.ticks[what] / max(self.schedules - self.markets, 1)

    def line(self) -> str:
        """All of it in a line."""
        kinds = " ".join(f"{kind.replace(' ', '-')}={self.faults[kind]}" for kind in self.kinds)
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
            f"{self.mean_ticks('taken'):.1f} ticks after the last fault, {self.ticks_most} "
            f"at most (L1 allows {self.mean_ticks('allowed'):.0f}); all: {kinds}; networks: "
            f"{forms}; reads: "
            f"{self.reads.total()} ({between or 'none after a trim or kill'}); homes read before "
            f"and after both a trim and a kill: {self.interleavings}{self._revisions()}"
            f"{self._moves()}{self._markets()}"
        )

    def _revisions(self) -> str:
        """Revisions, and what was compared while they were computed."""
        made = self.revisions
        if not made["schedules"]:
            return ""
        return (
            f"; revisions in {made['schedules']} schedules: {made['sources']} of sources, "
            f"{made['computed']} of computed streams, {made['followed']} followed; buckets "
            f"compared meanwhile: {made['compared']}, mixtures: {made['mixed']}"
        )

    def _moves(self) -> str:
        """Moves, and what came of them."""
        made = self.moves
        if not made["schedules"]:
            return ""
        return (
            f"; moves in {made['schedules']} schedules: {made['given accepted']} begun, "
            f"{made['given started']} started, {made['given released']} released, "
            f"{made['given returning']} returned, {made['owners']} changes of owners, "
            f"{made['adopted']} steps adopted and {made['not waited for']} computed by the payer"
        )

    def _markets(self) -> str:
        """Messages and moves in markets."""
        markets = self.markets
        if not markets:
            return ""
        kinds = " ".join(f"{what}s {self.market[what] / markets:.1f}" for what in MARKET_EVENTS)
        return (
            f"; per market ({markets}): {kinds}; at rest "
            f"{self.market[TO_REST] / markets:.1f} rounds after the last fault, {self.rounds_most} "
            f"at most (L3 allows {self.market[TO_REST_MAX] / markets:.0f})"
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
                "mean": round(self.mean_ticks("taken"), 2),
                "most": self.ticks_most,
                "allowed_mean": round(self.mean_ticks("allowed"), 2),
            },
            "forms": dict(sorted(self.forms.items())),
            "market": dict(sorted(self.market.items())),
            "rounds_most": self.rounds_most,
            "revisions": dict(sorted(self.revisions.items())),
            "moves": dict(sorted(self.moves.items())),
            "faults": {kind: self.faults[kind] for kind in self.kinds},
            "gaps": gaps,
            "interleavings": self.interleavings,
            "reads": dict(sorted(self.reads.items())),
            "commits": dict(sorted(self.commits.items())),
            "events": dict(sorted(self.events.items())),
        }
