"""The comparison of two statements of one period: what both agree on, and where they differ.

A charge that both state alike is agreed on. Where both state one with other records, the amount
nearer to zero is agreed on and the rest is blocked. Where they state as many records of different
content (another digest), all of it is blocked. The first segment in which the statements differ is
the one that begins first. Both homes compute this from both documents, and so agree on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from medusa_core.errors import Refused
from medusa_core.market.bill_statements import Charge, ChargeKind, Statement
from medusa_core.market.money import ZERO, total_of

Amounts = Mapping[ChargeKind, Decimal]


class AnswerOutcome(Enum):
    """What the payer signs: that it owes the total, the part that is agreed on, or, to end a
    dispute, the total that is claimed or that of its own statement."""

    AGREED = "agreed"
    DISPUTED = "disputed"
    CLAIMED = "claimed"
    OWN = "own"

    @property
    def ends_dispute(self) -> bool:
        """Whether there was a dispute before."""
        return self in (AnswerOutcome.CLAIMED, AnswerOutcome.OWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeDifference:
    """A charge that the two statements do not state alike, and how much of it is blocked."""

    kind: ChargeKind
    subject: str
    from_us: int
    to_us: int
    claimed: Decimal
    own: Decimal
    agreed: Decimal

    @property
    def blocked(self) -> Decimal:
        """How much the two are apart; of rows with another content, all of it."""
        if self.claimed == self.own:
            return abs(self.claimed - self.agreed)
        return abs(self.claimed - self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementComparison:
    """What the provider's statement (`claimed`) and the payer's (`own`) agree on.

    `differences` are in the order of event time: the first names the first segment.
    """

    claimed: Statement
    own: Statement
    differences: tuple[ChargeDifference, ...]

    @property
    def outcome(self) -> AnswerOutcome:
        """What the payer answers first."""
        return AnswerOutcome.DISPUTED if self.differences else AnswerOutcome.AGREED

    @property
    def segment(self) -> tuple[int, int] | None:
        """The first segment in which they differ, or the first wrong sample in it; None: none."""
        if not self.differences:
            return None
        first = self.differences[0]
        samples = (one for one in self.differences if one.kind is ChargeKind.SAMPLE)
        inside = [s for s in samples if first.from_us <= s.from_us < first.to_us]
        found = (inside or [first])[0]
        return found.from_us, found.to_us

    @property
    def blocked(self) -> Decimal:
        """The amount that is blocked until the dispute ends."""
        return total_of(one.blocked for one in self.differences)

    def amounts(self, outcome: AnswerOutcome) -> Amounts:
        """What is owed in all after an answer, by kind of charge."""
        match outcome:
            case AnswerOutcome.OWN:
                return _by_kind(self.own)
            case AnswerOutcome.DISPUTED:
                return self._agreed()
            case AnswerOutcome.AGREED | AnswerOutcome.CLAIMED:
                return _by_kind(self.claimed)

    def _agreed(self) -> Amounts:
        found = dict(_by_kind(self.claimed))
        for one in self.differences:
            found[one.kind] = total_of((found.get(one.kind, ZERO), -one.claimed, one.agreed))
        return found


def compare_statements(claimed: Statement, own: Statement) -> StatementComparison:
    """Compare the provider's statement of a period with the payer's; Refused for two that are not
    of one period of one contract."""
    if _header(claimed) != _header(own):
        raise Refused(
            f"a statement of {claimed.contract}, period {claimed.period}, cannot be compared with "
            f"one of {own.contract}, period {own.period}: the parties, the period or the currency "
            "differ"
        )
    theirs = {charge.key: charge for charge in claimed.charges}
    ours = {charge.key: charge for charge in own.charges}
    differences = [
        _difference(theirs.get(key), ours.get(key))
        for key in theirs.keys() | ours.keys()
        if theirs.get(key) != ours.get(key)
    ]
    ordered = sorted(differences, key=lambda one: (one.from_us, one.to_us, one.kind.value))
    return StatementComparison(claimed=claimed, own=own, differences=tuple(ordered))


def _header(statement: Statement) -> tuple[object, ...]:
    # Not its bounds: homes that reckon the end of a contract otherwise differ in charges there.
    return (
        statement.contract, statement.period, statement.payer, statement.provider,
        statement.currency,
    )  # fmt: skip


def _difference(claimed: Charge | None, own: Charge | None) -> ChargeDifference:
    some = claimed or own
    if some is None:
        raise ValueError("no charge")
    return ChargeDifference(
        kind=some.kind,
        subject=some.subject,
        from_us=some.from_us,
        to_us=some.to_us,
        claimed=ZERO if claimed is None else claimed.amount,
        own=ZERO if own is None else own.amount,
        agreed=_agreed(claimed, own),
    )


def _agreed(claimed: Charge | None, own: Charge | None) -> Decimal:
    """The part of an amount that both state."""
    if claimed is None or own is None:
        return ZERO
    if claimed.quantity == own.quantity and claimed.digest != own.digest:
        return ZERO
    if (claimed.amount < 0) != (own.amount < 0):
        return ZERO
    return min(claimed.amount, own.amount, key=abs)


def _by_kind(statement: Statement) -> Amounts:
    found: dict[ChargeKind, Decimal] = {}
    for charge in statement.charges:
        kind = charge.kind
        found[kind] = total_of((found.get(kind, ZERO), charge.amount))
    return found
