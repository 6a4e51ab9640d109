"""Figures that are promised, each with a goal beyond the promise, and the table of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A figure with the value that is promised, and the one that is the goal."""

    name: str
    measured: float
    promised: float
    goal: float | None = None
    is_least: bool = False
    """Whether more is better."""

    @property
    def verdict(self) -> str:
        """Met or missed."""
        if not self._reaches(self.promised):
            return "MISSED"
        if self.goal is None:
            return "met"
        return "goal met" if self._reaches(self.goal) else "met, goal missed"

    def _reaches(self, bound: float) -> bool:
        return self.measured >= bound if self.is_least else self.measured <= bound


def wanted_lines(found: Sequence[Wanted]) -> Iterator[str]:
    """A table of what is promised and what was measured."""
    yield f"{'promise':58}{'measured':>10}{'promised':>12}{'goal':>10}"
    for wanted in found:
        goal = "" if wanted.goal is None else f"{wanted.goal:,g}"
        bound = f"{'>=' if wanted.is_least else '<='} {wanted.promised:,g}"
        yield f"{wanted.name:58}{wanted.measured:>10,.2f}{bound:>12}{goal:>10}  {wanted.verdict}"
