"""The promises of a cell, each with the measured value, the limit, and by how much it failed.

* Delay_new at the end of the chain is at most X.
* Proc_new grows from hop to hop by no more than one tick and one step (that hop's slowest of the
  cell).
* The head's first correction arrives within one bucket and one step (that correction's own) of
  the first heal.
* Final rows equal those that DuckDB computes from all landed records, and nothing was computed
  more than twice (S12).

With replicas, besides: as long as one is available nothing is tentative, and another is read
within (3 + 1) polls of the loss (theirs: three missed ones, and one); no bucket is read twice as
final, and no divergence is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from bench.dpc.metrics import CellFigures, figures_of
from bench.dpc.replica_figures import Switch, switch_of
from bench.dpc.scenario import BUCKET_S, POLL_S, X_S

COMPUTED_MAX = 2
TAKEN_S_MAX = 1.0
POLLS_MAX = 3 + 1
UNLIKE, COMPUTATIONS, TWICE, DIFFERENT = (
    "rows unlike the oracle", "computations", "read twice", "replicas that differ",
)  # fmt: skip
NEVER_WRONG = frozenset({UNLIKE, COMPUTATIONS, TWICE, DIFFERENT})
"""What no busy machine excuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One promise in one cell."""

    what: str
    measured: float
    allowed: float
    unit: str = "s"

    @property
    def is_met(self) -> bool:
        """Whether it was kept."""
        return self.measured <= self.allowed

    @property
    def told(self) -> str:
        """In words: met, or missed by how much."""
        if self.is_met:
            return f"{self.what}: met ({self.measured:.2f} of {self.allowed:.2f} {self.unit})"
        by = self.measured - self.allowed
        return (
            f"{self.what}: MISSED by {by:.2f} {self.unit} ({self.measured:.2f}, "
            f"{self.allowed:.2f} allowed)"
        )


def verdicts_of_cell(kept: Mapping[str, Any]) -> Iterator[Verdict]:
    """All promises of a live cell as it is kept."""
    figures = figures_of(kept["figures"])
    yield from verdicts_of(figures, kept.get("oracle"))
    if "switch" in kept:
        yield from switch_verdicts(figures, switch_of(kept["switch"]))


def switch_verdicts(figures: CellFigures, switch: Switch) -> Iterator[Verdict]:
    """What is promised of replicas; where all of them were lost, tentative answers are."""
    if switch.again_s is None:
        # One that was never read of has not been switched to: no time is short enough.
        switch_s = inf if switch.switch_s is None else switch.switch_s
        taken_s = inf if switch.taken_s is None else switch.taken_s
        yield Verdict(what="switch", measured=switch_s, allowed=POLLS_MAX * POLL_S)
        yield Verdict(what="taken", measured=taken_s, allowed=TAKEN_S_MAX)
        rows = figures.end.tentative_buckets
        yield Verdict(what="tentative with a replica", measured=rows, allowed=0, unit="buckets")
    yield Verdict(what=TWICE, measured=switch.chosen_twice, allowed=0, unit="buckets")
    yield Verdict(what=DIFFERENT, measured=switch.divergences, allowed=0, unit="buckets")


def verdicts_of(figures: CellFigures, oracle: Mapping[str, Any] | None) -> Iterator[Verdict]:
    """All promises of a cell; those of a correction only where something was corrected."""
    yield Verdict(what="Delay_new", measured=figures.end.delay_new_s, allowed=X_S)
    if len(figures.hops) > 1:
        grown = [
            (b.proc_new_s - a.proc_new_s, POLL_S + b.step_s, number)
            for number, (a, b) in enumerate(zip(figures.hops, figures.hops[1:], strict=False), 2)
        ]
        measured, allowed, hop = max(grown, key=lambda one: one[0] - one[1])
        yield Verdict(what=f"growth to hop {hop}", measured=measured, allowed=allowed)
    head = figures.hops[0]
    if head.first_correction_s is not None and head.first_correction_step_s is not None:
        allowed = BUCKET_S + head.first_correction_step_s
        yield Verdict(what="first correction", measured=head.first_correction_s, allowed=allowed)
    most = max(hop.computed_max for hop in figures.hops)
    yield Verdict(what=COMPUTATIONS, measured=most, allowed=COMPUTED_MAX, unit="of a bucket")
    if oracle is not None:
        wrong = oracle["lost"] + oracle["extra"] + (oracle["rows"] == 0)
        yield Verdict(what=UNLIKE, measured=wrong, allowed=0, unit="rows")
