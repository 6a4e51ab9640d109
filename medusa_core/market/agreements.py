"""The content of envelopes about contracts: proposals, agreements, notice, holdings.

A body is JSON. A document is sent with the signatures that its sender holds: the provider's alone
makes it an offer, both make it an agreement, none is a proposal of the payer, who signs last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import WRONG_FORM, Refused
from medusa_core.market.bill_messages import (
    BillEnvelope,
    read_concession,
    read_statement_answer,
    read_statement_message,
)
from medusa_core.market.converging import Holding
from medusa_core.market.definitions import (
    DefinedEnvelope,
    DefinitionEnvelope,
    message_of_definition,
)
from medusa_core.market.documents import terms_of
from medusa_core.market.envelopes import SIGNATURE_BYTES, EnvelopeKind
from medusa_core.market.message_fields import (
    contract_field,
    message_fields,
    signature_of,
    whole_number,
)
from medusa_core.market.moves import (
    MovedEnvelope,
    MoveEnvelope,
    message_of_move,
    message_of_moved,
)
from medusa_core.market.terms import ContractName, Revision, Terms, checked_revision
from medusa_core.names import Participant, StreamName, check_name

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DOCUMENT_FIELDS = ("confirmation", "document", "expires_at_ms", "proposal", "signatures")
NOTICES_MAX = 16
REASON_LENGTH_MAX = 2_000
HOLDINGS_MAX = 256
"""The most contracts in one message of what is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEnvelope:
    """A revision, the signatures that came with it (unverified), until when it is proposed.

    `confirmation` is the provider's under its statement that it holds it. `proposal` is the number
    of the proposal in the sender's home; None of what is agreed.
    """

    terms: Terms
    document: bytes
    signatures: Mapping[Participant, bytes]
    confirmation: bytes | None
    proposal: int | None
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawalEnvelope:
    """The sender takes back what it proposed, under the number that it has for it."""

    contract: ContractName
    revision: Revision
    proposal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEnvelope:
    """The payer will not sign what was taken back: the receiver's proposal of that number."""

    contract: ContractName
    revision: Revision
    proposal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRequest:
    """The sender lacks what was agreed from a number on."""

    contract: ContractName
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeStatement:
    """Whose notice of a contract ends it when, as `stated_by` reckons and has signed."""

    given_by: Participant
    stated_by: Participant
    ends_at_ms: int
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeEnvelope:
    """A contract ends: all that the sender knows of that, from both parties (unverified)."""

    contract: ContractName
    statements: tuple[NoticeStatement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalEnvelope:
    """The provider does not take what the payer has agreed: it came too late. `newest` is the last
    number that it holds (0: none)."""

    contract: ContractName
    number: int
    revision: Revision
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEnvelope:
    """Of all that is agreed with the receiver one hash (64 hexadecimal digits), and which
    incarnation of its home the sender speaks of: another one was set back, or made anew."""

    incarnation: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingsEnvelope:
    """What is agreed with the receiver, of the contracts whose names come after `after` and not
    after `until` (None: from the first, to the last)."""

    after: ContractName | None
    until: ContractName | None
    holdings: tuple[Holding, ...]


AgreementEnvelope = (
    DocumentEnvelope
    | WithdrawalEnvelope
    | ReleaseEnvelope
    | DocumentRequest
    | NoticeEnvelope
    | RefusalEnvelope
    | StatusEnvelope
    | HoldingsEnvelope
    | DefinitionEnvelope
    | DefinedEnvelope
    | MoveEnvelope
    | MovedEnvelope
    | BillEnvelope
)


def holds_statement(revision: Revision) -> str:
    """What a provider signs to say that it holds an agreement."""
    return f"holds {revision}"


def ends_statement(contract: ContractName, given_by: Participant, ends_at_ms: int) -> str:
    """What a party signs to say when a contract ends by somebody's notice."""
    return f"ends {contract} {given_by} {ends_at_ms}"


def read_message(kind: EnvelopeKind, body: bytes) -> AgreementEnvelope | None:
    """What a body says of contracts; None for kinds that are about something else.

    Raises Refused for anything that is not just such a message.
    """
    try:
        match kind:
            case EnvelopeKind.DOCUMENT:
                # Written before homes stated what they hold, and still in transit.
                return _document(message_fields(body, *DOCUMENT_FIELDS, later=("confirmation",)))
            case EnvelopeKind.WITHDRAWAL:
                given = message_fields(body, "contract", "revision", "proposal")
                return WithdrawalEnvelope(
                    contract=contract_field(given),
                    revision=_revision(given),
                    proposal=whole_number(given["proposal"]),
                )
            case EnvelopeKind.LET_GO:
                given = message_fields(body, "contract", "revision", "proposal")
                return ReleaseEnvelope(
                    contract=contract_field(given),
                    revision=_revision(given),
                    proposal=whole_number(given["proposal"]),
                )
            case EnvelopeKind.WANT:
                given = message_fields(body, "contract", "number")
                return DocumentRequest(
                    contract=contract_field(given), number=whole_number(given["number"])
                )
            case EnvelopeKind.NOTICE:
                return _notice(message_fields(body, "contract", "statements"))
            case EnvelopeKind.REFUSAL:
                given = message_fields(body, "contract", "number", "revision", "newest")
                return RefusalEnvelope(
                    contract=contract_field(given),
                    number=whole_number(given["number"]),
                    revision=_revision(given),
                    newest=whole_number(given["newest"]),
                )
            case EnvelopeKind.STATUS:
                given = message_fields(body, "incarnation", "digest")
                return StatusEnvelope(
                    incarnation=_incarnation(given["incarnation"]),
                    digest=checked_revision(given["digest"]),
                )
            case EnvelopeKind.DEFINITION:
                return message_of_definition(body)
            case EnvelopeKind.DEFINED:
                given = message_fields(body, "contract", "name", "state", "reason")
                reason = given["reason"]
                return DefinedEnvelope(
                    contract=contract_field(given),
                    name=StreamName(check_name("definition", given["name"])),
                    state=check_name("state", given["state"]),
                    reason=None if reason is None else str(reason)[:REASON_LENGTH_MAX],
                )
            case EnvelopeKind.MOVE:
                return message_of_move(body)
            case EnvelopeKind.MOVED:
                return message_of_moved(body)
            case EnvelopeKind.BILL:
                return read_statement_message(body)
            case EnvelopeKind.BILL_ANSWER:
                return read_statement_answer(body)
            case EnvelopeKind.BILL_CONCESSION:
                return read_concession(body)
            case EnvelopeKind.HOLDINGS:
                return _holdings(message_fields(body, "after", "until", "holdings"))
            case _:
                return None
    except WRONG_FORM:
        raise Refused(f"this is no {kind.value}: send one as Medusa writes it") from None


def _document(given: Mapping[str, Any]) -> DocumentEnvelope:
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
    confirmation = given["confirmation"]
    return DocumentEnvelope(
        terms=terms,
        document=document,
        signatures=signatures,
        confirmation=None if confirmation is None else signature_of(confirmation),
        proposal=None if proposal is None else whole_number(proposal),
        expires_at_ms=None if expires is None else whole_number(expires),
    )


def _notice(given: Mapping[str, Any]) -> NoticeEnvelope:
    statements = tuple(
        NoticeStatement(
            given_by=Participant(check_name("participant", one["given_by"])),
            stated_by=Participant(check_name("participant", one["stated_by"])),
            ends_at_ms=whole_number(one["ends_at_ms"]),
            signature=signature_of(one["signature"]),
        )
        for one in _list(given["statements"], NOTICES_MAX)
    )
    return NoticeEnvelope(contract=contract_field(given), statements=statements)


def _holdings(given: Mapping[str, Any]) -> HoldingsEnvelope:
    def name(of: object) -> ContractName | None:
        return None if of is None else ContractName(check_name("contract", str(of)))

    holdings = HoldingsEnvelope(
        after=name(given["after"]),
        until=name(given["until"]),
        holdings=tuple(
            Holding(
                contract=contract_field(one),
                number=whole_number(one["number"]),
                revision=_revision(one),
                ends_at_ms=None if one["ends_at_ms"] is None else whole_number(one["ends_at_ms"]),
            )
            for one in _list(given["holdings"], HOLDINGS_MAX)
        ),
    )
    names = [holding.contract for holding in holdings.holdings]
    if any(
        (holdings.after is not None and name <= holdings.after)
        or (holdings.until is not None and name > holdings.until)
        for name in names
    ) or len(set(names)) < len(names):  # fmt: skip
        raise ValueError("not the contracts of this range, each once")
    return holdings


def _incarnation(given: object) -> str:
    if isinstance(given, str) and _UUID.fullmatch(given):
        return given
    raise ValueError("no incarnation")


def _list(given: object, most: int) -> list[Any]:
    if isinstance(given, list) and len(given) <= most:
        return given
    raise ValueError(f"{str(given)[:40]!r} is no list of {most} at most")


def _revision(given: Mapping[str, Any]) -> Revision:
    return checked_revision(given["revision"])
