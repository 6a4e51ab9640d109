"""Nobody changes the books, and nothing is lost by trimming or by a message that comes wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from medusa_core.market.bill_messages import bills_sentence
from medusa_core.market.bill_statements import statement_document, statement_from, statement_id
from medusa_core.market.envelopes import EnvelopeKind, statement_bytes
from pipelines.base.failpoints import AGREEMENT_POINTS, SETTLEMENT_POINTS, visited_by
from tests.agreements.building import ALPHA, BETA, SqlRefused, a_key
from tests.agreements.test_crashes import Killed
from tests.agreements.test_envelopes import an_envelope, put
from tests.books.trade import A_DAY, CONTRACT, Trade, at_us
from tests.sweeps import long_but

TABLES = ("bill", "bill_answer", "payment", "book_entry", "book_posting")
TRIM = "SELECT medusa.trim_line('sums', 'beta', 0, %s, '{}', 1000, false)"
BOOKED = "SELECT kind, period, account, amount FROM medusa_api.books ORDER BY period, kind, account"


def D(text_: str) -> Decimal:  # noqa: N802 - an amount as it is written
    return Decimal(text_)


@pytest.mark.parametrize("table", TABLES)
def test_nobody_but_a_superuser_changes_the_books(trade: Trade, table: str) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 100})
    trade.settle()
    trade.beta.sql("SELECT medusa_api.record_payment('alpha', 'EUR', 0.2, 'received', 'b')")
    for role in ("owner", "job", "analyst", "airflow", "exchange"):
        for verb in (f"DELETE FROM medusa_market.{table}", f"TRUNCATE medusa_market.{table}",
                     f"UPDATE medusa_market.{table} SET partner = 'x'"
                     if table in ("payment", "book_entry")
                     else f"UPDATE medusa_market.{table} SET {COLUMN[table]} = NULL"):  # fmt: skip
            with pytest.raises(SqlRefused) as refused:
                trade.beta.sql(verb, role=role)
            assert refused.value.code == "42501"
    # The triggers refuse whoever has the right.
    same = f"{COLUMN[table]} = {COLUMN[table]}"
    for verb in (f"DELETE FROM medusa_market.{table}", f"TRUNCATE medusa_market.{table} CASCADE",
                 f"UPDATE medusa_market.{table} SET {same}"):  # fmt: skip
        with (
            trade.watchers[BETA].connect() as watcher,
            pytest.raises(DatabaseError, match="insert-only"),
        ):
            watcher.execute(text(verb))


COLUMN = {"bill": "total", "bill_answer": "amount", "payment": "amount", "book_entry": "currency",
          "book_posting": "amount"}  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            ("INSERT INTO medusa_market.book_posting SELECT entry_id, account, 1 FROM made, "
            "(VALUES ('penalty'), ('cost')) AS a (account)"),
            "has 2 postings, which sum to 2",
        ),
        ("INSERT INTO medusa_market.book_posting SELECT entry_id, 'penalty', 1 FROM made",
         "has 1 postings"),
        ("SELECT 1", "has 0 postings"),
    ],
)  # fmt: skip
def test_an_entry_that_does_not_sum_to_zero_is_refused(
    trade: Trade, statement: str, problem: str
) -> None:
    entry = (
        "WITH p AS (INSERT INTO medusa_market.payment (partner, currency, amount, is_received, "
        "reference) VALUES ('alpha', 'EUR', 1, true, 'x') RETURNING payment_id), made AS ("
        "INSERT INTO medusa_market.book_entry (key, kind, partner, currency, payment_id) "
        "SELECT 'k', 'payment', 'alpha', 'EUR', payment_id FROM p RETURNING entry_id) "
    )
    with trade.watchers[BETA].connect() as watcher, pytest.raises(DatabaseError, match=problem):
        watcher.execute(text(entry + statement))


def test_postings_are_not_added_to_an_earlier_entry(trade: Trade) -> None:
    trade.beta.sql("SELECT medusa_api.record_payment('alpha', 'EUR', 0.2, 'received', 'b')")
    add = (
        "INSERT INTO medusa_market.book_posting SELECT e.entry_id, a.account, a.amount FROM "
        "medusa_market.book_entry AS e, (VALUES ('cost', 1), ('revenue', -1)) "
        "AS a (account, amount)"
    )
    with (
        trade.watchers[BETA].connect() as watcher,
        pytest.raises(DatabaseError, match="was made before"),
    ):
        watcher.execute(text(add))


def test_rows_that_are_counted_may_be_trimmed_and_no_others(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, 60, {0: 3, 30: 10})
    trade.look()
    trade.rows(60, A_DAY, {100: 7})
    for party in (trade.alpha, trade.beta):
        ((answer,),) = party.sql(TRIM, at_us(A_DAY), role="job")
        assert answer["trimmed_us"] == at_us(60)
        assert answer["held_by"]["purpose"] == "billing"
    trade.settle()
    for party in (trade.alpha, trade.beta):
        ((answer,),) = party.sql(TRIM, at_us(A_DAY), role="job")
        assert answer["trimmed_us"] == at_us(A_DAY)
    assert trade.bills(trade.beta) == [(1, "beta", "settled", D("0.04"), D("0.04"), 0)]


@pytest.mark.parametrize("home", [ALPHA, BETA])
def test_a_revision_that_is_not_counted_yet_is_held(trade: Trade, home: str) -> None:
    trade.agree()
    trade.rows(0, 60, {0: 3})
    trade.rows(60, A_DAY, {100: 7})
    trade.settle()
    trade.revise(0, 60, {0: 2})
    party = trade.alpha if home == ALPHA else trade.beta
    ((answer,),) = party.sql(TRIM, at_us(A_DAY), role="job")
    assert answer["trimmed_us"] is None
    trade.look()
    ((answer,),) = party.sql(TRIM, at_us(A_DAY), role="job")
    assert answer["trimmed_us"] == at_us(A_DAY)
    trade.rows(A_DAY, 2 * A_DAY, {})
    trade.settle()
    assert trade.bills(trade.beta)[1][:4] == (2, "beta", "settled", D("-0.002"))


def test_messages_that_are_lost_doubled_and_reordered_change_nothing(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 100})
    trade.beta.post.cut = {ALPHA}
    trade.settle()
    assert trade.bills(trade.alpha)[0][2] == "own"
    trade.beta.post.cut = set()
    trade.settle()
    seen = [*trade.beta.post.seen, *trade.alpha.post.seen]
    before = [party.sql(BOOKED) for party in (trade.alpha, trade.beta)]
    for _ in range(2):
        for envelope in reversed(seen):
            sender = trade.beta if envelope.sender == BETA else trade.alpha
            sender.post.exchange.deliver(envelope.receiver, (envelope,))
        trade.settle()
    assert [party.sql(BOOKED) for party in (trade.alpha, trade.beta)] == before
    assert trade.bills(trade.beta) == [(1, "beta", "settled", D("0.2"), D("0.2"), 0)]


def test_a_second_statement_of_a_period_and_a_forged_one_are_refused(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 100})
    trade.settle()
    ((document,),) = trade.beta.sql("SELECT document FROM medusa_market.bill")
    own = statement_from(bytes(document))
    charge = replace(own.charges[0], quantity=Decimal(200), amount=Decimal("0.4"))
    other = replace(own, charges=(charge,))
    ahead = replace(own, period=9_000)
    for sent, key, problem in (
        (other, a_key(BETA), "another statement"),
        (other, a_key("mallory"), "not signed"),
        (ahead, a_key(BETA), "far ahead"),
    ):
        sentence = statement_bytes(bills_sentence(statement_id(sent)))
        body = {"document": statement_document(sent).decode(),
                "signature": key.sign(sentence).hex()}  # fmt: skip
        envelope = an_envelope(
            trade.alpha, json.dumps(body).encode(), kind=EnvelopeKind.BILL, sender=BETA,
            receiver=ALPHA, key=a_key(BETA),
        )  # fmt: skip
        assert put(trade.beta, trade.alpha, envelope) == ("taken",)
        trade.exchange()
        (reason,) = trade.alpha.sql(
            "SELECT reason FROM medusa_api.inbox WHERE state = 'refused' ORDER BY envelope_id DESC "
            "LIMIT 1"
        )
        assert problem in reason[0]
    assert len(trade.bills(trade.alpha)) == 2
    trade.check_books()


def test_an_answer_that_owes_less_than_both_statements_give_is_refused(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 100})
    trade.look()
    trade.beta.contract_sync.tick()
    ((statement,),) = trade.beta.sql("SELECT statement FROM medusa_market.bill")
    sentence = f"owes {statement} agreed 0.1"
    body = {"contract": CONTRACT, "period": 1, "statement": statement, "outcome": "agreed",
            "amount": "0.1", "own": None,
            "signature": a_key(ALPHA).sign(statement_bytes(sentence)).hex()}  # fmt: skip
    envelope = an_envelope(trade.beta, json.dumps(body).encode(), kind=EnvelopeKind.BILL_ANSWER)
    assert put(trade.alpha, trade.beta, envelope) == ("taken",)
    trade.beta.contract_sync.tick()
    assert "the two statements give 0.2" in str(trade.beta.told[-1])
    trade.settle()
    assert trade.bills(trade.beta) == [(1, "beta", "settled", D("0.2"), D("0.2"), 0)]


def test_a_statement_that_was_answered_is_answered_again(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {0: 100})
    trade.settle()
    for table in ("book_posting", "book_entry", "bill_answer"):
        trade.execute(BETA, f"DELETE FROM medusa_market.{table}")  # as from an older backup
    trade.execute(BETA, "UPDATE medusa_market.bill SET noted_at = now() - interval '2 days'")
    trade.execute(BETA, "UPDATE medusa_market.outbox SET put_at = now() - interval '2 days'")
    assert trade.bills(trade.beta)[0][2] == "billed"
    trade.settle()
    assert trade.bills(trade.beta) == [(1, "beta", "settled", D("0.2"), D("0.2"), 0)]
    assert trade.accounts(trade.beta)["partner"] == D("0.2")


def test_both_parties_may_give_up_a_dispute_at_once(trade: Trade) -> None:
    trade.agree()
    trade.rows(0, A_DAY, {100: 7}, homes=(ALPHA,))
    trade.rows(0, A_DAY, {100: 9}, homes=(BETA,))
    trade.settle()
    trade.end_dispute(CONTRACT, 1, "own")
    trade.end_dispute(CONTRACT, 1, "claimed")
    trade.exchange()
    assert trade.accounts(trade.alpha)["partner"] == -trade.accounts(trade.beta)["partner"]
    assert trade.bills(trade.beta)[0][2] == "settled"


POINTS = (*SETTLEMENT_POINTS, *AGREEMENT_POINTS)


@pytest.mark.parametrize("point", long_but(2, POINTS))
def test_a_settlement_that_is_killed_anywhere_is_completed_once(trade: Trade, point: str) -> None:
    trade.agree()
    trade.rows(0, 60, {0: 3}, homes=(ALPHA,))
    trade.rows(0, 60, {0: 4}, homes=(BETA,))
    trade.rows(60, A_DAY, {100: 7})
    trade.rows(A_DAY, 2 * A_DAY, {A_DAY: 5})
    for passes in (1, 2, 3):
        reached = 0

        def visit(name: str, passes: int = passes) -> None:
            nonlocal reached
            reached += name == point
            if name == point and reached == passes:
                raise Killed

        with visited_by(visit):
            for party in (trade.alpha, trade.beta) * 2:
                try:
                    trade.look(party)
                    party.contract_sync.tick()
                except Killed:
                    party.contract_sync = party.a_contract_sync()
                trade.check_books()
    trade.settle()
    assert trade.bills(trade.beta) == [
        (1, "beta", "disputed", D("0.022"), D("0.02"), D("0.002")),
        (2, "beta", "settled", D("0.01"), D("0.01"), 0),
    ]
    assert trade.accounts(trade.beta)["partner"] == D("0.03")
    assert trade.accounts(trade.alpha)["partner"] == D("-0.03")
