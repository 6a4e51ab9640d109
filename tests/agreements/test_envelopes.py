"""What comes in the name of a partner counts only if it is the partner's, new, and meant for us."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from medusa_core.errors import Refused
from medusa_core.market.agreements import read_message
from medusa_core.market.documents import document_of, revision_of
from medusa_core.market.envelopes import (
    BODY_BYTES_MAX,
    LIFETIME_MS_MAX,
    Envelope,
    EnvelopeKind,
    contract_bytes,
)
from medusa_core.market.terms import Terms
from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import (
    ALPHA,
    BETA,
    DAY_MS,
    GAMMA,
    INSERT,
    Party,
    a_key,
    agree,
    some_terms,
)

NONCES = count(1)


def a_body(terms: Terms, **changes: Any) -> bytes:
    document = {
        "confirmation": None,
        "document": document_of(terms).decode(),
        "expires_at_ms": None,
        "proposal": 1,
        "signatures": {},
    }
    return json.dumps(document | changes).encode()


def an_envelope(party: Party, body: bytes = b"", **changes: Any) -> Envelope:
    """From alpha to beta, by alpha's key, unless it says otherwise."""
    ((now_ms,),) = party.sql("SELECT medusa.to_ms(clock_timestamp())", role="job")
    if not body:
        body = a_body(some_terms(), expires_at_ms=now_ms + DAY_MS)
    key = changes.pop("key", a_key(ALPHA))
    envelope = Envelope(
        kind=EnvelopeKind.DOCUMENT,
        sender=ALPHA,
        receiver=BETA,
        nonce=f"{next(NONCES):032x}",
        sent_at_ms=now_ms,
        expires_at_ms=now_ms + DAY_MS,
        body=body,
    )
    signature = changes.pop("signature", None)
    envelope = replace(envelope, **changes)
    return replace(envelope, signature=signature or key.sign(envelope.bytes_to_sign))


def inbox(party: Party) -> list[tuple[Any, ...]]:
    return party.sql(
        "SELECT state, coalesce(reason, '') FROM medusa_api.inbox ORDER BY envelope_id"
    )


def put(sender: Party, receiver: Party, *envelopes: Envelope) -> tuple[str, ...]:
    return sender.post.exchange.deliver(receiver.name, envelopes)


def test_what_is_the_partners_counts(alpha: Party, beta: Party) -> None:
    assert put(alpha, beta, an_envelope(alpha)) == ("taken",)
    beta.contract_sync.tick()
    assert inbox(beta) == [("handled", "")]
    assert beta.shows()[0] == "requested"


def _altered(envelope: Envelope) -> Envelope:
    return replace(envelope, body=envelope.body.replace(b"EUR", b"USD"))


def _another(**changes: Any) -> Callable[[Party], Envelope]:
    return lambda party: an_envelope(party, **changes)


def _signed_by(party: str, **changes: Any) -> Callable[[Party], Envelope]:
    """A document with a signature of beta's (in its name), sent by beta to alpha."""

    def make(at: Party) -> Envelope:
        signature = a_key(party).sign(contract_bytes(revision_of(some_terms(**changes))))
        body = a_body(some_terms(), signatures={BETA: signature.hex()})
        return an_envelope(at, body, sender=BETA, receiver=ALPHA, key=a_key(BETA))

    return make


def _with_signatures(signatures: Any) -> Callable[[Party], Envelope]:
    return lambda party: an_envelope(party, a_body(some_terms(), signatures=signatures))


BAD: dict[str, tuple[Callable[[Party], Envelope], str]] = {
    "with signatures that are a list": (_with_signatures([]), ""),
    "with signatures that are a text": (_with_signatures("beta"), ""),
    "with a signature that is a number": (_with_signatures({BETA: 1}), ""),
    "forged with another key": (_another(key=a_key(GAMMA)), "forged or altered"),
    "altered": (lambda party: _altered(an_envelope(party)), "forged or altered"),
    "said to be from another time": (
        lambda party: replace(an_envelope(party), sent_at_ms=5), "forged or altered"),
    "with another nonce than was signed": (
        lambda party: replace(an_envelope(party), nonce="f" * 32), "forged or altered"),
    "for somebody else": (_another(receiver=GAMMA), "it is meant for gamma"),
    "stale": (_another(sent_at_ms=5, expires_at_ms=6), "its time has passed"),
    "from the future": (
        _another(sent_at_ms=10**15, expires_at_ms=10**15), "set the clocks"),
    "good for ever": (
        _another(sent_at_ms=5, expires_at_ms=6 + LIFETIME_MS_MAX), "more than 31 days"),
    "of somebody without a part in it": (
        _another(sender=GAMMA, key=a_key(GAMMA)), "which is not a party to it"),
    "no JSON": (_another(body=b"{"), "this is no document"),
    "deep": (_another(body=b"[" * 90_000), "this is no document"),
    "more than a document": (
        _another(body=a_body(some_terms(), more=1)), "this is no document"),
    "not written as Medusa writes it": (
        _another(body=a_body(some_terms()).replace(b'\\"1.2\\"', b'\\"1.20\\"')),
        "send them as Medusa writes them"),
    "a contract of others": (
        _another(body=a_body(some_terms(payer=GAMMA))), "which is not a party to it"),
    "the next of a contract that is not there": (
        _another(body=a_body(some_terms(number=2, supersedes="0" * 64))), ""),
    "a notice in another form": (
        _another(kind=EnvelopeKind.NOTICE,
                 body=b'{"contract":"spare_load","given_by":"alpha","ends_at_ms":5}'),
        "this is no notice"),
    "a notice that its giver has not signed": (
        _another(kind=EnvelopeKind.NOTICE, body=(
            b'{"contract":"spare_load","statements":[{"given_by":"alpha","stated_by":"alpha",'
            b'"ends_at_ms":5,"signature":"' + b"0" * 128 + b'"}]}')),
        "is not signed by a key of alpha"),
    "signed by another": (_signed_by(GAMMA), "not signed by a key of beta"),
    "signed for another document": (
        _signed_by(BETA, currency="USD"), "not signed by a key of beta"),
}  # fmt: skip


def test_whatever_is_wrong_with_an_envelope_it_is_recorded_with_the_reason_and_counts_for_nothing(
    alpha: Party, beta: Party
) -> None:
    parties = {ALPHA: alpha, BETA: beta, GAMMA: beta}
    for what, (make, reason) in BAD.items():
        envelope = make(alpha)
        at = parties[envelope.receiver]
        assert put(alpha if at is beta else beta, at, envelope) == ("taken",)
        at.contract_sync.tick()
        state, output = inbox(at)[-1]
        if reason:
            assert (state, reason in output) == ("refused", True), (what, output)
        assert at.shows() == (), what
        assert at.proposals() == [], what


@pytest.mark.long(quick=True)
def test_what_is_put_in_again_counts_once(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    recorded = list(alpha.post.seen)
    alpha.sql("UPDATE medusa_api.contract SET price_high = 1.3 WHERE contract = 'spare_load'")
    settle((alpha.contract_sync, beta.contract_sync))
    alpha.sql("SELECT medusa_api.withdraw_contract('spare_load')")
    settle((alpha.contract_sync, beta.contract_sync))
    recorded = list(alpha.post.seen)
    before, proposals = beta.shows(), beta.proposals()
    put(alpha, beta, *recorded)
    settle((alpha.contract_sync, beta.contract_sync))
    assert (beta.shows(), beta.proposals()) == (before, proposals)
    ((repeats,),) = beta.sql("SELECT sum(repeats) FROM medusa_api.inbox")
    assert repeats == len(recorded)


def test_a_nonce_counts_once_whatever_is_sealed_with_it(alpha: Party, beta: Party) -> None:
    first = an_envelope(alpha)
    second = an_envelope(alpha, nonce=first.nonce, body=a_body(some_terms(currency="USD")))
    put(alpha, beta, first, second)
    beta.contract_sync.tick()
    assert [state for state, _ in inbox(beta)] == ["handled", "refused"]
    assert "replay" in inbox(beta)[1][1]
    assert beta.shows(columns="currency") == ("EUR",)


def test_what_is_sent_to_one_partner_is_nothing_to_another(
    alpha: Party, beta: Party, gamma: Party
) -> None:
    put(alpha, gamma, an_envelope(alpha))
    gamma.contract_sync.tick()
    assert inbox(gamma) == [("refused", "it is meant for beta, not for gamma")]


def test_what_is_too_long_is_refused_at_the_door_and_recorded(alpha: Party, beta: Party) -> None:
    (answer,) = put(alpha, beta, an_envelope(alpha, body=b"x" * (BODY_BYTES_MAX + 1)))
    assert "longer than 96 KiB" in answer
    assert inbox(beta) == [("refused", "it is longer than 96 KiB")]
    ((size,),) = beta.sql("SELECT sum(octet_length(body)) FROM medusa_market.inbox")
    assert size == 0


@pytest.mark.long(quick=True)
def test_a_contract_is_agreed_with_a_partner_that_has_lost_its_home(
    alpha: Party, beta: Party, agreeing_wipe: Callable[[str], None]
) -> None:
    agree(alpha, beta)
    alpha.sql("UPDATE medusa_api.contract SET price_high = 1.3")
    beta.sql("UPDATE medusa_api.contract SET price_high = 1.3")
    settle((alpha.contract_sync, beta.contract_sync))
    for lost, other in ((beta, alpha), (alpha, beta)):
        agreeing_wipe(lost.name)
        for name in (ALPHA, BETA):
            lost.agreements.learn_key(name, a_key(name).public_key, "a test")
        lost.sql(INSERT)
        settle((lost.contract_sync, other.contract_sync))
        assert lost.agreements.agreed() == other.agreements.agreed()
        assert lost.shows("spare_load", "state, number") == ("agreed", 2)


@pytest.mark.long(quick=True)
def test_a_partner_with_another_key_is_refused_until_the_owner_says_so(
    alpha: Party, beta: Party
) -> None:
    agree(alpha, beta)
    alpha.key = a_key(ALPHA, 1)
    alpha.sql("SELECT medusa_api.replace_key('alpha', %s)", alpha.key.public_key.hex())
    alpha.contract_sync = alpha.a_contract_sync()
    alpha.sql("UPDATE medusa_api.contract SET price_high = 1.3")
    settle((alpha.contract_sync, beta.contract_sync))
    assert "not by the key of alpha that is known here" in inbox(beta)[-1][1]
    with pytest.raises(Refused, match="replace_key"):
        beta.agreements.learn_key(ALPHA, alpha.key.public_key, "a test")
    beta.sql("SELECT medusa_api.replace_key('alpha', %s)", alpha.key.public_key.hex())
    alpha.sql("UPDATE medusa_api.contract SET price_high = 1.4")
    beta.sql("UPDATE medusa_api.contract SET price_high = 1.4")
    settle((alpha.contract_sync, beta.contract_sync))
    assert alpha.shows("spare_load", "state, number") == ("agreed", 2)
    assert alpha.agreements.agreed() == beta.agreements.agreed()


def test_a_document_that_was_on_its_way_during_an_upgrade_is_read() -> None:
    now = json.loads(a_body(some_terms()))
    before = {field: value for field, value in now.items() if field != "confirmation"}
    kind = EnvelopeKind.DOCUMENT
    assert read_message(kind, json.dumps(before).encode()) == read_message(
        kind, json.dumps(now).encode()
    )
    for field in before:
        less = {name: value for name, value in before.items() if name != field}
        with pytest.raises(Refused, match="this is no document"):
            read_message(kind, json.dumps(less).encode())
