"""What envelopes say of contracts: proposals and agreements, what is taken back, notice.

A body is JSON. A document comes with the signatures that its sender holds: the provider's alone
makes it an offer, both make it an agreement, none is a proposal of the payer, who signs last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Refused
from medusa_core.market.documents import checked_revision, terms_of
from medusa_core.market.envelopes import SIGNATURE_BYTES, EnvelopeKind
from medusa_core.market.terms import ContractName, Revision, Terms
from medusa_core.names import Participant, check_name

_MS_MAX = 2**53
DOCUMENT_FIELDS = ("document", "expires_at_ms", "proposal", "signatures")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTold:
    """A revision, the signatures that came with it (unverified), until when it is proposed.

    `proposal` is the number of the proposal in the sender's home; None of what is agreed.
    """

    terms: Terms
    document: bytes
    signatures: Mapping[Participant, bytes]
    proposal: int | None
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawalTold:
    """The sender takes back what it proposed, under the number that it has for it."""

    contract: ContractName
    revision: Revision
    proposal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGoTold:
    """The payer will not sign what was taken back: the receiver's proposal of that number."""

    contract: ContractName
    revision: Revision
    proposal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WantTold:
    """The sender lacks what was agreed from a number on."""

    contract: ContractName
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeTold:
    """A contract ends: by whose notice, and when, as the sender reckons."""

    contract: ContractName
    given_by: Participant
    ends_at_ms: int


Told = DocumentTold | WithdrawalTold | LetGoTold | WantTold | NoticeTold


def read_message(kind: EnvelopeKind, body: bytes) -> Told | None:
    """What a body says of contracts; None for kinds that are about something else.

    Raises Refused for anything that is not just such a message.
    """
    try:
        match kind:
            case EnvelopeKind.DOCUMENT:
                return _document(_fields(body, *DOCUMENT_FIELDS))
            case EnvelopeKind.WITHDRAWAL:
                given = _fields(body, "contract", "revision", "proposal")
                return WithdrawalTold(
                    contract=_contract(given),
                    revision=_revision(given),
                    proposal=_whole(given["proposal"]),
                )
            case EnvelopeKind.LET_GO:
                given = _fields(body, "contract", "revision", "proposal")
                return LetGoTold(
                    contract=_contract(given),
                    revision=_revision(given),
                    proposal=_whole(given["proposal"]),
                )
            case EnvelopeKind.WANT:
                given = _fields(body, "contract", "number")
                return WantTold(contract=_contract(given), number=_whole(given["number"]))
            case EnvelopeKind.NOTICE:
                given = _fields(body, "contract", "given_by", "ends_at_ms")
                return NoticeTold(
                    contract=_contract(given),
                    given_by=Participant(check_name("participant", given["given_by"])),
                    ends_at_ms=_whole(given["ends_at_ms"]),
                )
            case _:
                return None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise Refused(f"this is no {kind.value}: send one as Medusa writes it") from None


def _fields(body: bytes, *names: str) -> Mapping[str, Any]:
    given = json.loads(body)
    if not isinstance(given, dict) or set(given) != set(names):
        raise ValueError("not these fields")
    return given


def _document(given: Mapping[str, Any]) -> DocumentTold:
    document = given["document"].encode() if isinstance(given["document"], str) else b""
    terms = terms_of(document)
    signatures = {
        Participant(check_name("participant", party)): bytes.fromhex(text)
        for party, text in given["signatures"].items()
    }
    for party, signature in signatures.items():
        if party not in terms.parties or len(signature) != SIGNATURE_BYTES:
            raise Refused(f"{party} signs contract {terms.contract}, which has no part in it")
    expires, proposal = given["expires_at_ms"], given["proposal"]
    return DocumentTold(
        terms=terms,
        document=document,
        signatures=signatures,
        proposal=None if proposal is None else _whole(proposal),
        expires_at_ms=None if expires is None else _whole(expires),
    )


def _contract(given: Mapping[str, Any]) -> ContractName:
    return ContractName(check_name("contract", given["contract"]))


def _revision(given: Mapping[str, Any]) -> Revision:
    return checked_revision(given["revision"])


def _whole(given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < _MS_MAX:
        return given
    raise ValueError(f"{str(given)[:40]!r} is no whole number")
