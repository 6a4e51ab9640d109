"""What is kept of a partner has bounds of its own, and what is beyond them is recorded once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine, text

from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.names import Participant
from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import (
    ALPHA,
    BETA,
    GAMMA,
    INSERT,
    Party,
    a_key,
    a_movement,
    agree,
    some_fragments,
    some_terms,
)
from tests.agreements.test_envelopes import a_body, an_envelope, inbox, put
from tests.catalog.homes_under_test import wipe


def test_what_is_beyond_a_partners_share_is_refused_and_recorded_once(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    put(alpha, beta, an_envelope(alpha))
    beta.contract_sync.tick()
    with watchers[BETA].connect() as connection:
        connection.execute(text("UPDATE medusa_market.partner_share SET messages = 4096"))
    for _ in range(3):
        put(alpha, beta, an_envelope(alpha))
    result = beta.contract_sync.tick()
    assert (result.taken, result.refused) == (0, 3)
    refused = beta.sql("SELECT reason, repeats FROM medusa_api.inbox WHERE state = 'refused'")
    ((reason, repeats),) = refused
    assert reason.startswith("too much: alpha has sent 4096 messages of kind document")
    assert repeats == 2
    with watchers[BETA].connect() as connection:
        hour = "UPDATE medusa_market.partner_share SET began_at = began_at - interval '1 hour'"
        connection.execute(text(hour))
    put(alpha, beta, an_envelope(alpha))
    assert beta.contract_sync.tick().taken == 1, "it is heard again"


def test_a_partner_names_only_so_many_contracts_and_keeps_no_owner_from_naming_its_own(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    with watchers[BETA].connect() as connection:
        connection.execute(text(
            "INSERT INTO medusa_market.contract_order (contract, edits, brought_by) "
            "SELECT 'of_alpha_' || n, 2, 'alpha' FROM generate_series(1, 2048) AS n"
        ))  # fmt: skip
        connection.execute(text(
            "INSERT INTO medusa_market.contract_order (contract, edits, brought_by) "
            "SELECT 'of_others_' || n, 2, 'other_' || n % 9 FROM generate_series(1, 9000) AS n"
        ))  # fmt: skip
    put(alpha, beta, an_envelope(alpha))
    beta.contract_sync.tick()
    assert "too much: alpha has named 2,048 contracts here" in inbox(beta)[-1][1]
    beta.sql(INSERT)
    assert beta.shows()[0] == "proposed"
    put(alpha, beta, an_envelope(alpha))
    beta.contract_sync.tick()
    assert inbox(beta)[-1] == ("handled", ""), "what the owner has named is not the partner's"


def test_proposals_that_nobody_agrees_on_have_a_bound(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    put(alpha, beta, an_envelope(alpha))
    beta.contract_sync.tick()
    often = """INSERT INTO medusa_market.contract_proposal (contract, revision, proposed_by,
            because,             expires_at, state, ended_at, partner_number)
        SELECT contract, revision, proposed_by, because, expires_at, 'superseded',
            clock_timestamp(), n
        FROM medusa_market.contract_proposal, generate_series(2, 4097) AS n"""
    with watchers[BETA].connect() as connection:
        connection.execute(text(often))
    put(alpha, beta, an_envelope(alpha, body=a_body(some_terms(currency="USD"), proposal=9)))
    beta.contract_sync.tick()
    assert "too much: alpha has proposed 4,096 times within a day" in inbox(beta)[-1][1]


def test_long_documents_are_in_the_audit_by_their_hash(alpha: Party, beta: Party) -> None:
    many = some_fragments(*(f"fragment_number_{at}" for at in range(500)))
    ((now_ms,),) = alpha.sql("SELECT medusa.to_ms(clock_timestamp())", role="job")
    terms = some_terms(subject=a_movement(fragments=many))
    put(alpha, beta, an_envelope(alpha, a_body(terms, expires_at_ms=now_ms + 1_000_000)))
    beta.contract_sync.tick()
    ((after,),) = beta.sql("SELECT after FROM medusa_api.audit WHERE what = 'told'")
    ((revision,),) = beta.sql("SELECT revision FROM medusa_api.contract")
    assert after["revision"] == revision
    assert set(after) == {"bytes", "sha256", "revision"}
    assert beta.agreements.verify_audit() is None
    assert beta.sql("SELECT sum(length(body)), sum(bytes) > 9000 FROM medusa_market.inbox") == [
        (0, True)
    ]


def test_a_flood_of_refusals_of_one_partner_pushes_out_no_others(
    alpha: Party, beta: Party, gamma: Party, watchers: dict[Participant, Engine]
) -> None:
    put(gamma, beta, an_envelope(gamma, sender=GAMMA, key=a_key(ALPHA)))
    beta.contract_sync.tick()
    many = """INSERT INTO medusa_market.inbox (sender, receiver, kind, nonce, sent_at_ms,
            expires_at_ms, body, signature, hash, state, reason, ended_at)
        SELECT 'alpha', 'beta', 'offer', repeat('0', 32), 1, 1, '', '', sha256(n::text::bytea),
            'refused', 'wrong ' || n, clock_timestamp() FROM generate_series(1, 1000) AS n"""
    with watchers[BETA].connect() as connection:
        connection.execute(text("ANALYZE medusa_market.inbox"))
        connection.execute(text(many.replace("::", r"\:\:")))
        # As a server plans that has not counted the flood yet: in nested loops.
        for way in ("hashagg", "hashjoin", "material", "mergejoin", "sort"):
            connection.execute(text(f"SET enable_{way} = off"))
        connection.execute(text("SET statement_timeout = '10s'"))
        connection.execute(text("SELECT medusa_market.tidy_inbox()"))
        connection.execute(text("DISCARD ALL"))
    kept = beta.sql("SELECT sender, count(*) FROM medusa_api.inbox GROUP BY sender ORDER BY sender")
    assert kept == [("alpha", 100), ("gamma", 1)]


def test_of_a_sender_so_much_is_remembered_in_each_room(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    remembered = """INSERT INTO medusa_market.inbox (sender, receiver, kind, nonce, sent_at_ms,
            expires_at_ms, body, signature, hash, state, ended_at)
        SELECT 'alpha', 'beta', 'offer', md5(n::text), 1, 9999999999999, '', '',
            sha256(n::text::bytea), 'handled', now() FROM generate_series(1, 32768) AS n"""
    with watchers[BETA].connect() as connection:
        connection.execute(text(remembered.replace("::", r"\:\:")))
    offer = an_envelope(alpha, b"{}", kind=EnvelopeKind.OFFER)
    assert put(alpha, beta, offer, an_envelope(alpha)) == ("full: send it again later", "taken")


def told(sender: Party, receiver: Party, kind: EnvelopeKind, **says: Any) -> tuple[Any, ...]:
    """Alpha tells beta something of its own making; what became of it."""
    put(sender, receiver, an_envelope(sender, json.dumps(says).encode(), kind=kind))
    receiver.contract_sync.tick()
    return inbox(receiver)[-1]


def test_refusals_of_contracts_that_nobody_knows_use_up_the_senders_names(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    says = {"number": 1, "revision": "a" * 64, "newest": 0}
    assert told(alpha, beta, EnvelopeKind.REFUSAL, contract="made_up", **says)[0] == "handled"
    named = beta.sql("SELECT contract, brought_by FROM medusa_market.contract_order", role="owner")
    assert named == [("made_up", "alpha")], "it is not among the 10,000 that this home may name"
    with watchers[BETA].connect() as connection:
        connection.execute(text(
            "INSERT INTO medusa_market.contract_order (contract, edits, brought_by) "
            "SELECT 'of_alpha_' || n, 2, 'alpha' FROM generate_series(1, 2048) AS n"
        ))  # fmt: skip
    state, reason = told(alpha, beta, EnvelopeKind.REFUSAL, contract="another", **says)
    assert (state, "alpha has named 2,048 contracts here" in reason) == ("refused", True)


@pytest.mark.long(quick=True)
def test_a_partner_that_holds_what_nobody_knows_is_asked_for_so_much_and_no_more(
    alpha: Party, beta: Party
) -> None:
    def holdings(page: int) -> list[dict[str, Any]]:
        return [
            {"contract": f"of_{page}_{n}", "number": 1, "revision": "a" * 64, "ends_at_ms": None}
            for n in range(256)
        ]

    beta.post.cut.add(ALPHA)
    for page in range(6):
        body = json.dumps({"after": None, "until": None, "holdings": holdings(page)}).encode()
        put(alpha, beta, an_envelope(alpha, body, kind=EnvelopeKind.HOLDINGS))
    assert beta.contract_sync.tick().taken == 6
    ((asked,),) = beta.sql("SELECT count(*) FROM medusa_api.outbox WHERE kind = 'want'")
    assert asked == 1024


def test_comparisons_have_a_share_of_their_own(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    says = {"incarnation": "00000000-0000-4000-8000-000000000000", "digest": "a" * 64}
    assert told(alpha, beta, EnvelopeKind.STATUS, **says)[0] == "handled"
    with watchers[BETA].connect() as connection:
        connection.execute(text("UPDATE medusa_market.partner_share SET messages = 512"))
    state, reason = told(alpha, beta, EnvelopeKind.STATUS, **says)
    assert (state, reason.startswith("too much: alpha has sent 512")) == ("refused", True)


@pytest.mark.long(quick=True)
def test_contracts_that_a_home_signed_and_lost_come_back_beyond_what_a_partner_may_name(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    agree(alpha, beta)
    settle((alpha.contract_sync, beta.contract_sync))
    wipe(watchers[BETA], BETA)
    for name in (ALPHA, BETA):
        beta.agreements.learn_key(name, a_key(name).public_key, "a test")
    with watchers[BETA].connect() as connection:
        connection.execute(text(
            "INSERT INTO medusa_market.contract_order (contract, edits, brought_by) "
            "SELECT 'of_alpha_' || n, 2, 'alpha' FROM generate_series(1, 2048) AS n"
        ))  # fmt: skip
    alpha.agreements.send_statuses()
    settle((alpha.contract_sync, beta.contract_sync))
    assert beta.shows()[0] == "agreed"
    assert beta.shows()[1] == alpha.shows()[1]
