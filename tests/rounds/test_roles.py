"""Who sees what of the market, and what the database keeps whoever writes."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.agreements.building import SqlRefused
from tests.rounds.building import BETA, Trader, a_price, a_round, agree_on, parts
from tests.sweeps import long_but

VIEWS = ("offers", "answers", "agreed_moves", "trading")
TABLES = ("market", "offer", "open_offer", "open_item", "offer_lapse", "answer", "agreed_move",
          "requested_load", "last_word", "silent_partner")  # fmt: skip
CANARY = 0.731_256
"""A load that no partner is to see; its background, which never leaves home."""


@pytest.fixture
def traded(alpha: Trader, beta: Trader) -> tuple[Trader, Trader]:
    """A pair that has traded; most of beta's load and all of its costs are its own business."""
    agree_on(alpha, beta, a_price("10", "12"))
    alpha.declares(1.0, 0.9)
    beta.declares(CANARY * 3, CANARY * 2)
    alpha.carries(parts(9))
    beta.carries({"f0": CANARY})
    a_round(alpha, beta)
    assert len(beta.moves()) > 0
    return alpha, beta


@pytest.mark.parametrize("role", long_but(1, ["exchange", "analyst", "airflow"]))
def test_only_the_owner_and_its_jobs_see_offers(traded: tuple[Trader, Trader], role: str) -> None:
    _, beta = traded
    for name in (
        *(f"medusa_api.{view}" for view in VIEWS),
        *(f"medusa_market.{t}" for t in TABLES),
    ):
        with pytest.raises(SqlRefused) as refused:
            beta.sql(f"SELECT * FROM {name}", role=role)
        assert refused.value.code == "42501", name
    for call in (
        "expire_market()",
        "take_offer(1)",
        "take_answer(1, NULL, NULL)",
        "apply_round('{}')",
    ):
        with pytest.raises(SqlRefused) as refused:
            beta.sql(f"SELECT medusa_market.{call}", role=role)
        assert refused.value.code == "42501", call


@pytest.mark.long(quick=True)
def test_owner_and_job_see_it_and_write_it_by_no_statement_of_their_own(
    traded: tuple[Trader, Trader],
) -> None:
    _, beta = traded
    for role in ("owner", "job"):
        for view in VIEWS:
            assert beta.sql(f"SELECT * FROM medusa_api.{view}", role=role)
        for table in TABLES:
            for verb in (
                f"DELETE FROM medusa_market.{table}",
                f"INSERT INTO medusa_market.{table} DEFAULT VALUES",
            ):
                with pytest.raises(SqlRefused) as refused:
                    beta.sql(verb.format(table), role=role)
                assert refused.value.code == "42501", verb
    for wrong, sentence in {
        "round_ms = 5": "round_ms is 5: write milliseconds from 1000 (a second) to 86400000",
        "move_ms = NULL": "move_ms is NULL: write milliseconds from 100",
        "residence_ms = -1": "residence_ms is -1: write milliseconds from 0",
        "dead_band = 2": "dead_band is 2: write a share of a price",
        "dead_band = 'NaN'": "dead_band is NaN: write a share of a price",
        "partners_max = 3": "partners_max is 3: write 1 or 2",
    }.items():
        with pytest.raises(SqlRefused) as refused:
            beta.sql(f"UPDATE medusa_api.trading SET {wrong}")
        assert refused.value.code == "MD001", wrong
        assert sentence in str(refused.value)


LAPSED = """INSERT INTO medusa_market.offer_lapse (offer_id, because)
    SELECT offer_id, 'a test' FROM medusa_market.offer LIMIT 1"""


@pytest.mark.long(quick=True)
@pytest.mark.parametrize("table", long_but(1, ["agreed_move", "offer", "offer_lapse", "answer"]))
def test_what_was_offered_and_answered_stays(traded: tuple[Trader, Trader], table: str) -> None:
    alpha, _ = traded
    with alpha.watcher.connect() as superuser:
        superuser.execute(text(LAPSED))
    verbs = [f"DELETE FROM medusa_market.{table}", f"TRUNCATE medusa_market.{table} CASCADE"]
    if table == "agreed_move":
        verbs += ["UPDATE medusa_market.agreed_move SET load = load * 2",
                  "UPDATE medusa_market.agreed_move SET state = 'granted'"]  # fmt: skip
    else:
        verbs.append(f"UPDATE medusa_market.{table} SET because = 'another'")
    for verb in verbs:
        with (
            pytest.raises(DBAPIError, match=r"insert-only|keeps what was agreed"),
            alpha.watcher.connect() as superuser,
        ):
            superuser.execute(text(verb))


ANOTHER = """INSERT INTO medusa_market.agreed_move (is_given, partner, contract, revision, fragment,
        partition, load, level, price, answer_id, state, round, expires_at)
    SELECT is_given, partner, contract, revision, {fragment}, partition, {load}, {level}, {price},
        answer_id, 'accepted', round, expires_at FROM medusa_market.agreed_move LIMIT 1"""
MOVES = {
    "below the range": {"price": "price - 1"},
    "between two steps": {"price": "price + 0.5"},
    "of no level": {"level": "7", "price": "price + 7"},
    "more than may lie there": {"load": "10"},
    "given twice": {"fragment": "fragment"},
}


@pytest.mark.parametrize("wrong", long_but(1, MOVES, quick=True))
def test_no_writer_can_record_a_move_against_the_contract(
    traded: tuple[Trader, Trader], wrong: str
) -> None:
    alpha, _ = traded
    soundly = {"fragment": "'f20'", "load": "load", "level": "level", "price": "price"}
    reason = "agreed_move_given" if wrong == "given twice" else "is refused"
    with pytest.raises(DBAPIError, match=reason), alpha.watcher.connect() as superuser:
        superuser.execute(text(ANOTHER.format(**(soundly | MOVES[wrong]))))
    with alpha.watcher.connect() as superuser:
        assert superuser.execute(text(ANOTHER.format(**soundly))).rowcount == 1


@pytest.mark.long(quick=True)
def test_a_price_outside_of_the_revision_in_force_is_offered_by_nobody(
    traded: tuple[Trader, Trader],
) -> None:
    alpha, _ = traded
    statement = """INSERT INTO medusa_market.offer (is_own, partner, contract, revision, nonce,
            sender_round,             level, price, items, load, for_overload, relays, body, round)
        SELECT is_own, partner, contract, {revision}, repeat('f', 32), sender_round, level, {price},
            items, load, for_overload, relays, body, round
        FROM medusa_market.offer WHERE is_own LIMIT 1"""
    for revision, price in (("revision", "price + 3"), ("repeat('0', 64)", "price")):
        with (
            pytest.raises(DBAPIError, match=r"\(S4\)"),
            alpha.watcher.connect() as superuser,
        ):
            superuser.execute(text(statement.format(revision=revision, price=price)))


def test_nothing_of_ones_costs_or_load_reaches_a_partner(traded: tuple[Trader, Trader]) -> None:
    alpha, beta = traded
    seen = b"".join(envelope.body for envelope in beta.party.post.seen)
    assert seen
    with alpha.watcher.connect() as superuser:
        tables = superuser.execute(
            text(
                "SELECT table_schema || '.' || table_name FROM information_schema.tables "
                "WHERE table_schema IN ('medusa', 'medusa_market')"
            )
        ).scalars()
        whole = "".join(
            str(row)
            for table in tables.all()
            for row in superuser.execute(text(f"SELECT * FROM {table}")).all()
        )
    assert str(BETA) in whole
    for canary in (CANARY, CANARY * 2, CANARY * 3):
        # Five digits alone lie in a hash or a time by chance, once in some dozens of runs.
        shown = re.compile(rf"{canary:.5f}"[:-1].replace(".", r"\.") + rf"|\b{canary * 1e6:.0f}\b")
        assert shown.search(f"the load is {canary}")
        assert shown.search(f"the load is {canary * 1e6:.0f} of a million")
        assert not shown.search(seen.decode())
        assert not shown.search(whole)
