"""An owner that leaves psql open in the middle of an edit keeps nobody else from working."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import BETA, INSERT, RAISE_PRICE, Login, Party, agree

EXPIRED = """DO $$ BEGIN
    SET LOCAL session_replication_role = replica;
    UPDATE medusa_market.contract_proposal SET expires_at = now() WHERE state = 'open';
    END $$"""
HERE = "SELECT medusa_market.verify_audit() IS NULL, count(*) FROM medusa_market.audit"


@pytest.fixture
def editing(alpha: Party, beta: Party) -> Iterator[Login]:
    """Alpha's owner has edited a contract, with a line in the audit, and gone for lunch."""
    agree(alpha, beta)
    login = alpha.a_login()
    login.connection.autocommit = False
    login("UPDATE medusa_api.contract SET price_high = 1.3 WHERE contract = 'spare_load'")
    login("SELECT medusa_api.learn_key('delta', %s)", "ab" * 32)
    yield login
    login.connection.close()


def test_other_lines_of_the_audit_are_written_meanwhile(
    alpha: Party, beta: Party, gamma: Party, editing: Login
) -> None:
    ((_, before),) = alpha.sql(HERE)
    other = INSERT.replace("'spare_load'", "'other'").replace("'beta'", "'gamma'")
    alpha.sql(other)
    gamma.sql(other)
    settle((alpha.contract_sync, gamma.contract_sync))
    assert alpha.shows("other")[0] == gamma.shows("other")[0] == "agreed"
    assert alpha.agreements.open_round(0, "a test") == 2
    assert alpha.shows("other")[0] == "in force"
    ((is_whole, meanwhile),) = alpha.sql(HERE)
    assert is_whole
    assert meanwhile > before

    editing.connection.commit()
    ((is_whole, after),) = alpha.sql(HERE)
    assert is_whole
    assert after == meanwhile + 2
    ((last, who),) = alpha.sql(
        "SELECT what, who FROM medusa_api.audit ORDER BY audit_id DESC LIMIT 1"
    )
    assert (last, who) == ("key", alpha.urls.database + "_owner")
    assert beta.agreements.verify_audit() is None


@pytest.mark.long(quick=True)
def test_an_edit_that_is_taken_back_leaves_no_line(alpha: Party, editing: Login) -> None:
    ((_, before),) = alpha.sql(HERE)
    editing.connection.rollback()
    assert alpha.sql(HERE) == [(True, before)]
    assert alpha.sql("SELECT count(*) FROM medusa_market.audit_entry") == [(0,)]
    alpha.agreements.learn_key(Participant("epsilon"), b"e" * 32, "a test")
    assert alpha.sql(HERE) == [(True, before + 1)]


@pytest.mark.long(quick=True)
def test_what_is_chained_at_the_end_says_when_it_cannot_be(alpha: Party, editing: Login) -> None:
    editing("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(Unavailable, match="holds a lock"):
        alpha.agreements.learn_key(Participant("epsilon"), b"e" * 32, "a test")
    editing.connection.rollback()
    alpha.agreements.learn_key(Participant("epsilon"), b"e" * 32, "a test")
    assert alpha.agreements.verify_audit() is None


@pytest.mark.long
def test_rounds_and_ticks_continue_and_an_edit_becomes_active_later(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    agree(alpha, beta)
    for party in (alpha, beta):
        party.sql(RAISE_PRICE, 1.3)
    settle((alpha.contract_sync, beta.contract_sync))
    beta.sql(RAISE_PRICE, 1.4)
    settle((alpha.contract_sync, beta.contract_sync))
    assert beta.shows(columns="expires_at IS NOT NULL") == (True,)
    with watchers[BETA].connect() as connection:
        connection.execute(text(EXPIRED))
    editing = beta.a_login()
    editing.connection.autocommit = False
    editing(RAISE_PRICE, 1.5)

    assert beta.agreements.expire() == 0
    alpha.sql(RAISE_PRICE, 1.6)
    settle((alpha.contract_sync, beta.contract_sync))
    active = "SELECT number FROM medusa_market.contract_activation ORDER BY number DESC LIMIT 1"
    assert beta.agreements.open_round(0, "meanwhile") == 2
    assert beta.sql(active) == [(1,)]
    editing.connection.rollback()
    editing.connection.close()
    assert beta.agreements.expire() == 1
    assert beta.agreements.open_round(0, "afterwards") == 3
    assert beta.sql(active) == [(2,)]
    settle((alpha.contract_sync, beta.contract_sync))
    assert beta.agreements.verify_audit() is None
