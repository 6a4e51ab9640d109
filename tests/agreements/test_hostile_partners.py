"""What a partner sends, or an exchange server leaves open, harms neither this home nor others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant
from pipelines.catalog.postgres.envelope_rows import envelopes_document
from tests.agreements.building import (
    ALPHA,
    BETA,
    GAMMA,
    Login,
    Party,
    SqlRefused,
    a_key,
    some_terms,
)
from tests.agreements.test_envelopes import a_body, an_envelope, inbox, put

SETTINGS = ("idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout")
DELIVER = "SELECT medusa_market.deliver_envelopes(%s, %s)"


@pytest.fixture
def guest(beta: Party) -> Iterator[Login]:
    """A session of beta's exchange server, with a transaction that it never ends."""
    login = beta.a_login("exchange")
    for name in SETTINGS:
        login(f"SET {name} = 0")
    login.connection.autocommit = False
    yield login
    login.connection.close()


def its_own(party: Party, name: str) -> Envelope:
    """A proposal of gamma's to beta."""
    ((now_ms,),) = party.sql("SELECT medusa.to_ms(clock_timestamp())", role="job")
    terms = some_terms(payer=GAMMA, contract=ContractName(name))
    body = a_body(terms, expires_at_ms=now_ms + 1_000_000)
    return an_envelope(party, body, sender=GAMMA, key=a_key(GAMMA))


def test_an_open_transaction_of_the_exchange_server_holds_up_no_envelope(
    alpha: Party, beta: Party, gamma: Party, guest: Login
) -> None:
    first, second, own = an_envelope(alpha), an_envelope(alpha), its_own(gamma, "other")
    put(alpha, beta, first)
    put(gamma, beta, own)
    # All of it again, and more, and then nothing any more.
    guest(DELIVER, ALPHA, envelopes_document([first, second]))
    guest(DELIVER, GAMMA, envelopes_document([own]))
    assert put(alpha, beta, first) == ("taken",)
    assert put(gamma, beta, own, its_own(gamma, "third")) == ("taken", "taken")
    result = beta.contract_sync.tick()
    assert (result.taken, result.refused, result.waiting) == (3, 0, 0)
    beta.agreements.tidy()
    ((repeats,),) = beta.sql("SELECT sum(repeats) FROM medusa_api.inbox")
    assert repeats == 2, "what the guest has not ended is not there"


@pytest.mark.parametrize("role", ["exchange", "analyst", "owner"])
def test_logins_begin_with_bounds(beta: Party, role: str) -> None:
    ((idle,),) = beta.sql("SHOW idle_in_transaction_session_timeout", role=role)
    ((lock,),) = beta.sql("SHOW lock_timeout", role=role)
    assert "0" not in (idle, lock)
    if role != "owner":
        ((statement,),) = beta.sql("SHOW statement_timeout", role=role)
        assert statement != "0"
        ((most,),) = beta.sql(
            "SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user", role=role
        )
        assert 0 < most < 100


def test_nothing_of_an_unknown_sender_is_kept(alpha: Party, beta: Party) -> None:
    (answer,) = put(alpha, beta, an_envelope(alpha, sender="nobody"))
    assert answer.startswith("refused: no key of nobody is known here")
    (answer,) = put(alpha, beta, an_envelope(alpha, sender=BETA))
    assert answer.startswith("refused: it is sent in the name of beta")
    assert inbox(beta) == []


def flood(party: Party, count: int, **changes: Any) -> list[Envelope]:
    """Envelopes in alpha's name that are not alpha's."""
    one = an_envelope(party, signature=b"x" * 64, **changes)
    return [replace(one, nonce=f"{at:032x}") for at in range(count)]


def put_all(sender: Party, receiver: Party, envelopes: Sequence[Envelope]) -> list[str]:
    return [
        answer
        for at in range(0, len(envelopes), 64)
        for answer in put(sender, receiver, *envelopes[at : at + 64])
    ]


def test_forged_envelopes_shut_out_neither_whom_they_name_nor_others(
    alpha: Party, beta: Party, gamma: Party, watchers: dict[Participant, Engine]
) -> None:
    answers = put_all(gamma, beta, flood(alpha, 320))
    assert answers.count("taken") == 256
    assert set(answers[256:]) == {"full: send it again later"}
    # Whose they are is not known yet, but where they come from: not from alpha's address.
    with watchers[BETA].connect() as connection:
        connection.execute(text("UPDATE medusa_market.inbox SET came_from = '10.0.0.9'"))
    assert put(alpha, beta, an_envelope(alpha)) == ("taken",)
    assert put(gamma, beta, its_own(gamma, "other")) == ("taken",)
    result = beta.contract_sync.tick()
    assert (result.taken, result.refused) == (2, 256)
    assert {beta.shows(name)[0] for name in ("spare_load", "other")} == {"requested"}
    refused = beta.sql(
        "SELECT count(*), sum(1 + repeats), sum(length(body)) FROM medusa_market.inbox "
        "WHERE state = 'refused'"
    )
    assert refused == [(16, 256, 0)], "alike are counted, not kept"
    assert beta.sql("SELECT count(*) FROM medusa_market.partner_share WHERE messages > 1") == [
        (0,)
    ], "what is forged is on nobody's account"


@pytest.mark.long(quick=True)
def test_offers_leave_room_for_what_is_said_of_contracts(alpha: Party, beta: Party) -> None:
    offers = flood(alpha, 257, kind=EnvelopeKind.OFFER, body=b"{}")
    assert put_all(alpha, beta, offers)[-1] == "full: send it again later"
    assert put(alpha, beta, an_envelope(alpha)) == ("taken",)
    first = beta.agreements.received(1)
    assert [one.envelope.kind for one in first] == [EnvelopeKind.DOCUMENT], "and it is first"


@pytest.mark.parametrize("expires_at_ms", [2**53 - 1, 2**63 - 1, 253_402_300_800_000, -1])
def test_a_proposal_that_lasts_longer_than_any_may_is_refused(
    alpha: Party, beta: Party, expires_at_ms: int
) -> None:
    """One that was valid until the year 287396 made every client raise that read it."""
    body = a_body(some_terms(), expires_at_ms=expires_at_ms)
    assert put(alpha, beta, an_envelope(alpha, body)) == ("taken",)
    beta.contract_sync.tick()
    ((state, reason),) = inbox(beta)
    assert state == "refused"
    assert "a proposal lasts up to 31 days" in reason or "this is no document" in reason
    assert beta.sql("SELECT * FROM medusa_api.contract_proposals") == []


WRONG: dict[str, Any] = {
    "no object": 7,
    "nothing": None,
    "a list": [],
    "empty": {},
    "body that is no base64": {"body": "%%%"},
    "body that is half a base64": {"body": "A"},
    "signature that is no hex": {"signature": "zz" * 64},
    "half a digit": {"signature": "a" * 127},
    "a time that is a text": {"sent_at_ms": "soon"},
    "a time beyond all": {"sent_at_ms": 10**30},
    "a time before all": {"expires_at_ms": -1},
    "half a millisecond": {"expires_at_ms": 0.5},
    "a name with SQL in it": {"sender": "x'; DROP TABLE medusa_market.inbox; --"},
    "a name that is a list": {"sender": ["alpha"]},
    "a kind that is none": {"kind": "Offer"},
    "a nonce that is short": {"nonce": "0"},
}


def test_what_is_no_envelope_is_refused_by_itself(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    (good,) = json.loads(envelopes_document([an_envelope(alpha)]))
    given = [{**good, **w} if isinstance(w, dict) and w else w for w in WRONG.values()]
    take = text("SELECT medusa_market.take_envelopes(CAST(:envelopes AS jsonb))")
    with watchers[BETA].connect() as connection:
        (answers,) = connection.execute(take, {"envelopes": json.dumps([*given, good])}).scalars()
        assert dict(zip(WRONG, answers, strict=False)) == dict.fromkeys(
            WRONG, "refused: this is no envelope"
        )
        assert answers[-1] == "taken"
        for none in ("7", "{}", "null", json.dumps([good] * 65)):
            with pytest.raises(DBAPIError, match="come in a list of 64 at most"):
                connection.execute(take, {"envelopes": none})
    assert inbox(beta) == [("received", "")]


def test_the_exchange_server_delivers_what_a_partner_sends_itself(
    alpha: Party, beta: Party
) -> None:
    (good,) = json.loads(envelopes_document([an_envelope(alpha)]))
    given = [{**good, **w} if isinstance(w, dict) and w else w for w in WRONG.values()]
    for one in given:
        if isinstance(one, dict) and one.get("sender") == ALPHA:
            ((answers,),) = beta.sql(DELIVER, ALPHA, json.dumps([one, good]), role="exchange")
            assert answers == ["refused: this is no envelope", "taken"]
        else:
            with pytest.raises(SqlRefused, match="an envelope of another sender"):
                beta.sql(DELIVER, ALPHA, json.dumps([one, good]), role="exchange")
    for none in ("7", "{}", "null", json.dumps([good] * 65)):
        with pytest.raises(SqlRefused):
            beta.sql(DELIVER, ALPHA, none, role="exchange")
    assert inbox(beta) == [("received", "")]


def test_content_of_a_form_that_no_check_names_is_refused_and_does_not_end_each_tick(
    alpha: Party, beta: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_message(*of: object) -> None:
        raise KeyError("a field of a later version")

    put(alpha, beta, an_envelope(alpha))
    monkeypatch.setattr("pipelines.market.sync.contract_sync.read_message", read_message)
    assert beta.contract_sync.tick().refused == 1
    ((state, reason),) = inbox(beta)
    assert state == "refused"
    assert "no form that Medusa writes (KeyError" in reason
