"""A contract's one document: the same terms give the same bytes, and so the same revision.

JSON with sorted keys and no white space; amounts are texts without trailing zeros, sets are sorted
lists, and texts are what names and currencies may be, so that nothing has two forms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

from medusa_core.commits import Cause
from medusa_core.errors import WRONG_FORM, Refused
from medusa_core.market.term_rules import WHOLE_MAX
from medusa_core.market.terms import (
    Availability,
    BillingUnit,
    BoxKind,
    Content,
    ContractKind,
    ContractName,
    Method,
    Movement,
    PriceRange,
    Recovery,
    Revision,
    Subject,
    Suggested,
    Terms,
    plain,
)
from medusa_core.names import Participant, StreamName

FORMAT = "medusa.contract/1"
DOCUMENT_BYTES_MAX = 64 * 1024


def fields_of(terms: Terms) -> dict[str, Any]:
    """Terms as JSON has them: what stands in the document, and in the catalog."""
    return {
        "format": FORMAT,
        "contract": terms.contract,
        "number": terms.number,
        "supersedes": terms.supersedes,
        "kind": terms.kind.value,
        "payer": terms.payer,
        "provider": terms.provider,
        "currency": terms.currency,
        "valid_from_ms": terms.valid_from_ms,
        "valid_until_ms": terms.valid_until_ms,
        "settlement_ms": terms.settlement_ms,
        "notice_ms": terms.notice_ms,
        "subject": _subject_fields(terms.subject),
    }


def document_of(terms: Terms) -> bytes:
    """The canonical bytes that both parties sign."""
    fields = fields_of(terms)
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def revision_of(terms: Terms) -> Revision:
    """The hash of the document."""
    return Revision(sha256(document_of(terms)).hexdigest())


def terms_of(document: bytes) -> Terms:
    """The terms in a document; Refused unless it is canonical and its terms agree."""
    if len(document) > DOCUMENT_BYTES_MAX:
        raise Refused(f"a contract of {len(document):,} bytes: none is longer than 64 KiB")
    try:
        given = json.loads(document)
    except (ValueError, RecursionError):
        raise Refused("this is no contract's document: send one as Medusa writes it") from None
    terms = terms_from(given)
    if document_of(terms) != document:
        raise Refused(
            f"the document of contract {terms.contract} is not written as Medusa writes it: its "
            "hash would not be its terms'"
        )
    return terms


def terms_from(given: object) -> Terms:
    """The terms that JSON says; Refused for anything that is not just that."""
    try:
        match given:
            case dict() as fields if fields.get("format") == FORMAT:
                return _terms(fields)
            case _:
                raise Refused(f"this is no contract: a document begins with format {FORMAT}")
    except WRONG_FORM as error:
        raise Refused(f"this is no contract's document: {error!r} where its terms belong") from None


def _terms(given: Mapping[str, Any]) -> Terms:
    supersedes = given["supersedes"]
    terms = Terms(
        contract=ContractName(_text(given["contract"])),
        number=_whole(given["number"]),
        supersedes=None if supersedes is None else Revision(_text(supersedes)),
        payer=Participant(_text(given["payer"])),
        provider=Participant(_text(given["provider"])),
        currency=_text(given["currency"]),
        valid_from_ms=_whole(given["valid_from_ms"]),
        valid_until_ms=_whole(given["valid_until_ms"]),
        settlement_ms=_whole(given["settlement_ms"]),
        notice_ms=_whole(given["notice_ms"]),
        subject=_subject(ContractKind(given["kind"]), given["subject"]),
    )
    if fields_of(terms) != given:
        raise Refused(
            f"the terms of contract {terms.contract} hold more than a contract says, or say it "
            "otherwise: send them as Medusa writes them"
        )
    return terms


def _subject_fields(subject: Subject) -> dict[str, Any]:
    match subject:
        case Movement():
            fragments = None if subject.fragments is None else sorted(subject.fragments)
            return {
                "price_low": plain(subject.price.low),
                "price_high": plain(subject.price.high),
                "price_step": plain(subject.price.step),
                "fragments": fragments,
                "load_max": plain(subject.load_max),
                "availability": _availability_fields(subject.availability),
                "penalty": plain(subject.penalty),
                "hold_ms_max": subject.hold_ms_max,
                **_billing_fields(subject),
                **({} if subject.reads is None else {"reads": sorted(subject.reads)}),
                **({} if subject.verify is None else {"verify": plain(subject.verify)}),
            }
        case Content():
            return {
                "stream": subject.stream,
                "price": plain(subject.price),
                "per": subject.per.value,
                "availability": _availability_fields(subject.availability),
                "penalty": plain(subject.penalty),
                "hold_ms_max": subject.hold_ms_max,
                **_boxes_fields(subject),
            }
        case Suggested():
            return {"stream": subject.stream, "instead": subject.instead}


def _billing_fields(subject: Movement) -> dict[str, Any]:
    """Those that there are: documents of earlier versions keep their revisions."""
    fields: dict[str, Any] = {}
    if subject.billed is not None:
        fields["billed"] = sorted(cause.value for cause in subject.billed)
    if subject.reference is not None:
        fields["reference"] = sorted(subject.reference)
    return fields


def _boxes_fields(subject: Content) -> dict[str, Any]:
    """Nothing where the payer may define none: those documents keep their revisions."""
    if subject.boxes is None or subject.load_max is None:
        return {}
    return {
        "boxes": sorted(kind.value for kind in subject.boxes),
        "load_max": plain(subject.load_max),
    }


def _subject(kind: ContractKind, given: Mapping[str, Any]) -> Subject:
    match kind:
        case ContractKind.MOVEMENT:
            fragments = given["fragments"]
            return Movement(
                price=PriceRange(
                    low=_amount(given["price_low"]),
                    high=_amount(given["price_high"]),
                    step=_amount(given["price_step"]),
                ),
                fragments=None if fragments is None else frozenset(fragments),
                load_max=_amount(given["load_max"]),
                reference=_texts(given["reference"]) if "reference" in given else None,
                billed=frozenset(map(Cause, given["billed"])) if "billed" in given else None,
                availability=_availability(given["availability"]),
                penalty=_amount(given["penalty"]),
                hold_ms_max=_whole(given["hold_ms_max"]),
                reads=frozenset(given["reads"]) if "reads" in given else None,
                verify=_amount(given["verify"]) if "verify" in given else None,
            )
        case ContractKind.CONTENT:
            return Content(
                stream=StreamName(_text(given["stream"])),
                price=_amount(given["price"]),
                per=BillingUnit(given["per"]),
                availability=_availability(given["availability"]),
                penalty=_amount(given["penalty"]),
                hold_ms_max=_whole(given["hold_ms_max"]),
                boxes=frozenset(map(BoxKind, given["boxes"])) if "boxes" in given else None,
                load_max=_amount(given["load_max"]) if "load_max" in given else None,
            )
        case ContractKind.SUGGESTED:
            return Suggested(
                stream=StreamName(_text(given["stream"])),
                instead=Participant(_text(given["instead"])),
            )


def _availability_fields(availability: Availability) -> dict[str, Any]:
    return {
        "recovery": availability.recovery.value,
        "method": availability.method.value,
        "replicas": availability.replicas,
        "bound_ms": availability.bound_ms,
    }


def _availability(given: Mapping[str, Any]) -> Availability:
    bound_ms = given["bound_ms"]
    return Availability(
        recovery=Recovery(given["recovery"]),
        method=Method(given["method"]),
        replicas=_whole(given["replicas"]),
        bound_ms=None if bound_ms is None else _whole(bound_ms),
    )


def _whole(given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) <= WHOLE_MAX:
        return given
    raise ValueError(f"{str(given)[:40]!r}, which is no whole number")


def _text(given: object) -> str:
    if isinstance(given, str):
        return given
    raise ValueError(f"{str(given)[:40]!r}, which is no text")


def _texts(given: object) -> frozenset[str]:
    return frozenset(map(_text, given)) if isinstance(given, list) else frozenset()


def _amount(given: object) -> Decimal:
    return Decimal(_text(given)[:40])
