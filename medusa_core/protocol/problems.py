"""Problem details (RFC 9457): an error as a document, and the error that a document describes.

The type of a problem says what the caller should do next, as the error tree does. A problem of a
type that is not known is Unavailable: a newer partner may have others.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from medusa_core.errors import (
    SENTENCE_LENGTH_MAX,
    Conflict,
    Diverged,
    Expired,
    MedusaError,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from medusa_core.protocol.call_documents import SMALL_BYTES_MAX
from medusa_core.protocol.document_fields import Document, IntegerField, RecordField, TextField
from medusa_core.protocol.news_documents import TO_DO

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:medusa:problem:"


class ProblemKind(Enum):
    """The types of problems."""

    REFUSED = "refused"
    NOT_FOUND = "not-found"
    TOO_LARGE = "too-large"
    EXPIRED = "expired"
    CONFLICT = "conflict"
    UNAUTHORIZED = "unauthorized"
    TOO_MANY_REQUESTS = "too-many-requests"
    UNAVAILABLE = "unavailable"
    OUTCOME_UNKNOWN = "outcome-unknown"
    DIVERGED = "diverged"

    @property
    def status(self) -> int:
        """The HTTP status code of the answer."""
        return _MEANING[self][0]

    @property
    def error(self) -> type[MedusaError]:
        """The error that a caller raises for it."""
        return _MEANING[self][1]


_MEANING: Mapping[ProblemKind, tuple[int, type[MedusaError]]] = {
    ProblemKind.REFUSED: (400, Refused),
    ProblemKind.NOT_FOUND: (404, Refused),
    ProblemKind.TOO_LARGE: (413, Refused),
    ProblemKind.EXPIRED: (410, Expired),
    ProblemKind.CONFLICT: (409, Conflict),
    ProblemKind.UNAUTHORIZED: (401, Unavailable),
    ProblemKind.TOO_MANY_REQUESTS: (429, Unavailable),
    ProblemKind.UNAVAILABLE: (503, Unavailable),
    # Every call may be repeated; of a commit in its own home the caller knows the outcome.
    ProblemKind.OUTCOME_UNKNOWN: (504, Unavailable),
    ProblemKind.DIVERGED: (422, Diverged),
}
_TITLES: Mapping[ProblemKind, str] = {
    ProblemKind.REFUSED: "The request is wrong",
    ProblemKind.NOT_FOUND: "There is nothing of this name for you",
    ProblemKind.TOO_LARGE: "The request is too large",
    ProblemKind.EXPIRED: "What was requested is trimmed",
    ProblemKind.CONFLICT: "Another was first",
    ProblemKind.UNAUTHORIZED: "The request has no valid access token",
    ProblemKind.TOO_MANY_REQUESTS: "The limits of this partner are reached",
    ProblemKind.UNAVAILABLE: "A part that is needed cannot be reached now",
    ProblemKind.OUTCOME_UNKNOWN: "The outcome is not known",
    ProblemKind.DIVERGED: "What must be equal is not",
}
_KIND_OF: tuple[tuple[type[MedusaError], ProblemKind], ...] = (
    (Expired, ProblemKind.EXPIRED),
    (Refused, ProblemKind.REFUSED),
    (Conflict, ProblemKind.CONFLICT),
    (OutcomeUnknown, ProblemKind.OUTCOME_UNKNOWN),
    (Diverged, ProblemKind.DIVERGED),
)

PROBLEM = Document(
    "the problem",
    TO_DO,
    RecordField(
        {
            "type": TextField(200, r"[!-~]+", "a URI"),
            "title": TextField(200),
            "status": IntegerField(400, 599),
            "detail": TextField(SENTENCE_LENGTH_MAX),
        }
    ),
    SMALL_BYTES_MAX,
)


def kind_of(error: MedusaError) -> ProblemKind:
    """The problem that an error is reported as; what is no other is Unavailable."""
    return next((k for of, k in _KIND_OF if isinstance(error, of)), ProblemKind.UNAVAILABLE)


def write_problem(kind: ProblemKind, detail: str) -> bytes:
    """The document of a problem; `detail` is one sentence for a person."""
    return PROBLEM.write(
        {
            "type": f"{TYPE_PREFIX}{kind.value}",
            "title": _TITLES[kind],
            "status": kind.status,
            # An error's text is one printable line of a limited length.
            "detail": str(MedusaError(detail)),
        }
    )


def read_problem(content: bytes, status: int, partner: str) -> MedusaError:
    """The error that a partner's answer with a status describes.

    Never raises: an answer that is no problem document is an error too, by its status.
    """
    try:
        fields: Mapping[str, Any] = PROBLEM.read(content)
    except Refused:
        return Unavailable(f"partner {partner} answers {status} without a reason: {TO_DO}")
    try:
        kind = ProblemKind(fields["type"].removeprefix(TYPE_PREFIX))
    except ValueError:
        return Unavailable(f"partner {partner} answers {status}: {fields['detail']}")
    if kind.status != status or fields["status"] != status:
        return Unavailable(
            f"partner {partner} answers {status} and says {fields['status']}, {kind.value}: {TO_DO}"
        )
    return kind.error(f"partner {partner}: {fields['detail']}")
