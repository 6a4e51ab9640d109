"""Two homes state a period, agree or dispute, and book the same amounts."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.agreements.building import ALPHA, BETA, SqlRefused
from tests.agreements.test_moves import lend
from tests.books.trade import A_DAY, CONTRACT, Trade, at_us


def D(text: str) -> Decimal:  # noqa: N802 - an amount as it is written
    return Decimal(text)


def test_a_period_is_stated_in_both_homes_and_settled_by_two_signatures(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 3, 700: 5, A_DAY - 1: 2})
    trade.settle()
    assert trade.bills(trade.beta) == [(1, "beta", "settled", D("0.02"), D("0.02"), 0)]
    assert [bill[:4] for bill in trade.bills(trade.alpha)] == [
        (1, "alpha", "settled", D("0.02")),
        (1, "beta", "settled", D("0.02")),
    ]
    assert trade.accounts(trade.beta) == {"partner": D("0.02"), "revenue": D("-0.02")}
    assert trade.accounts(trade.alpha) == {"cost": D("0.02"), "partner": D("-0.02")}
    for party in (trade.alpha, trade.beta):
        signed = party.sql(
            "SELECT party, split_part(statement, ' ', 1) FROM medusa_market.statement "
            "WHERE statement ~ '^(bills|owes) ' ORDER BY party"
        )
        assert signed == [("alpha", "owes"), ("beta", "bills")]
    trade.check_books()
    assert not trade.alpha.told
    assert not trade.beta.told


def test_a_period_is_not_stated_before_its_rows_are_final(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY - 1, {0: 3})
    trade.settle()
    assert trade.bills(trade.beta) == []
    trade.rows(A_DAY - 1, A_DAY, {A_DAY - 1: 1}, stability="tentative")
    trade.settle()
    assert trade.bills(trade.beta) == []


def test_rows_of_gaps_are_not_billed(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, 10, {0: 3})
    trade.rows(10, A_DAY, {}, stability="gap")
    trade.settle()
    assert trade.bills(trade.alpha)[0][:4] == (1, "alpha", "settled", D("0.006"))


@pytest.mark.parametrize(("recovery", "owed"), [("precise", "-9.994"), ("gap", "0.006")])
def test_a_gap_costs_the_penalty_unless_gaps_are_promised(
    trade: Trade, recovery: str, owed: str
) -> None:
    trade.agree(recovery=recovery, penalty="5")
    trade.rows(0, 20, {0: 3})
    trade.rows(20, 30, {}, stability="gap")  # of ranges of eight buckets it touches two
    trade.rows(30, A_DAY, {})
    trade.settle()
    assert trade.bills(trade.alpha)[1][2:5] == ("settled", D(owed), D(owed))
    if recovery == "precise":
        assert trade.accounts(trade.beta) == {
            "partner": D("-9.994"), "penalty": D("10"), "revenue": D("-0.006"),
        }  # fmt: skip
    trade.check_books()


def test_one_altered_row_count_is_named_and_blocked_by_amount(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, 60, {0: 3, 30: 10})
    trade.rows(60, A_DAY, {100: 7}, homes=(ALPHA,))
    trade.rows(60, A_DAY, {100: 9}, homes=(BETA,))
    trade.settle()
    for party in (trade.alpha, trade.beta):
        ((agreed, blocked, from_us, to_us, state),) = party.sql(
            "SELECT agreed, blocked, from_us, to_us, state FROM medusa_api.bill_disputes"
        )
        assert (agreed, blocked, state) == (D("0.04"), D("0.004"), "open")
        assert from_us <= at_us(100) < to_us
        assert to_us - from_us <= 8 * 60_000_000
    assert trade.accounts(trade.beta)["partner"] == D("0.04")
    assert trade.accounts(trade.alpha)["partner"] == D("-0.04")
    trade.check_books()


def test_rows_of_other_content_block_all_of_their_segment(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, 60, {0: 3})
    trade.rows(60, A_DAY, {100: 9}, homes=(ALPHA,), seed=2)
    trade.rows(60, A_DAY, {100: 9}, homes=(BETA,))
    trade.settle()
    dispute = "SELECT agreed, blocked FROM medusa_api.bill_disputes"
    assert trade.alpha.sql(dispute) == trade.beta.sql(dispute) == [(D("0.006"), D("0.018"))]


def test_a_dropped_segment_is_named_and_blocked_by_amount(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, 60, {0: 3, 30: 10})
    trade.rows(60, 120, {70: 50}, homes=(BETA,))
    trade.rows(60, 120, {}, homes=(ALPHA,))
    trade.rows(120, A_DAY, {130: 1})
    trade.settle()
    ((blocked, from_us),) = trade.beta.sql("SELECT blocked, from_us FROM medusa_api.bill_disputes")
    assert blocked == D("0.1")
    assert from_us <= at_us(70) < from_us + 8 * 60_000_000


@pytest.mark.parametrize("outcome", ["claimed", "own"])
def test_a_dispute_ends_with_the_figures_of_the_one_who_did_not_give_up(
    trade: Trade, outcome: str
) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {100: 7}, homes=(ALPHA,))
    trade.rows(0, A_DAY, {100: 9}, homes=(BETA,))
    trade.settle()
    trade.end_dispute(CONTRACT, 1, outcome)
    trade.exchange()
    owed = D("0.018") if outcome == "claimed" else D("0.014")
    for party, sign in ((trade.alpha, -1), (trade.beta, 1)):
        state, found, blocked = party.sql(
            "SELECT d.state, d.owed, b.blocked FROM medusa_api.bill_disputes AS d "
            "JOIN medusa_api.bills AS b USING (contract, period) WHERE b.made_by = 'beta'"
        )[0]
        assert (state, found, blocked) == (outcome, owed, 0)
        assert trade.accounts(party)["partner"] == sign * owed
    trade.check_books()


def test_a_bucket_revised_after_its_period_was_settled_is_corrected_in_the_next(
    trade: Trade,
) -> None:
    trade.agree()
    trade.rows(0, 60, {0: 3, 30: 10})
    trade.rows(60, A_DAY, {100: 7})
    trade.settle()
    trade.revise(0, 60, {0: 3, 30: 4, 31: 1, 50: 1})
    trade.rows(A_DAY, 2 * A_DAY, {A_DAY: 1})
    trade.settle()
    assert trade.bills(trade.beta) == [
        (1, "beta", "settled", D("0.04"), D("0.04"), 0),
        (2, "beta", "settled", D("-0.006"), D("-0.006"), 0),
    ]
    entries = trade.beta.sql(
        "SELECT kind, period, amount FROM medusa_api.books WHERE account = 'partner' "
        "ORDER BY entry_id"
    )
    assert entries == [
        ("statement", 1, D("0.04")), ("statement", 2, D("0.002")), ("correction", 2, D("-0.008")),
    ]  # fmt: skip
    assert trade.accounts(trade.alpha)["partner"] == D("-0.034")
    trade.rows(2 * A_DAY, 3 * A_DAY, {})
    trade.settle()
    assert [b[:2] for b in trade.bills(trade.beta)] == [(1, "beta"), (2, "beta"), (3, "beta")]
    assert trade.bills(trade.beta)[2][2:4] == ("nothing owed", 0)
    trade.check_books()


def test_a_price_per_period_does_not_depend_on_the_records(trade: Trade) -> None:
    trade.agree(price="12.5", per="period")
    trade.rows(0, A_DAY, {3: 1_000}, homes=(ALPHA,))
    trade.rows(0, A_DAY, {3: 1_001}, homes=(BETA,))
    trade.settle()
    assert trade.bills(trade.beta) == [(1, "beta", "disputed", D("12.5"), D("12.5"), 0)]
    assert trade.accounts(trade.alpha)["partner"] == D("-12.5")


def test_payments_of_both_owners_leave_nothing_owed(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 100})
    trade.settle()
    pay = "SELECT medusa_api.record_payment(%s, 'EUR', 0.2, %s, 'bank 17')"
    for _ in range(2):  # the same again is the same payment
        trade.alpha.sql(pay, "beta", "paid")
        trade.beta.sql(pay, "alpha", "received")
    for party in (trade.alpha, trade.beta):
        assert trade.accounts(party)["partner"] == 0
    assert trade.accounts(trade.alpha)["settlement"] == D("-0.2")
    with pytest.raises(SqlRefused, match="of another amount"):
        trade.alpha.sql("SELECT medusa_api.record_payment('beta','EUR',3,'paid','bank 17')")
    trade.check_books()


def test_a_payer_that_imports_rows_and_their_revision_together_owes_the_same_in_the_end(
    trade: Trade,
) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 3, 700: 5}, homes=(BETA,))
    trade.look(trade.beta)
    trade.revise(0, A_DAY, {0: 3, 700: 4}, homes=(BETA,))
    trade.rows(0, A_DAY, {0: 3, 700: 4}, homes=(ALPHA,))
    trade.settle()
    assert trade.bills(trade.beta) == [(1, "beta", "disputed", D("0.016"), D("0.014"), D("0.002"))]
    trade.rows(A_DAY, 2 * A_DAY, {A_DAY: 1})
    trade.settle()
    assert [bill[2] for bill in trade.bills(trade.beta)] == ["settled", "settled"]
    assert trade.accounts(trade.beta)["partner"] == D("0.016")
    trade.check_books()


def test_a_payer_that_follows_a_revision_late_ends_the_dispute_by_itself(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 3, 700: 5}, homes=(ALPHA,))
    trade.look(trade.alpha)
    trade.rows(0, A_DAY, {0: 3, 700: 4}, homes=(BETA,))
    trade.settle()
    assert trade.bills(trade.beta)[0][2] == "disputed"
    trade.revise(0, A_DAY, {0: 3, 700: 4}, homes=(ALPHA,))
    trade.settle()
    assert trade.bills(trade.beta)[0][2] == "settled"
    trade.rows(A_DAY, 2 * A_DAY, {A_DAY: 1})
    trade.settle()
    assert [bill[2] for bill in trade.bills(trade.beta)] == ["settled", "settled"]
    assert trade.accounts(trade.alpha)["partner"] == D("-0.016")
    trade.check_books()


def test_a_movement_contract_without_reference_and_penalty_is_not_billed(trade: Trade) -> None:
    lend(trade.alpha, trade.beta)
    assert [store.billed_contracts() for store in trade.stores.values()] == [(), ()]
    trade.agree()
    assert [len(store.billed_contracts()) for store in trade.stores.values()] == [1, 1]
