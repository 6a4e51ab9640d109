"""Two homes that count a revision at different times come to one statement, and no other way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from medusa_core.digest import Digest
from medusa_core.grid import Range
from medusa_core.market.bill_comparison import compare_statements
from medusa_core.market.bill_reconciliation import (
    claimed_digests,
    is_explained,
    period_under_claimed_revision,
    with_agreed_corrections,
)
from medusa_core.market.bill_statements import (
    BilledRange,
    ChargeKind,
    RangeChange,
    Statement,
    content_statement,
    digest_text,
    repriced,
)
from medusa_core.market.documents import revision_of
from medusa_core.market.settlement_periods import (
    LAST_ROWS_MS,
    SLACK_MS,
    ActiveRevision,
    SettlementPeriod,
    is_over,
)
from medusa_core.market.terms import BillingUnit, Terms
from medusa_core.names import Participant
from tests.agreements.building import ALPHA, BETA, DAY_MS, a_content, some_terms

BEGINS_MS = 1_704_067_200_000
CUT_US = 3_600_000_000
FIRST = some_terms(valid_from_ms=BEGINS_MS, subject=a_content(price=Decimal(1)))
SECOND = replace(
    FIRST, number=2, supersedes=revision_of(FIRST), subject=a_content(price=Decimal(3))
)


def period(number: int, terms: Terms = FIRST, **changes: bool) -> SettlementPeriod:
    from_ms = BEGINS_MS + (number - 1) * DAY_MS
    return SettlementPeriod(
        number=number, from_ms=from_ms, to_ms=from_ms + DAY_MS, terms=terms, **changes
    )


def hour(at: int) -> Range:
    from_us = BEGINS_MS * 1_000 + at * CUT_US
    return Range(from_us, from_us + CUT_US)


def rows(count: int, content: int = 1) -> Digest:
    return Digest(count, count * content, content) if count else Digest(0, 0, 0)


def stated(
    counts: dict[int, Digest], number: int = 1, terms: Terms = FIRST,
    changes: Sequence[RangeChange] = (),
) -> Statement:  # fmt: skip
    ranges = [BilledRange(range=hour(at), digest=digest) for at, digest in counts.items()]
    return content_statement(period(number, terms), ranges, changes)


def change(at: int, before: Digest, after: Digest) -> RangeChange:
    return RangeChange(period=1, range=hour(at), stated=before, digest=after, price=Decimal(1))


def corrections(statement: Statement) -> list[tuple[int, Decimal]]:
    return [
        (charge.from_us, charge.amount)
        for charge in statement.charges
        if charge.kind is ChargeKind.CORRECTION
    ]


def active(second_ms: int | None) -> tuple[ActiveRevision, ActiveRevision]:
    return (
        ActiveRevision(terms=FIRST, active_from_ms=BEGINS_MS),
        ActiveRevision(terms=SECOND, active_from_ms=second_ms),
    )


# Which revision a period is stated under


def under_claimed_revision(
    claimed: Statement, own: Statement, revisions: Sequence[ActiveRevision]
) -> Statement:
    """The payer's statement as it is answered."""
    period = period_under_claimed_revision(claimed, own, revisions)
    return own if period is None else repriced(own, period)


def test_the_payer_states_under_the_revision_of_the_provider_that_became_active_nearby() -> None:
    own, claimed = stated({1: rows(4)}), stated({1: rows(4)}, terms=SECOND)
    near = under_claimed_revision(claimed, own, active(BEGINS_MS + SLACK_MS))
    assert near == claimed
    assert compare_statements(claimed, near).differences == ()


@pytest.mark.parametrize("second_ms", [BEGINS_MS + SLACK_MS + 1, BEGINS_MS - SLACK_MS - 1, None])
def test_a_revision_that_was_not_active_nearby_is_not_taken(second_ms: int | None) -> None:
    own, claimed = stated({1: rows(4)}), stated({1: rows(4)}, terms=SECOND)
    assert under_claimed_revision(claimed, own, active(second_ms)) == own


def test_a_revision_that_the_payer_never_agreed_on_is_not_taken() -> None:
    other = replace(SECOND, subject=a_content(price=Decimal(100)))
    own, claimed = stated({1: rows(4)}), stated({1: rows(4)}, terms=other)
    assert under_claimed_revision(claimed, own, active(BEGINS_MS)) == own


def test_a_statement_of_the_same_revision_stays_as_it_is() -> None:
    own = stated({1: rows(4)})
    assert under_claimed_revision(stated({1: rows(5)}), own, active(BEGINS_MS)) is own


def test_a_price_per_period_is_stated_for_the_whole_period_of_the_taken_revision() -> None:
    by_period = replace(SECOND, subject=a_content(price=Decimal(50), per=BillingUnit.PERIOD))
    revisions = (active(None)[0], ActiveRevision(terms=by_period, active_from_ms=BEGINS_MS))
    claimed = stated({1: rows(4)}, terms=by_period)
    assert under_claimed_revision(claimed, stated({1: rows(4)}), revisions).total == 50


# Corrections


def test_a_correction_that_leads_to_the_held_rows_is_agreed_on() -> None:
    before, after = rows(10), rows(12)
    claimed = stated({30: rows(1)}, 2, changes=[change(1, before, after)])
    own = stated({30: rows(1)}, 2)  # the payer stated the revised rows at once
    again = with_agreed_corrections(
        claimed, own, {hour(1).from_us: digest_text(before)}, {hour(1).from_us: digest_text(after)}
    )
    assert again == claimed


def test_a_correction_to_other_rows_than_the_held_ones_is_not_agreed_on() -> None:
    claimed = stated({30: rows(1)}, 2, changes=[change(1, rows(10), rows(12))])
    own = stated({30: rows(1)}, 2)
    held = {hour(1).from_us: digest_text(rows(11))}
    assert with_agreed_corrections(claimed, own, {}, held) == own
    assert with_agreed_corrections(claimed, own, {}, {}) == own


def test_a_correction_that_takes_all_rows_away_is_agreed_on_where_none_is_held() -> None:
    claimed = stated({}, 2, changes=[change(1, rows(10), rows(0))])
    assert with_agreed_corrections(claimed, stated({}, 2), {}, {}) == claimed


def test_a_correction_of_the_payers_to_what_was_claimed_before_is_none() -> None:
    claimed = stated({30: rows(1)}, 2)
    mine = [change(1, rows(9), rows(10)), change(2, rows(5), rows(6))]
    own = stated({30: rows(1)}, 2, changes=mine)
    earlier = {hour(1).from_us: digest_text(rows(10)), hour(2).from_us: digest_text(rows(5))}
    again = with_agreed_corrections(claimed, own, earlier, {})
    assert corrections(again) == [(hour(2).from_us, Decimal(1))]


def test_records_are_never_taken_over_from_the_provider() -> None:
    claimed, own = stated({1: rows(100)}), stated({1: rows(10)})
    held = {hour(1).from_us: digest_text(rows(100))}
    assert with_agreed_corrections(claimed, own, {}, held) == own


def test_the_charges_are_in_order_after_corrections_are_taken_over() -> None:
    changes = [change(at, rows(2), rows(3)) for at in (7, 1, 4)]
    claimed = stated({30: rows(1)}, 2, changes=changes)
    held = {hour(at).from_us: digest_text(rows(3)) for at in (7, 1, 4)}
    own = stated({30: rows(1)}, 2, changes=[change(5, rows(1), rows(4))])
    keys = [charge.key for charge in with_agreed_corrections(claimed, own, {}, held).charges]
    assert keys == sorted(keys)
    assert len(keys) == 5


# The end of a dispute


def test_the_last_statement_that_names_a_range_says_what_is_claimed_of_it() -> None:
    first = stated({1: rows(10), 2: rows(5)})
    second = stated({30: rows(1)}, 2, changes=[change(1, rows(10), rows(12))])
    assert claimed_digests([first, second]) == {
        hour(1).from_us: digest_text(rows(12)),
        hour(2).from_us: digest_text(rows(5)),
        hour(30).from_us: digest_text(rows(1)),
    }


def test_charges_that_are_not_of_rows_claim_none() -> None:
    by_period = replace(FIRST, subject=a_content(per=BillingUnit.PERIOD))
    assert claimed_digests([stated({}, terms=by_period)]) == {}


def test_a_dispute_ends_once_every_range_is_held_as_it_is_claimed() -> None:
    comparison = compare_statements(
        stated({1: rows(10), 2: rows(6), 3: rows(1)}), stated({1: rows(9), 3: rows(1)})
    )
    claimed = {hour(1).from_us: digest_text(rows(10)), hour(2).from_us: digest_text(rows(6))}
    assert is_explained(comparison, claimed, claimed)
    assert is_explained(comparison, {}, {})
    assert not is_explained(comparison, claimed, {})
    for at, other in ((1, rows(9)), (2, rows(0))):
        held = claimed | {hour(at).from_us: digest_text(other)}
        assert not is_explained(comparison, claimed, held)


def test_a_dispute_about_a_price_does_not_end_by_rows() -> None:
    by_period = replace(FIRST, subject=a_content(price=Decimal(50), per=BillingUnit.PERIOD))
    comparison = compare_statements(stated({}, terms=by_period), stated({}))
    assert comparison.blocked == 50
    assert not is_explained(comparison, {}, {})


# When a period is over


@pytest.mark.parametrize("here", [ALPHA, BETA])
@pytest.mark.parametrize("is_last", [True, False])
def test_a_period_is_over_when_its_time_has_passed_and_its_stream_is_final(
    here: Participant, is_last: bool
) -> None:
    one = period(1, is_last=is_last)
    assert is_over(one, here, one.to_ms, one.range.to_us)
    assert not is_over(one, here, one.to_ms - 1, one.range.to_us)
    assert not is_over(one, here, one.to_ms, one.range.to_us - 1)


@pytest.mark.parametrize(
    ("here", "is_last", "late_ms", "over"),
    [
        (ALPHA, True, LAST_ROWS_MS, True),
        (ALPHA, True, LAST_ROWS_MS - 1, False),
        (ALPHA, False, LAST_ROWS_MS, False),
        (BETA, True, LAST_ROWS_MS, False),
    ],
)
def test_the_payer_alone_states_the_last_period_without_its_last_rows_after_an_hour(
    here: Participant, is_last: bool, late_ms: int, over: bool
) -> None:
    one = period(1, is_last=is_last)
    clock_ms = one.to_ms + late_ms
    assert is_over(one, here, clock_ms, one.range.from_us) is over
