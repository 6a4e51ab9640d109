"""What envelopes say of contracts is read exactly, or refused: nothing is guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medusa_core.errors import Refused
from medusa_core.market.agreements import (
    HOLDINGS_MAX,
    NOTICES_MAX,
    DocumentEnvelope,
    DocumentRequest,
    HoldingsEnvelope,
    NoticeEnvelope,
    RefusalEnvelope,
    StatusEnvelope,
    WithdrawalEnvelope,
    read_message,
)
from medusa_core.market.documents import document_of
from medusa_core.market.envelopes import SIGNATURE_BYTES, EnvelopeKind
from medusa_core.market.terms import ContractName, Suggested, Terms
from medusa_core.names import Participant, StreamName

TERMS = Terms(
    contract=ContractName("spare_load"),
    number=1,
    supersedes=None,
    payer=Participant("alpha"),
    provider=Participant("beta"),
    currency="EUR",
    valid_from_ms=1_700_000_000_000,
    valid_until_ms=4_000_000_000_000,
    settlement_ms=86_400_000,
    notice_ms=86_400_000,
    subject=Suggested(stream=StreamName("sums"), instead=Participant("gamma")),
)
REVISION, SIGNED = "a1" * 32, "0b" * SIGNATURE_BYTES
HOLDING = {"contract": "b", "number": 1, "revision": REVISION, "ends_at_ms": None}
NOTICE = {"given_by": "alpha", "stated_by": "beta", "ends_at_ms": 5, "signature": SIGNED}
BODIES: dict[EnvelopeKind, dict[str, Any]] = {
    EnvelopeKind.DOCUMENT: {
        "confirmation": SIGNED,
        "document": document_of(TERMS).decode(),
        "expires_at_ms": 7,
        "proposal": 3,
        "signatures": {"alpha": SIGNED, "beta": SIGNED},
    },
    EnvelopeKind.WITHDRAWAL: {"contract": "a", "revision": REVISION, "proposal": 2},
    EnvelopeKind.LET_GO: {"contract": "a", "revision": REVISION, "proposal": 2},
    EnvelopeKind.WANT: {"contract": "a", "number": 1},
    EnvelopeKind.NOTICE: {"contract": "a", "statements": [NOTICE]},
    EnvelopeKind.REFUSAL: {"contract": "a", "number": 1, "revision": REVISION, "newest": 0},
    EnvelopeKind.STATUS: {
        "incarnation": "01234567-89ab-cdef-0123-456789abcdef",
        "digest": REVISION,
    },
    EnvelopeKind.HOLDINGS: {"after": "a", "until": "c", "holdings": [HOLDING]},
}


def read(kind: EnvelopeKind, **changes: Any) -> object:
    return read_message(kind, json.dumps(BODIES[kind] | changes).encode())


def test_each_kind_of_message_is_read_as_it_was_written() -> None:
    document = read(EnvelopeKind.DOCUMENT)
    assert isinstance(document, DocumentEnvelope)
    assert (document.terms, document.proposal, document.expires_at_ms) == (TERMS, 3, 7)
    assert set(document.signatures) == {"alpha", "beta"}
    assert document.confirmation == bytes.fromhex(SIGNED)
    withdrawal = read(EnvelopeKind.WITHDRAWAL)
    assert isinstance(withdrawal, WithdrawalEnvelope)
    assert (withdrawal.contract, withdrawal.revision, withdrawal.proposal) == ("a", REVISION, 2)
    assert read(EnvelopeKind.WANT) == DocumentRequest(contract="a", number=1)  # type: ignore[arg-type]
    notice = read(EnvelopeKind.NOTICE)
    assert isinstance(notice, NoticeEnvelope)
    (statement,) = notice.statements
    assert (statement.given_by, statement.stated_by, statement.ends_at_ms) == ("alpha", "beta", 5)
    refusal = read(EnvelopeKind.REFUSAL)
    assert isinstance(refusal, RefusalEnvelope)
    assert (refusal.number, refusal.revision, refusal.newest) == (1, REVISION, 0)
    status = read(EnvelopeKind.STATUS)
    assert isinstance(status, StatusEnvelope)
    assert status.digest == REVISION
    holdings = read(EnvelopeKind.HOLDINGS)
    assert isinstance(holdings, HoldingsEnvelope)
    assert (holdings.after, holdings.until, len(holdings.holdings)) == ("a", "c", 1)
    assert read_message(EnvelopeKind.OFFER, b"{}") is None


def test_a_document_may_lack_what_later_versions_added_and_be_unsigned() -> None:
    body = {k: v for k, v in BODIES[EnvelopeKind.DOCUMENT].items() if k != "confirmation"}
    read_ = read_message(EnvelopeKind.DOCUMENT, json.dumps(body | {"signatures": {}}).encode())
    assert isinstance(read_, DocumentEnvelope)
    assert (read_.confirmation, dict(read_.signatures)) == (None, {})
    unsent = read(EnvelopeKind.DOCUMENT, proposal=None, expires_at_ms=None)
    assert isinstance(unsent, DocumentEnvelope)
    assert (unsent.proposal, unsent.expires_at_ms) == (None, None)


WRONG: list[tuple[EnvelopeKind, dict[str, Any]]] = [
    (EnvelopeKind.WANT, {"number": True}),
    (EnvelopeKind.WANT, {"number": -1}),
    (EnvelopeKind.WANT, {"number": 2**53}),
    (EnvelopeKind.WANT, {"number": 1.0}),
    (EnvelopeKind.WANT, {"number": "1"}),
    (EnvelopeKind.WANT, {"contract": "A b"}),
    (EnvelopeKind.WANT, {"more": 1}),
    (EnvelopeKind.WITHDRAWAL, {"revision": "a1"}),
    (EnvelopeKind.DOCUMENT, {"signatures": {"gamma": SIGNED}}),
    (EnvelopeKind.DOCUMENT, {"signatures": {"alpha": SIGNED + "00"}}),
    (EnvelopeKind.DOCUMENT, {"signatures": {"alpha": SIGNED[2:]}}),
    (EnvelopeKind.DOCUMENT, {"confirmation": SIGNED[2:]}),
    (EnvelopeKind.DOCUMENT, {"confirmation": 5}),
    (EnvelopeKind.DOCUMENT, {"document": 5}),
    (EnvelopeKind.NOTICE, {"statements": [NOTICE] * (NOTICES_MAX + 1)}),
    (EnvelopeKind.NOTICE, {"statements": {"0": NOTICE}}),
    (EnvelopeKind.NOTICE, {"statements": [NOTICE | {"signature": SIGNED[2:]}]}),
    (EnvelopeKind.NOTICE, {"statements": [NOTICE | {"stated_by": "B b"}]}),
    (EnvelopeKind.STATUS, {"incarnation": "0123"}),
    (EnvelopeKind.STATUS, {"incarnation": 5}),
    (EnvelopeKind.STATUS, {"digest": "zz" * 32}),
    (EnvelopeKind.HOLDINGS, {"holdings": [HOLDING, HOLDING]}),
    (EnvelopeKind.HOLDINGS, {"holdings": [HOLDING | {"contract": "a"}]}),
    (EnvelopeKind.HOLDINGS, {"holdings": [HOLDING | {"contract": "d"}]}),
    (EnvelopeKind.HOLDINGS, {"holdings": [HOLDING | {"ends_at_ms": -5}]}),
    (EnvelopeKind.HOLDINGS, {
        "until": None,
        "holdings": [HOLDING | {"contract": f"b{n}"} for n in range(HOLDINGS_MAX + 1)],
    }),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes"), WRONG)
def test_a_message_that_says_anything_else_is_refused(
    kind: EnvelopeKind, changes: dict[str, Any]
) -> None:
    with pytest.raises(Refused):
        read(kind, **changes)


def test_as_much_as_is_allowed_is_read() -> None:
    notice = read(EnvelopeKind.NOTICE, statements=[NOTICE] * NOTICES_MAX)
    assert isinstance(notice, NoticeEnvelope)
    assert len(notice.statements) == NOTICES_MAX
    many = [HOLDING | {"contract": f"b{n}", "number": 2**53 - 1} for n in range(HOLDINGS_MAX)]
    holdings = read(EnvelopeKind.HOLDINGS, after=None, until=None, holdings=many)
    assert isinstance(holdings, HoldingsEnvelope)
    assert len(holdings.holdings) == HOLDINGS_MAX
    last = read(EnvelopeKind.HOLDINGS, holdings=[HOLDING | {"contract": "c", "ends_at_ms": 0}])
    assert isinstance(last, HoldingsEnvelope)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b"[" * 90_000, b"\xff"])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        read_message(EnvelopeKind.WANT, body)
