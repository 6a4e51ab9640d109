"""The promises of a cell, each with what was measured, what was allowed, and by how much it failed.

* Delay_new at the end of the chain is at most X.
* Proc_new grows from hop to hop by no more than one tick and one step (that hop's slowest of the
  cell).
* The head's first correction comes within one bucket and one step (that correction's own) of the
  first heal.
* What is final equals what DuckDB computes of all that landed, and nothing was computed more than
  twice (S12).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.dpc.metrics import CellFigures
from bench.dpc.scenario import BUCKET_S, POLL_S, X_S

COMPUTED_MAX = 2


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
    yield Verdict(what="computations", measured=most, allowed=COMPUTED_MAX, unit="of a bucket")
    if oracle is not None:
        wrong = oracle["lost"] + oracle["extra"] + (oracle["rows"] == 0)
        yield Verdict(what="rows unlike the oracle", measured=wrong, allowed=0, unit="rows")
