"""Statements of moved load: any order gives the same bytes, and every record is paid for once."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.digest import Digest
from medusa_core.grid import Range
from medusa_core.market.bill_comparison import compare_statements
from medusa_core.market.bill_statements import (
    STATEMENT_BYTES_MAX,
    BilledRange,
    ChargeKind,
    statement_document,
    statement_from,
)
from medusa_core.market.load_statements import (
    BilledMove,
    load_statement,
    reference_of,
)
from medusa_core.market.settlement_periods import LAST_ROWS_MS, SettlementPeriod, is_over
from medusa_core.market.terms import Terms
from tests.agreements.building import ALPHA, BETA, DAY_MS, a_movement, some_terms
from tests.sweeps import examples

BEGINS_US = 1_704_067_200_000_000
CUT_US = 432_000_000
DAY_US = DAY_MS * 1_000


def terms_with(*reference: str, bound_ms: int | None = None, **changes: Any) -> Terms:
    subject = a_movement(reference=frozenset(reference) or None, **changes)
    subject = replace(subject, availability=replace(subject.availability, bound_ms=bound_ms))
    return some_terms(valid_from_ms=BEGINS_US // 1_000, subject=subject)


def a_period(terms: Terms) -> SettlementPeriod:
    begins_ms = BEGINS_US // 1_000
    return SettlementPeriod(number=1, from_ms=begins_ms, to_ms=begins_ms + DAY_MS, terms=terms)


def a_move(number: int = 1, from_: int = 0, to: int | None = None, **changes: Any) -> BilledMove:
    given_: dict[str, Any] = {"fragment": "net/main", "price": Decimal("1.5"), "lost_us": None}
    return BilledMove(
        number=number,
        from_us=BEGINS_US + from_ * CUT_US,
        to_us=None if to is None else BEGINS_US + to * CUT_US,
        **(given_ | changes),
    )


def counted(subject: str, cell: int, rows: int) -> BilledRange:
    begins_us = BEGINS_US + cell * CUT_US
    return BilledRange(
        range=Range(begins_us, begins_us + CUT_US),
        digest=Digest(rows, rows * 7 + cell, rows * 11),
        subject=subject,
    )


ROWS = st.lists(
    st.tuples(st.sampled_from(["1/seen", "1/counted", "2/seen"]), st.integers(0, 199),
              st.integers(1, 10**12)),
    max_size=40,
)  # fmt: skip


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(rows=ROWS, order=st.randoms())
def test_the_same_rows_give_the_same_bytes_in_any_order(rows: list[Any], order: Any) -> None:
    period = a_period(terms_with("main/seen=0.8", "main/counted=20.125"))
    moves = [a_move(1), a_move(2, price=Decimal("1.1"))]
    ranges = [counted(*one) for one in rows]
    one = load_statement(period, moves, ranges)
    order.shuffle(ranges)
    with localcontext(prec=5):  # what the thread computes with makes no difference
        other = load_statement(period, moves[::-1], ranges)
    assert statement_document(one) == statement_document(other)
    assert statement_from(statement_document(one)) == one
    cpu_s = {
        name: sum(rows_ for subject, _, rows_ in rows if subject == name)
        for name in ("1/seen", "1/counted", "2/seen")
    }
    paid = {
        number: sum(charge.quantity for charge in one.charges if charge.subject[0] == number)
        for number in "12"
    }
    assert (
        paid["1"] * 1_000_000
        == Decimal("0.8") * cpu_s["1/seen"] + Decimal("20.125") * cpu_s["1/counted"]
    )
    assert paid["2"] * 1_000_000 == Decimal("0.8") * cpu_s["2/seen"]


@settings(max_examples=examples(40, 500), deadline=None)
@given(
    bounds=st.lists(st.tuples(st.integers(-3, 198), st.integers(1, 60)), min_size=1, max_size=140),
    name=st.sampled_from(["net/main", f"{'n' * 63}/{'f' * 63}"]),
)
def test_a_statement_of_many_moves_fits_a_message_and_leaves_nothing_out(
    bounds: list[tuple[int, int]], name: str
) -> None:
    named = f"{name.partition('/')[2]}/seen=1"
    period = a_period(terms_with(named, bound_ms=1_000, penalty=Decimal(5)))
    moves = [
        a_move(at, from_, from_ + cells, fragment=name, lost_us=BEGINS_US + 199 * CUT_US)
        for at, (from_, cells) in enumerate(bounds, 1)
    ]
    ranges = [
        counted(f"{move.number}/seen", cell, 10**6)
        for move, (from_, cells) in zip(moves, bounds, strict=True)
        for cell in range(max(from_, 0), min(from_ + cells, 200))
    ]
    stated = load_statement(period, moves, ranges)
    assert len(statement_document(stated)) <= STATEMENT_BYTES_MAX
    load = [charge for charge in stated.charges if charge.kind is ChargeKind.LOAD]
    assert len(load) <= max(250, len(moves))
    assert sum(charge.quantity for charge in load) == len(ranges)
    assert len(stated.charges) - len(load) == len(moves), "each has lost its provider"
    for charge, move in ((c, m) for c in load for m in moves if c.subject == m.subject):
        assert move.from_us <= charge.from_us < charge.to_us <= (move.to_us or 0)


def test_the_records_of_another_content_are_in_dispute() -> None:
    period, moves = a_period(terms_with("main/seen=1")), [a_move()]
    one = load_statement(period, moves, [counted("1/seen", 3, 5 * 10**9)])
    altered = replace(counted("1/seen", 3, 5 * 10**9), digest=Digest(5 * 10**9, 1, 1))
    other = load_statement(period, moves, [altered])
    assert one.total == other.total
    assert compare_statements(one, other).blocked == one.total > 2


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ((), {}),
        (("main/seen=2",), {"seen": 2_000}),
        (("net.main/seen=0.001", "main/seen=2"), {"seen": 1}),
        (("other.main/seen=2", "first/seen=3"), {}),
        (("main/seen=999999.999", "main/counted=10.5"), {"seen": 999_999_999, "counted": 10_500}),
    ],
)
def test_a_fragment_has_the_reference_that_names_it_most_exactly(
    reference: tuple[str, ...], expected: dict[str, int]
) -> None:
    subject = a_movement(reference=frozenset(reference) or None)
    assert reference_of(subject, "net/main") == expected


@pytest.mark.parametrize(
    ("lost_us", "bound_ms", "penalty", "owed"),
    [
        (BEGINS_US + CUT_US, 1_000, "5", "-5"),
        (0, 1_000, "5", "-5"),  # nothing of it ever came: as of the first bucket
        (BEGINS_US + DAY_US, 1_000, "5", "0"),  # of the next period
        (None, 1_000, "5", "0"),
        (BEGINS_US, None, "5", "0"),  # no bound was promised
        (BEGINS_US, 1_000, "0", "0"),
    ],
)
def test_a_loss_costs_the_penalty_once_where_a_bound_was_promised(
    lost_us: int | None, bound_ms: int | None, penalty: str, owed: str
) -> None:
    terms = terms_with("main/seen=1", bound_ms=bound_ms, penalty=Decimal(penalty))
    stated = load_statement(a_period(terms), [a_move(to=9, lost_us=lost_us)], [])
    assert stated.total == Decimal(owed)
    assert {charge.kind for charge in stated.charges} <= {ChargeKind.PENALTY}
    assert statement_from(statement_document(stated)) == stated


@pytest.mark.parametrize("here", [ALPHA, BETA])
def test_a_period_is_stated_when_its_lines_are_final_or_an_hour_later(here: Any) -> None:
    period = a_period(terms_with("main/seen=1"))
    end_us = period.range.to_us
    assert not is_over(period, here, period.to_ms - 1, end_us)
    assert is_over(period, here, period.to_ms, end_us)
    late_ms = period.to_ms + LAST_ROWS_MS - 1
    assert not is_over(period, here, late_ms, end_us - 1, 2 * LAST_ROWS_MS)
    assert is_over(period, here, period.to_ms + LAST_ROWS_MS, end_us - 1, LAST_ROWS_MS)
    assert not is_over(period, here, period.to_ms + 9 * LAST_ROWS_MS, end_us - 1, 5), "it was away"
