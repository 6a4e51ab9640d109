"""A key that was replaced goes on telling what was agreed under it, and nothing new."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from medusa_core.names import Participant
from pipelines.market.sync.contract_sync import settle
from tests.agreements.backups import Backups
from tests.agreements.building import ALPHA, BETA, RAISE_PRICE, Party, SqlRefused, a_key, agree
from tests.agreements.test_envelopes import an_envelope, inbox, put

HELD = "SELECT contract, number, revision FROM medusa_api.contract_history ORDER BY 1, 2"
NEW = a_key(BETA, 1)
OLD_HEX, NEW_HEX = a_key(BETA).public_key.hex(), NEW.public_key.hex()
REPLACE = "SELECT medusa_api.replace_key('beta', %s)"


def replace_betas_key(alpha: Party, beta: Party) -> None:
    for party in (alpha, beta):
        party.sql(REPLACE, NEW_HEX)
    beta.key = NEW
    beta.contract_sync = beta.a_contract_sync()


def compare(*parties: Party) -> None:
    for party in parties:
        party.agreements.send_statuses()
        settle(one.contract_sync for one in parties)


def test_agreements_under_a_replaced_key_are_told_again_to_a_home_that_lost_them(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    backups = Backups(watchers)
    backups.back_up(ALPHA)
    agree(alpha, beta)
    held = beta.sql(HELD)
    # Alpha's home is as before anything was agreed, and knows both keys of beta.
    backups.restore(ALPHA)
    replace_betas_key(alpha, beta)
    compare(alpha, beta)
    assert alpha.sql(HELD) == beta.sql(HELD) == held
    for party in (alpha, beta):
        party.sql(RAISE_PRICE, 1.3)
    settle((alpha.contract_sync, beta.contract_sync))
    assert alpha.shows(columns="number") == beta.shows(columns="number") == (2,)


@pytest.mark.long(quick=True)
def test_a_recreated_home_knows_only_the_new_key_and_verifies_new_signatures(
    alpha: Party, beta: Party, agreeing_wipe: Callable[[str], None]
) -> None:
    agree(alpha, beta)
    replace_betas_key(alpha, beta)
    settle((beta.contract_sync,))
    agreeing_wipe("alpha")
    for name, key in ((ALPHA, a_key(ALPHA)), (BETA, NEW)):
        alpha.agreements.learn_key(name, key.public_key, "a test")
    compare(beta, alpha)
    assert alpha.sql(HELD) == beta.sql(HELD) != []


@pytest.mark.long(quick=True)
def test_a_party_that_lost_home_and_key_takes_back_what_its_old_key_signed_once_told_of_it(
    alpha: Party, beta: Party, agreeing_wipe: Callable[[str], None]
) -> None:
    agree(alpha, beta)
    agreeing_wipe("beta")
    for name, key in ((ALPHA, a_key(ALPHA)), (BETA, NEW)):
        beta.agreements.learn_key(name, key.public_key, "a test")
    beta.key = NEW
    beta.contract_sync = beta.a_contract_sync()
    alpha.sql(REPLACE, NEW_HEX)
    compare(alpha, beta)
    assert beta.sql(HELD) == []
    assert "learn_past_key" in inbox(beta)[-1][1]
    assert beta.sql("SELECT medusa_api.learn_past_key('beta', %s)", OLD_HEX) == [(True,)]
    compare(alpha, beta)
    assert alpha.sql(HELD) == beta.sql(HELD) != []
    counts = beta.sql(
        "SELECT public_key, counts FROM medusa_api.party_keys WHERE participant = 'beta' ORDER BY 2"
    )
    assert counts == [(OLD_HEX, False), (NEW_HEX, True)]


def test_nothing_new_is_taken_under_a_replaced_key_and_nothing_at_all_under_a_disowned_one(
    alpha: Party, beta: Party
) -> None:
    for party in (alpha, beta):
        party.sql("SELECT medusa_api.replace_key('alpha', %s)", a_key(ALPHA, 1).public_key.hex())
    put(alpha, beta, an_envelope(alpha))
    beta.contract_sync.tick()
    assert "not by the key of alpha" in inbox(beta)[-1][1]
    old, new = a_key(ALPHA).public_key, a_key(ALPHA, 1).public_key
    assert beta.agreements.known_keys()[ALPHA].ever == (new, old)
    beta.sql("SELECT medusa_api.disown_key('alpha', %s)", old.hex())
    assert beta.agreements.known_keys()[ALPHA].ever == (new,)
    with pytest.raises(SqlRefused, match="replace_key before"):
        beta.sql("SELECT medusa_api.disown_key('alpha', %s)", new.hex())
    with pytest.raises(SqlRefused, match="was disowned"):
        beta.sql("SELECT medusa_api.replace_key('alpha', %s)", old.hex())
