"""Figures of a fragment that was handed over and came back: load, owners of buckets, results, bill.

Results, owners and statements are read from the homes; load is given, as CPU was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from medusa_core.grid import FOREVER_US, Range
from medusa_core.market.bill_statements import Statement
from medusa_core.market.money import total_of
from medusa_core.names import Participant
from pipelines.catalog.records import OwnerLine
from pipelines.report.answer_figures import AnswerFigures, Mark


@dataclass(frozen=True, slots=True)
class LoadSpan:
    """The CPU of a participant's processes over a time, in cores."""

    from_ms: int
    to_ms: int
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was checked, what was found, and whether it is as it has to be."""

    name: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFigures:
    """A fragment of `payer` that `provider` computed for a while.

    `owners` is the payer's log of owners, `loads` the CPU of each participant, `statements` the
    settled ones, in the order of their periods.
    """

    payer: Participant
    provider: Participant
    fragment: str
    answers: AnswerFigures
    owners: tuple[OwnerLine, ...]
    loads: Mapping[Participant, Sequence[LoadSpan]]
    statements: tuple[Statement, ...]
    checks: tuple[Check, ...]
    marks: tuple[Mark, ...]

    @property
    def owned(self) -> list[tuple[Participant, Range]]:
        """Who owns the buckets of the window, in order; the payer where the log says nothing."""
        return owned_ranges(self.owners, self.payer, self.answers.window)

    @property
    def total(self) -> Decimal:
        """What the payer owes, over all statements."""
        return total_of(one.total for one in self.statements)


def owned_ranges(
    owners: Sequence[OwnerLine], payer: Participant, window: Range
) -> list[tuple[Participant, Range]]:
    """The owner of each part of a window: the last line of the log that is for a bucket counts."""
    cuts = sorted({window.from_us, *(o.from_us for o in owners), FOREVER_US})
    found: list[tuple[Participant, Range]] = []
    for from_us, to_us in pairwise(cuts):
        part = Range(from_us, to_us).intersection(window)
        if part is None:
            continue
        lines = [line for line in owners if line.from_us <= part.from_us]
        owner = lines[-1].owner.participant if lines else payer
        if found and found[-1][0] == owner:
            part = Range(found.pop()[1].from_us, part.to_us)
        found.append((owner, part))
    return found
