"""Offers and answers stay for as long as the owner says; rounds are opened where there is trade."""

from __future__ import annotations

import pytest

from tests.agreements.building import INSERT
from tests.rounds.building import Trader, a_price, a_round, agree_on, parts, until_quiet

ROUNDS = "SELECT count(*) FROM medusa_api.rounds"
KEPT = """SELECT (SELECT count(*) FROM medusa_market.offer),
    (SELECT count(*) FROM medusa_market.answer),
    (SELECT count(*) FROM medusa_market.offer_lapse)"""
AGED = """UPDATE medusa_market.offer SET made_at = made_at - interval '40 days';
    UPDATE medusa_market.answer SET made_at = made_at - interval '40 days'"""
SHARE = "SELECT messages, bytes FROM medusa_market.partner_share WHERE kind = 'kept'"


def traded(alpha: Trader, beta: Trader) -> None:
    """Beta has no room: it declines, again and again, and once does not answer in time."""
    agree_on(alpha, beta, a_price("10"))
    alpha.declares(1.0, 0.9)
    beta.declares(1.0, 0.9)
    alpha.carries(parts(9))
    beta.carries(parts(9))
    for _ in range(3):
        alpha.in_time("DELETE FROM medusa_market.last_word")
        a_round(alpha, beta)


@pytest.mark.long(quick=True)
def test_messages_past_their_retention_are_removed_and_the_last_answer_remains(
    alpha: Trader, beta: Trader
) -> None:
    traded(alpha, beta)
    ((offers, answers, _),) = beta.sql(KEPT)
    assert min(offers, answers) >= 1
    ((messages, kept),) = beta.sql(SHARE)
    assert messages == offers
    assert kept == beta.sql("SELECT sum(length(body)) FROM medusa_market.offer")[0][0]
    assert beta.party.agreements.tidy() == 0, "it is young"
    beta.in_time(AGED)
    beta.sql("UPDATE medusa_market.message_retention SET keep = '90 days'")
    assert beta.party.agreements.tidy() == 0, "the owner keeps it longer"
    beta.sql("UPDATE medusa_market.message_retention SET keep = '31 days'")
    beta.in_time("DELETE FROM medusa_market.last_word")
    assert beta.party.agreements.tidy() == offers + answers
    assert beta.sql(KEPT) == [(0, 0, 0)]
    assert beta.sql(SHARE) == [(0, 0)]
    assert beta.party.agreements.verify_audit() is None, "the audit stays"
    until_quiet(alpha, beta)


@pytest.mark.long(quick=True)
def test_messages_of_a_partner_at_its_storage_limit_are_refused(
    alpha: Trader, beta: Trader
) -> None:
    traded(alpha, beta)
    beta.in_time("UPDATE medusa_market.partner_share SET bytes = 268435457 WHERE kind = 'kept'")
    ((before, _, _),) = beta.sql(KEPT)
    alpha.in_time("DELETE FROM medusa_market.last_word; DELETE FROM medusa_market.silent_partner")
    alpha.in_time("DELETE FROM medusa_market.answer; DELETE FROM medusa_market.offer")
    alpha.carries(parts(9))
    alpha.opens()
    beta.answers()
    ((after, _, _),) = beta.sql(KEPT)
    assert after == before
    assert "too much: offers and answers of alpha fill its 256 MiB" in beta.refused()[-1]


@pytest.mark.long(quick=True)
def test_without_a_contract_there_are_no_rounds(alpha: Trader, beta: Trader) -> None:
    alpha.declares(1.0, 0.9)
    for _ in range(3):
        assert alpha.answers().is_idle
        assert not alpha.rounds.waits()
    assert alpha.sql(ROUNDS) == [(0,)]
    for trader in (alpha, beta):
        trader.sql(INSERT)
    until_quiet(alpha, beta)
    assert alpha.sql("SELECT state FROM medusa_api.contract") == [("in force",)]
    assert alpha.sql(ROUNDS) == [(1,)], "what is agreed becomes active"
    pass_by = "UPDATE medusa_market.round SET opened_at = opened_at - interval '2 minutes'"
    alpha.in_time(pass_by)
    assert alpha.answers().opened == 2
    alpha.in_time("INSERT INTO medusa_market.contract_notice (contract, given_by, stated_by, "
                  "ends_at) "
                  "VALUES ('spare_load', 'alpha', 'alpha', now())")  # fmt: skip
    alpha.in_time(pass_by)
    assert alpha.answers().opened is None, "it has ended"
    assert alpha.worker.tick(opens="by hand").opened == 3
