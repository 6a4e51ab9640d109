"""Statements of random histories: both homes agree to the last digit, and what differs is found."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.digest import Digest
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.market.bill_answers import bill_answer
from medusa_core.market.bill_comparison import AnswerOutcome, compare_statements
from medusa_core.market.bill_statements import (
    BilledRange,
    ChargeKind,
    RangeChange,
    Statement,
    content_statement,
    repriced,
    statement_document,
    statement_from,
    statement_id,
)
from medusa_core.market.books import Account, net_balances, payment_entry
from medusa_core.market.documents import revision_of
from medusa_core.market.money import amount_of, share_of, total_of
from medusa_core.market.settlement_periods import (
    SLACK_MS,
    ActiveRevision,
    SettlementPeriod,
    is_acceptable,
    next_period,
)
from medusa_core.market.terms import BillingUnit, Terms
from tests.agreements.building import ALPHA, BETA, DAY_MS, a_content, some_terms
from tests.sweeps import examples

BEGINS_MS = 1_704_067_200_000
CUT_US = 432_000_000
PRICES = st.decimals("0.000001", "9999", places=6)
COUNTS = st.dictionaries(st.integers(0, 199), st.integers(1, 10**12), max_size=30)


def terms_at(price: Decimal, per: BillingUnit = BillingUnit.RECORD, **changes: object) -> Terms:
    content = a_content(price=price, per=per)
    given_ = {"valid_from_ms": BEGINS_MS, "subject": content} | changes
    return some_terms(**given_)


def a_period(terms: Terms, number: int = 1) -> SettlementPeriod:
    begins_ms = BEGINS_MS + (number - 1) * DAY_MS
    return SettlementPeriod(number=number, from_ms=begins_ms, to_ms=begins_ms + DAY_MS, terms=terms)


def ranges(counts: dict[int, int], seed: int = 1) -> list[BilledRange]:
    return [
        BilledRange(range=range_at(at), digest=Digest(rows, rows * 7 + at * seed, rows * 11 + at))
        for at, rows in counts.items()
    ]


def range_at(at: int) -> Range:
    return Range(BEGINS_MS * 1_000 + at * CUT_US, BEGINS_MS * 1_000 + (at + 1) * CUT_US)


def stated(counts: dict[int, int], terms: Terms, seed: int = 1) -> Statement:
    return content_statement(a_period(terms), ranges(counts, seed))


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(counts=COUNTS, price=PRICES, order=st.randoms())
def test_the_same_rows_give_the_same_bytes_in_any_order(counts, price, order) -> None:  # type: ignore[no-untyped-def]
    terms = terms_at(price)
    shuffled = list(counts.items())
    order.shuffle(shuffled)
    with localcontext(prec=5):  # what the thread computes with makes no difference
        other = stated(dict(shuffled), terms)
    one = stated(counts, terms)
    assert statement_document(one) == statement_document(other)
    assert statement_from(statement_document(one)) == one
    assert one.total == sum(Decimal(rows) * price for rows in counts.values())
    assert compare_statements(one, other).differences == ()


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(counts=COUNTS, own=COUNTS, price=PRICES, paid=PRICES)
def test_books_of_both_homes_mirror_each_other_and_sum_to_zero(counts, own, price, paid) -> None:  # type: ignore[no-untyped-def]
    terms = terms_at(price)
    comparison = compare_statements(stated(counts, terms), stated(own, terms))
    outcomes = [comparison.outcome]
    if comparison.differences:
        outcomes.append(AnswerOutcome.CLAIMED if len(own) % 2 else AnswerOutcome.OWN)
    books = {home: [] for home in (ALPHA, BETA)}
    for home, entries in books.items():
        for outcome in outcomes:
            entries += bill_answer(home, comparison, outcome).entries
        partner = BETA if home == ALPHA else ALPHA
        entries.append(payment_entry("p", partner, "EUR", paid, is_received=home == BETA))
        assert len({entry.key for entry in entries}) == len(entries)
        for entry in entries:
            assert total_of(one.amount for one in entry.postings) == 0
            assert {one.account for one in entry.postings} != {Account.PARTNER}
    (at_payer,), (at_provider,) = net_balances(books[ALPHA]), net_balances(books[BETA])
    assert at_payer.amount == -at_provider.amount
    owed = bill_answer(ALPHA, comparison, outcomes[-1]).amount
    assert at_provider.amount == total_of((owed, -paid))


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(counts=COUNTS, price=PRICES, data=st.data())
def test_one_altered_row_count_is_found_named_and_blocked(counts, price, data) -> None:  # type: ignore[no-untyped-def]
    at = data.draw(st.sampled_from(sorted(counts or {3: 5})))
    counts = counts or {3: 5}
    more = data.draw(st.integers(1, 1_000))
    terms = terms_at(price)
    claimed = stated(counts | {at: counts[at] + more}, terms)
    comparison = compare_statements(claimed, stated(counts, terms))
    (found,) = comparison.differences
    assert Range(found.from_us, found.to_us) == range_at(at)
    assert comparison.blocked == more * price
    answer = bill_answer(BETA, comparison, AnswerOutcome.DISPUTED)
    assert answer.amount == claimed.total - more * price


def test_an_overstatement_of_one_percent_blocks_one_percent() -> None:
    terms = terms_at(Decimal("0.002"))
    own = dict.fromkeys(range(200), 100)
    claimed = dict.fromkeys(range(200), 101)
    comparison = compare_statements(stated(claimed, terms), stated(own, terms))
    assert comparison.blocked == Decimal("0.4")
    assert comparison.differences[0].from_us == range_at(0).from_us
    assert bill_answer(ALPHA, comparison, AnswerOutcome.DISPUTED).amount == Decimal(40)


def test_the_first_segment_that_differs_is_named() -> None:
    terms = terms_at(Decimal(1))
    claimed, own = {5: 1, 9: 2, 30: 4}, {5: 1, 9: 1, 30: 1}
    answer = bill_answer(
        ALPHA, compare_statements(stated(claimed, terms), stated(own, terms)),
        AnswerOutcome.DISPUTED,
    )  # fmt: skip
    assert answer.segment == (range_at(9).from_us, range_at(9).to_us)
    assert answer.blocked == 4


def test_as_many_records_of_another_content_are_blocked_whole() -> None:
    terms = terms_at(Decimal(2))
    comparison = compare_statements(stated({1: 5, 2: 3}, terms), stated({1: 5, 2: 3}, terms, 9))
    assert comparison.blocked == 16
    assert bill_answer(ALPHA, comparison, AnswerOutcome.DISPUTED).amount == 0


def test_a_credit_is_agreed_on_as_far_as_both_give_it() -> None:
    terms = terms_at(Decimal(1))

    def credit(rows: int) -> Statement:
        change = RangeChange(period=1, range=range_at(1), stated=Digest(10, 1, 1),
                             digest=Digest(10 - rows, 1, rows), price=Decimal(1))  # fmt: skip
        return content_statement(a_period(terms, 2), (), [change])

    comparison = compare_statements(credit(3), credit(5))
    assert comparison.blocked == 2
    answer = bill_answer(ALPHA, comparison, AnswerOutcome.DISPUTED)
    assert answer.amount == -3
    assert [entry.kind.value for entry in answer.entries] == ["correction"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("total", "1"), ("period", 0.5), ("charges", []), ("payer", "x y"), ("format", "x")],
)
def test_an_altered_document_is_refused(field: str, value: object) -> None:
    document = json.loads(statement_document(stated({1: 2, 3: 4}, terms_at(Decimal(1)))))
    text = json.dumps(document | {field: value}, sort_keys=True, separators=(",", ":"))
    with pytest.raises(Refused):
        statement_from(text.encode())


@pytest.mark.parametrize(("at", "value"), [(5, "NaN"), (6, "-0"), (7, "3"), (5, "1E+2"), (3, 2.5)])
def test_an_altered_charge_is_refused(at: int, value: object) -> None:
    document = json.loads(statement_document(stated({1: 2}, terms_at(Decimal(1)))))
    document["charges"][0][at] = value
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    with pytest.raises(Refused):
        statement_from(text.encode())


def test_amounts_are_rounded_half_to_even_at_six_places() -> None:
    assert amount_of(Decimal("0.5"), Decimal("0.000001")) == 0
    assert amount_of(Decimal("1.5"), Decimal("0.000001")) == Decimal("0.000002")
    assert share_of(1, 3) == Decimal("0.333333333333")


def test_the_largest_statement_fits_into_a_message() -> None:
    content = a_content(stream="s" * 63, price=Decimal("999999999999.999999"))
    terms = some_terms(valid_from_ms=BEGINS_MS, subject=content)
    changes = [
        RangeChange(period=10**12, range=range_at(at), stated=Digest(10**15, 1, 1),
                    digest=Digest(1, 1, at), price=content.price)
        for at in range(48)
    ]  # fmt: skip
    many = content_statement(a_period(terms, 2), ranges(dict.fromkeys(range(200), 10**15)), changes)
    document = statement_document(many)
    assert len(document) < 64 * 1024
    assert len(json.dumps(document.decode())) < 90 * 1024


# Periods and revisions


def periods(*revisions: ActiveRevision, ends_at_ms: int | None = None) -> list[SettlementPeriod]:
    found: list[SettlementPeriod] = []
    while len(found) < 12:
        period = next_period(revisions, found[-1] if found else None, ends_at_ms)
        if period is None:
            break
        found.append(period)
    return found


@settings(max_examples=examples(40, 1_000), deadline=None)
@given(
    settlement_ms=st.integers(1, 3 * DAY_MS),
    later_ms=st.integers(1, 3 * DAY_MS),
    active_ms=st.integers(0, 9 * DAY_MS),
    ends_ms=st.integers(1, 9 * DAY_MS),
)
def test_periods_follow_one_another_and_end_with_the_contract(
    settlement_ms: int, later_ms: int, active_ms: int, ends_ms: int
) -> None:
    first = terms_at(Decimal(1), settlement_ms=settlement_ms)
    second = replace(first, number=2, supersedes=revision_of(first), settlement_ms=later_ms)
    found = periods(
        ActiveRevision(terms=first, active_from_ms=BEGINS_MS + 5),
        ActiveRevision(terms=second, active_from_ms=BEGINS_MS + active_ms),
        ends_at_ms=BEGINS_MS + ends_ms,
    )
    assert found[0].from_ms == BEGINS_MS
    for one, other in itertools.pairwise(found):
        assert one.to_ms == other.from_ms
        assert not one.is_last
    for period in found:
        is_second = period.number > 1 and period.from_ms >= BEGINS_MS + active_ms
        assert period.terms == (second if is_second else first)
        full_ms = period.from_ms + period.terms.settlement_ms
        assert period.to_ms == min(full_ms, BEGINS_MS + ends_ms)
    if len(found) < 12:
        assert found[-1].is_last
        assert found[-1].to_ms == BEGINS_MS + ends_ms


def test_a_period_that_is_cut_short_costs_its_part_of_the_price() -> None:
    terms = terms_at(Decimal(10), BillingUnit.PERIOD)
    (first, last) = periods(
        ActiveRevision(terms=terms, active_from_ms=0), ends_at_ms=BEGINS_MS + DAY_MS * 4 // 3
    )
    assert content_statement(first, ()).total == 10
    assert content_statement(last, ()).total == Decimal("3.333333")
    assert [charge.kind for charge in content_statement(last, ()).charges] == [ChargeKind.PERIOD]


def test_the_payer_takes_the_revision_of_the_provider_near_its_activation_alone() -> None:
    first = terms_at(Decimal(1))
    second = replace(
        terms_at(Decimal(3)), number=2, supersedes=revision_of(first), valid_from_ms=BEGINS_MS
    )
    begins_ms = BEGINS_MS + DAY_MS
    for late_ms, is_taken in ((1, True), (SLACK_MS, True), (SLACK_MS + 1, False)):
        revisions = (
            ActiveRevision(terms=first, active_from_ms=0),
            ActiveRevision(terms=second, active_from_ms=begins_ms + late_ms),
        )
        assert is_acceptable(revisions, second, first, begins_ms) is is_taken
    own = stated({1: 4}, first)
    again = repriced(own, a_period(second))
    assert again == stated({1: 4}, second)
    assert statement_id(again) != statement_id(own)
