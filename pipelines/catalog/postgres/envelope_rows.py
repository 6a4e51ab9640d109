"""Envelopes as rows of a home, and as they are put into a partner's."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import RowMapping

from medusa_core.errors import Refused
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.names import Participant
from medusa_core.protocol.envelope_documents import envelope_fields


def envelope_of(row: RowMapping, kind: EnvelopeKind, sender: Participant) -> Envelope:
    """The envelope of a row of the inbox or the outbox."""
    return Envelope(
        kind=kind,
        sender=sender,
        receiver=Participant(row["receiver"]),
        nonce=row["nonce"],
        sent_at_ms=row["sent_at_ms"],
        expires_at_ms=row["expires_at_ms"],
        body=bytes(row["body"]),
        signature=bytes(row["signature"]),
    )


def envelopes_document(envelopes: Sequence[Envelope]) -> str:
    """What medusa_market.take_envelopes takes."""
    return json.dumps([envelope_fields(one) for one in envelopes])


def answers_of(given: object, count: int, partner: str) -> tuple[str, ...]:
    """The answers of a partner's home to `count` envelopes. Raises Refused for any other form."""
    if isinstance(given, list) and len(given) == count and all(isinstance(a, str) for a in given):
        return tuple(given)
    raise Refused(f"{partner} answers envelopes in a form that is not Medusa's")
