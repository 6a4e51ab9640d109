"""The settlement periods of a contract, and which revision applies to each.

Periods begin at `valid.from` of the first revision and follow one another without a hole: each is
half-open, as long as `settlement` of its revision says, and the last one ends with the contract. A
bucket belongs to the period that holds its start. A later revision applies from the first period
that begins when it is active or later; the first revision applies from the first period, since
without it that one would have no terms.

Each home activates a revision in a round of its own, so that a revision may become active before a
period begins in one home, and after that in the other. Then the provider's statement decides: the
payer takes its revision if it is the one before or after its own, and the later of them became
active within SLACK_MS of the beginning of the period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.grid import Range
from medusa_core.market.terms import Content, Terms
from medusa_core.names import Participant

SLACK_MS = LAST_ROWS_MS = 3_600_000
CHARGES_MAX = 200
"""A period is cut into so many charges at most, each of whole buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRevision:
    """An agreed revision and since when it is active in this home; None: not yet."""

    terms: Terms
    active_from_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementPeriod:
    """A period of a contract, from `from_ms` until before `to_ms`, under the terms that apply.

    `is_last`: it ends with the contract.
    """

    number: int
    from_ms: int
    to_ms: int
    terms: Terms
    is_last: bool = False

    @property
    def range(self) -> Range:
        """The event time of the period."""
        return Range(self.from_ms * 1_000, self.to_ms * 1_000)

    def cut_us(self, width_us: int) -> int:
        """How much event time a charge covers: whole buckets, CHARGES_MAX charges at most.

        The end of the contract does not change it: that may become known while rows are counted.
        """
        buckets = -(-self.terms.settlement_ms * 1_000 // width_us)
        return -(-buckets // CHARGES_MAX) * width_us


def next_period(
    revisions: Sequence[ActiveRevision], before: SettlementPeriod | None, ends_at_ms: int | None
) -> SettlementPeriod | None:
    """The period after `before` (None: the first one), or None if the contract ends there.

    `revisions` are the agreed ones by number; `ends_at_ms` is when the contract ends by notice.
    """
    if before is None:
        number, terms = 1, revisions[0].terms
        from_ms = terms.valid_from_ms
    else:
        number, from_ms = before.number + 1, before.to_ms
        terms = _terms_at(revisions, before, from_ms)
    end_ms = terms.valid_until_ms if ends_at_ms is None else min(terms.valid_until_ms, ends_at_ms)
    if from_ms >= end_ms:
        return None
    to_ms = min(from_ms + terms.settlement_ms, end_ms)
    return SettlementPeriod(
        number=number, from_ms=from_ms, to_ms=to_ms, terms=terms, is_last=to_ms == end_ms
    )


def is_over(
    period: SettlementPeriod, here: Participant, clock_ms: int, stable_us: int, waited_ms: int = 0
) -> bool:
    """Whether a home states a period: its time has passed, and what it bills is final to its end.

    The payer waits LAST_ROWS_MS for the last rows of a contract that has ended, which grants it the
    stream no more: then it states what it holds. Of a contract about load both state what they
    hold, LAST_ROWS_MS after the end of each period, since the other one may be lost; `waited_ms` is
    how long the program of this home has waited, which may have been away before.
    """
    late_ms = clock_ms - period.to_ms
    if late_ms < 0 or stable_us >= period.range.to_us:
        return late_ms >= 0
    if not isinstance(period.terms.subject, Content):
        return min(late_ms, waited_ms) >= LAST_ROWS_MS
    return here == period.terms.payer and period.is_last and late_ms >= LAST_ROWS_MS


def is_acceptable(
    revisions: Sequence[ActiveRevision], named: Terms, own: Terms, from_ms: int
) -> bool:
    """Whether the payer takes the revision that the provider names for a period."""
    if named == own:
        return True
    later = max(named.number, own.number)
    if abs(named.number - own.number) != 1 or named.settlement_ms != own.settlement_ms:
        return False
    return any(
        one.active_from_ms is not None and abs(one.active_from_ms - from_ms) <= SLACK_MS
        for one in revisions
        if one.terms.number == later
    ) and any(one.terms == named for one in revisions)


def _terms_at(revisions: Sequence[ActiveRevision], before: SettlementPeriod, from_ms: int) -> Terms:
    active = [
        one.terms
        for one in revisions
        if one.active_from_ms is not None
        and one.active_from_ms <= from_ms
        and one.terms.number >= before.terms.number
    ]
    return max(active, key=lambda terms: terms.number, default=before.terms)
