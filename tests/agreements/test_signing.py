"""A revision is agreed by two signatures: the payer's alone makes no agreement."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from medusa_core.errors import Refused
from medusa_core.market.documents import revision_of
from medusa_core.market.envelopes import contract_bytes
from medusa_core.market.terms import Revision
from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import (
    ALPHA,
    BETA,
    DAY_MS,
    INSERT,
    SPARE,
    Party,
    a_key,
    agree,
    some_terms,
)
from tests.agreements.homes import Watchers
from tests.agreements.test_envelopes import a_body, an_envelope, inbox, put

REVISION = revision_of(some_terms())
SIGNATURES_GONE = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    DELETE FROM medusa_market.contract_signature;
END $$
"""


def proposed(party: Party) -> Revision:
    """The one revision that is proposed in this home."""
    ((revision,),) = party.sql("SELECT DISTINCT revision FROM medusa_api.contract_proposals")
    return Revision(revision)


def signs(party: Party, revision: Revision) -> bool:
    """The party's program signs, whether or not it was to."""
    signature = party.key.sign(contract_bytes(revision))
    return party.agreements.sign(revision, signature, party.key.public_key)


def agreements_of(party: Party) -> list[tuple[object, ...]]:
    return party.sql("SELECT number FROM medusa_api.contract_history ORDER BY number")


def nothing_is_agreed(*parties: Party) -> bool:
    for party in parties:
        party.agreements.open_round(0, "a test")
    return all(p.agreements.in_force() == () and agreements_of(p) == [] for p in parties)


def test_the_payer_signs_nothing_before_the_provider_has_signed(alpha: Party, beta: Party) -> None:
    alpha.sql(INSERT)
    revision = proposed(alpha)
    assert alpha.agreements.to_sign() == ()
    assert not signs(alpha, revision)
    settle((alpha.contract_sync, beta.contract_sync))
    assert alpha.agreements.to_sign() == ()
    assert not signs(alpha, revision)
    assert nothing_is_agreed(alpha, beta)

    beta.sql(INSERT)
    assert beta.agreements.to_sign() == (revision,)
    settle((alpha.contract_sync, beta.contract_sync))
    assert agreements_of(alpha) == agreements_of(beta) == [(1,)]


def test_the_payer_signs_nothing_that_the_provider_has_taken_back(
    alpha: Party, beta: Party
) -> None:
    alpha.sql(INSERT)
    beta.sql(INSERT)
    beta.contract_sync.tick()
    beta.sql(f"SELECT medusa_api.withdraw_contract('{SPARE}')")
    beta.contract_sync.tick()
    alpha.contract_sync.tick()
    assert alpha.agreements.to_sign() == ()
    assert not signs(alpha, proposed(alpha))
    assert nothing_is_agreed(alpha, beta)


def test_an_offer_whose_signature_is_gone_is_not_signed(
    alpha: Party, beta: Party, watchers: Watchers
) -> None:
    """Such an offer is refused when it arrives; this is the guard behind that one."""
    beta.sql(INSERT)
    beta.contract_sync.tick()
    alpha.contract_sync.tick()
    alpha.sql(INSERT)
    assert alpha.agreements.to_sign() == (proposed(alpha),)
    with watchers[ALPHA].connect() as superuser:
        superuser.execute(text(SIGNATURES_GONE))
    assert alpha.agreements.to_sign() == ()
    assert not signs(alpha, proposed(alpha))
    assert nothing_is_agreed(alpha)


def test_the_provider_signs_once_and_that_alone_agrees_to_nothing(
    alpha: Party, beta: Party
) -> None:
    beta.sql(INSERT)
    assert signs(beta, proposed(beta))
    assert not signs(beta, proposed(beta))
    assert beta.agreements.to_sign() == ()
    assert nothing_is_agreed(alpha, beta)


def test_a_party_signs_only_its_proposals_with_its_own_key(alpha: Party, beta: Party) -> None:
    with pytest.raises(Refused, match="is not known here"):
        signs(beta, REVISION)
    alpha.sql(INSERT)
    settle((alpha.contract_sync, beta.contract_sync))
    assert beta.shows()[0] == "requested"
    assert not signs(beta, proposed(beta))
    beta.sql(INSERT)
    other = a_key(BETA, 1)
    with pytest.raises(Refused, match="another one than it signed with"):
        beta.agreements.sign(
            proposed(beta), other.sign(contract_bytes(proposed(beta))), other.public_key
        )
    assert nothing_is_agreed(alpha, beta)


def test_a_document_with_the_payers_signature_alone_is_a_proposal(
    alpha: Party, beta: Party
) -> None:
    signature = alpha.key.sign(contract_bytes(REVISION)).hex()
    ((now_ms,),) = alpha.sql("SELECT medusa.to_ms(clock_timestamp())", role="job")
    body = a_body(some_terms(), signatures={ALPHA: signature}, expires_at_ms=now_ms + DAY_MS)
    assert put(alpha, beta, an_envelope(alpha, body)) == ("taken",)
    beta.contract_sync.tick()
    assert inbox(beta) == [("handled", "")]
    assert beta.shows()[0] == "requested"
    assert nothing_is_agreed(beta)


def test_a_document_with_the_payers_signature_alone_changes_no_agreement(
    alpha: Party, beta: Party
) -> None:
    agree(alpha, beta)
    second = some_terms(number=2, supersedes=REVISION, currency="USD")
    signature = alpha.key.sign(contract_bytes(revision_of(second))).hex()
    ((now_ms,),) = alpha.sql("SELECT medusa.to_ms(clock_timestamp())", role="job")
    body = a_body(second, signatures={ALPHA: signature}, expires_at_ms=now_ms + DAY_MS)
    put(alpha, beta, an_envelope(alpha, body))
    beta.contract_sync.tick()
    beta.agreements.open_round(0, "a test")
    (active,) = beta.agreements.in_force()
    assert (active.terms.number, active.terms.currency) == (1, "EUR")


def test_a_provider_proposes_nothing_without_its_signature(alpha: Party, beta: Party) -> None:
    ((now_ms,),) = alpha.sql("SELECT medusa.to_ms(clock_timestamp())", role="job")
    body = a_body(some_terms(), expires_at_ms=now_ms + DAY_MS)
    envelope = an_envelope(alpha, body, sender=BETA, receiver=ALPHA, key=a_key(BETA))
    put(beta, alpha, envelope)
    alpha.contract_sync.tick()
    ((state, reason),) = inbox(alpha)
    assert state == "refused"
    assert "without its signature" in reason
    assert alpha.proposals() == []
