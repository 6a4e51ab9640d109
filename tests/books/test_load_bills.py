"""Moved load is billed in both homes by the rows that both hold, and a loss costs the penalty."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import pytest

from medusa_core.names import Participant
from tests.agreements.building import ALPHA, BETA
from tests.books.lending import Lending
from tests.books.trade import A_DAY, at_us

HOUR_US = Decimal(3_600_000_000)


def D(text: str) -> Decimal:  # noqa: N802 - an amount as it is written
    return Decimal(text)


def cost(price: str, seen: int, counted: int) -> Decimal:
    """By the reference of the contract: 2 us a record read, 500.5 us a record written."""
    exact = D(price) * (2 * seen + D("500.5") * counted) / HOUR_US
    return exact.quantize(D("0.000001"), ROUND_HALF_EVEN)


def a_day(lending: Lending, number: int = 1) -> None:
    """Rows of a day: 1,000,000 records are read an hour, of which 2,000 rows are made."""
    hours = range(0, A_DAY, 60)
    lending.line("seen", 0, A_DAY, dict.fromkeys(hours, 1_000_000))
    lending.line("counted", 0, A_DAY, dict.fromkeys(hours, 2_000), replica=number)


def test_what_a_moved_fragment_reads_and_writes_is_billed_by_reference(lending: Lending) -> None:
    lending.lend()
    lending.move(1, 60, 180)
    a_day(lending)
    lending.settle()
    owed = 2 * cost("1.5", 1_000_000, 2_000)
    assert owed > D("0.002")
    assert lending.bills(lending.beta)[0] == (1, "beta", "settled", owed, owed, 0)
    assert [bill[:4] for bill in lending.bills(lending.alpha)[:2]] == [
        (1, "alpha", "settled", owed), (1, "beta", "settled", owed),
    ]  # fmt: skip
    assert lending.accounts(lending.beta) == {"partner": owed, "revenue": -owed}
    assert lending.accounts(lending.alpha) == {"cost": owed, "partner": -owed}
    first = lending.charges()[0]
    assert first[:5] == ["load", "1/net/main", 1, at_us(60), at_us(60) + 288_000_000]
    assert first[5:7] == ["3.001", "1.5"], "seconds of CPU, at the price of the move"
    lending.check_books()


def test_nothing_is_billed_before_the_release_and_behind_the_return(lending: Lending) -> None:
    lending.lend()
    lending.move(1, 61, 120)
    a_day(lending)
    lending.settle()
    assert {bill[2:4] for bill in lending.bills(lending.beta)} == {("nothing owed", 0)}


def test_a_move_that_goes_on_is_billed_in_each_period(lending: Lending) -> None:
    lending.lend()
    lending.move(1, A_DAY - 60)
    lending.line("seen", 0, 2 * A_DAY, {A_DAY - 60: 10**6, A_DAY: 3 * 10**6, A_DAY + 1: 10**6})
    lending.line("counted", 0, 2 * A_DAY, {A_DAY: 7}, replica=1)
    lending.acknowledge(1, 2 * A_DAY)
    lending.settle()
    assert [bill[3] for bill in lending.bills(lending.beta)][:2] == [
        cost("1.5", 10**6, 0), cost("1.5", 4 * 10**6, 7),
    ]  # fmt: skip


def test_each_move_has_its_own_price(lending: Lending) -> None:
    lending.lend()
    lending.move(1, 0, 60, price="1")
    lending.move(2, 60, 120, price="2")
    a_day(lending)
    lending.line("counted", 0, A_DAY, {60: 5}, replica=2)
    lending.settle()
    expected = cost("1", 10**6, 2_000) + cost("2", 10**6, 5)
    assert lending.bills(lending.alpha)[0][3] == expected
    assert [charge[1] for charge in lending.charges()] == ["1/net/main", "2/net/main"]


ACTIVE = """UPDATE medusa_market.contract_activation
    SET activated_at = to_timestamp(:at_s) WHERE number = :number"""


@pytest.mark.parametrize(
    ("late_s", "state"), [(1_800, "settled"), (2 * 3_600, "disputed")], ids=["nearby", "later"]
)
def test_a_payer_states_load_again_under_the_revision_that_its_provider_has_stated_nearby(
    lending: Lending, late_s: int, state: str
) -> None:
    lending.lend()
    lending.revise_reference(["main/seen=3", "main/counted=600"])
    for home, after_s in ((BETA, 0), (ALPHA, late_s)):
        for number, at_s in ((1, 0), (2, at_us(A_DAY) // 10**6 + after_s)):
            lending.execute(home, ACTIVE, number=number, at_s=at_s)
    lending.move(1, A_DAY)
    lending.line("seen", 0, 2 * A_DAY, {A_DAY: 10**6, A_DAY + 700: 10**6})
    lending.line("counted", 0, 2 * A_DAY, {A_DAY + 9: 2_000}, replica=1)
    lending.acknowledge(1, 2 * A_DAY)
    lending.settle()
    exact = D("1.5") * (3 * 2 * 10**6 + 600 * 2_000) / HOUR_US
    claimed = next(bill for bill in lending.bills(lending.beta) if bill[:2] == (2, "beta"))
    assert claimed[2] == state
    assert abs(claimed[3] - exact) < D("0.00001")
    if state == "settled":
        assert claimed[4] == claimed[3]
    lending.check_books()


def test_a_fragment_without_a_reference_is_not_billed(lending: Lending) -> None:
    lending.lend(["other/seen=9"])
    lending.move(1, 0, 60)
    a_day(lending)
    lending.settle()
    assert lending.bills(lending.beta)[0][2:4] == ("nothing owed", 0)


@pytest.mark.parametrize(
    ("altered", "blocked"),
    [
        ({60: 10**6 + 1}, "0.000000"),  # 2 us of CPU cost less than the last digit, and are found
        ({60: 10**6 * 101 // 100}, "0.000009"),
        ({}, None),
    ],
)
def test_a_provider_that_overstates_what_it_read_is_found_and_blocked_by_amount(
    lending: Lending, altered: dict[int, int], blocked: str | None
) -> None:
    lending.lend()
    lending.move(1, 0, A_DAY)
    lending.line("seen", 0, 60, {0: 10**6})
    lending.line("seen", 60, A_DAY, {60: 10**6}, homes=(ALPHA,))
    lending.line("seen", 60, A_DAY, altered, homes=(BETA,))
    lending.line("counted", 0, A_DAY, {60: 2_000}, replica=1)
    lending.settle()
    for party in (lending.alpha, lending.beta):
        ((found, from_us, to_us),) = party.sql(
            "SELECT blocked, from_us, to_us FROM medusa_api.bill_disputes"
        )
        assert from_us <= at_us(60) < to_us
        assert to_us - from_us <= 8 * 60_000_000
        whole = cost("1.5", 10**6, 2_000) - cost("1.5", 0, 2_000)
        assert found == (whole if blocked is None else D(blocked))
    lending.check_books()


def test_a_dropped_segment_of_the_result_is_found(lending: Lending) -> None:
    lending.lend()
    lending.move(1, 0, A_DAY)
    a_day(lending)
    lending.execute(ALPHA, "DELETE FROM medusa.segment WHERE from_us > 0 AND row_count = 48000")
    lending.settle()
    ((state, agreed, blocked),) = lending.alpha.sql(
        "SELECT state, agreed, blocked FROM medusa_api.bill_disputes"
    )
    assert state == "open"
    assert blocked > 20 * cost("1.5", 0, 2_000)
    assert agreed > 0
    lending.check_books()


@pytest.mark.parametrize("is_own_loss", [True, False])
def test_the_loss_of_a_provider_costs_the_penalty_which_it_may_dispute(
    lending: Lending, is_own_loss: bool
) -> None:
    lending.lend()
    lending.move(1, 0, 60, lost=60, is_own_loss=is_own_loss)
    a_day(lending)
    lending.settle()
    earned = cost("1.5", 10**6, 2_000)
    if is_own_loss:
        assert lending.bills(lending.beta)[0][2:] == ("settled", earned - 5, earned - 5, 0)
    else:
        assert lending.bills(lending.beta)[0][2:] == ("disputed", earned, earned, 5)
        lending.end_dispute("load_of_alpha", 1, "own")
        lending.settle()
    assert lending.accounts(lending.beta) == {
        "partner": earned - 5, "penalty": D("5"), "revenue": -earned,
    }  # fmt: skip
    assert lending.accounts(lending.alpha)["penalty"] == -5
    lending.check_books()


@pytest.mark.parametrize("counts_first", [(ALPHA,), (BETA,), (ALPHA, BETA), ()])
def test_what_was_counted_before_the_end_of_a_move_was_known_is_not_billed_behind_it(
    lending: Lending, counts_first: tuple[Participant, ...]
) -> None:
    lending.lend()
    lending.move(1, 0)
    lending.line("seen", 0, 120, dict.fromkeys(range(120), 10**6))
    lending.line("counted", 0, 117, {3: 2_000, 116: 7}, replica=1)
    lending.line("seen", 120, 170, {120: 9, 169: 5}, homes=(BETA,))
    lending.line("counted", 117, 170, {118: 3, 169: 5}, homes=(BETA,), replica=1)
    lending.look(*(party for party in (lending.alpha, lending.beta) if party.name in counts_first))
    lending.ends(1, 117)
    lending.settle()
    states = {bill[2] for bill in lending.bills(lending.alpha) if bill[0] == 1}
    assert states == {"settled"}
    assert sum(D(charge[5]) for charge in lending.charges()) == 117 * 2 + D("500.5") * D("0.002007")


def test_a_provider_states_no_results_of_a_move_that_goes_on_before_they_are_acknowledged(
    lending: Lending,
) -> None:
    lending.lend()
    lending.move(1, 0)
    lending.line("seen", 0, A_DAY, dict.fromkeys(range(A_DAY), 10**6))
    lending.line("counted", 0, A_DAY, {3: 2_000}, replica=1, homes=(BETA,))
    lending.settle()
    assert lending.bills(lending.beta) == []
    lending.acknowledge(1, A_DAY - 1)
    lending.settle()
    assert lending.bills(lending.beta) == [], "the payer may still take the last bucket back"
    lending.line("counted", 0, 117, {3: 2_000}, replica=1, homes=(ALPHA,))
    lending.ends(1, 117)
    lending.settle()
    assert {bill[2] for bill in lending.bills(lending.alpha) if bill[0] == 1} == {"settled"}
    assert lending.alpha.sql("SELECT 1 FROM medusa_api.bill_disputes") == []


def test_a_provider_waits_for_the_release_also_of_a_move_that_it_has_ended(
    lending: Lending,
) -> None:
    lending.lend()
    lending.move(1, None, state="ended")
    a_day(lending)
    lending.settle()
    assert lending.bills(lending.beta) == []
    lending.execute(BETA, "UPDATE medusa_market.move SET payer_has_ended = true")
    lending.settle()
    assert lending.bills(lending.beta)[0][:4] == (1, "beta", "nothing owed", 0)


def test_a_hundred_moves_of_a_period_are_stated_to_the_last_digit(lending: Lending) -> None:
    lending.lend()
    expected = Decimal(0)
    a_day(lending, 101)
    for number in range(1, 101):
        lending.move(number, 10 * number, 10 * number + 10, price=f"{1 + number / 100}")
        lending.line("counted", 0, A_DAY, {10 * number: number, 10 * number + 9: 1}, replica=number)
        seen = 10**6 if number % 6 == 0 else 0
        expected += sum(
            cost(f"{1 + number / 100}", read, written) for read, written in ((seen, number), (0, 1))
        )
    lending.settle()
    assert len(lending.charges()) == 100
    ((total,),) = lending.beta.sql(
        "SELECT total FROM medusa_api.bills WHERE period = 1 AND state = 'settled'"
    )
    assert abs(total - expected) < D("0.0002"), "but for the rounding of joined ranges"
    assert {bill[2] for bill in lending.bills(lending.alpha)[:2]} == {"settled"}
    lending.check_books()
