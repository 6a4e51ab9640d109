"""Revisions that one home counted before it stated a period, and the other one after that.

The provider states a period with the rows as they are, and corrects it later. A payer that was away
may import the rows and their revision together, and state the period with the revised rows at once;
or it follows a revision late. Then the two statements of the period differ, until the rows in the
home of the payer are those that the provider's statements say. So a correction is agreed on if it
leads to the rows that the payer holds, and a dispute ends once all its ranges are as claimed.

Of a contract whose revision became active in one home before a period began and in the other after
that, the payer makes its statement again under the revision that the provider has stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from medusa_core.market.bill_comparison import StatementComparison
from medusa_core.market.bill_statements import Charge, ChargeKind, Statement
from medusa_core.market.documents import revision_of
from medusa_core.market.settlement_periods import ActiveRevision, SettlementPeriod, is_acceptable

Digests = Mapping[int, str]
"""Where a range begins -> the digest of its rows; a range that is not there has none."""

_OF_ROWS = (ChargeKind.RECORDS, ChargeKind.CORRECTION)


def period_under_claimed_revision(
    claimed: Statement, own: Statement, revisions: Sequence[ActiveRevision]
) -> SettlementPeriod | None:
    """The period of the payer's statement under the provider's revision; None if that is its own,
    or is not acceptable."""
    if claimed.revision == own.revision:
        return None
    terms = {revision_of(one.terms): one.terms for one in revisions}
    named, ours = terms.get(claimed.revision), terms[own.revision]
    if named is None or not is_acceptable(revisions, named, ours, own.from_ms):
        return None
    return SettlementPeriod(number=own.period, from_ms=own.from_ms, to_ms=own.to_ms, terms=named)


def claimed_digests(statements: Iterable[Statement]) -> Digests:
    """What the provider's statements, in the order of their periods, say of each range last."""
    found: dict[int, str] = {}
    for statement in statements:
        for charge in statement.charges:
            if charge.kind in _OF_ROWS:
                found[charge.from_us] = charge.digest
    return found


def with_agreed_corrections(
    claimed: Statement, own: Statement, earlier: Digests, held: Digests
) -> Statement:
    """The payer's statement with the corrections that lead to the rows that it holds.

    `earlier` is what the provider's statements before this one say, `held` what the payer holds.
    A correction of the payer's to what was claimed before is none.
    """
    charges = {
        charge.key: charge
        for charge in own.charges
        if charge.kind is not ChargeKind.CORRECTION
        or earlier.get(charge.from_us, "") != charge.digest
    }
    for charge in claimed.charges:
        if charge.kind is ChargeKind.CORRECTION and _is_held(charge, held):
            charges[charge.key] = charge
    return replace(own, charges=tuple(charges[key] for key in sorted(charges)))


def is_explained(comparison: StatementComparison, claimed: Digests, held: Digests) -> bool:
    """Whether the payer now holds what the provider's statements say of all ranges in dispute."""
    return all(
        one.kind in _OF_ROWS and claimed.get(one.from_us, "") == held.get(one.from_us, "")
        for one in comparison.differences
    )


def _is_held(charge: Charge, held: Digests) -> bool:
    return held.get(charge.from_us, "") == charge.digest
