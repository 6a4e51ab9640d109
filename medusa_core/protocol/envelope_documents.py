"""The documents of the protocol about envelopes, and the answers to them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medusa_core.market.envelopes import (
    BODY_BYTES_MAX,
    LIFETIME_MS_MAX,
    SIGNATURE_BYTES,
    Envelope,
    EnvelopeKind,
)
from medusa_core.names import Participant
from medusa_core.protocol.call_documents import TIME_MS
from medusa_core.protocol.document_fields import (
    ChoiceField,
    Document,
    ListField,
    RecordField,
    TextField,
    WrongField,
)
from medusa_core.protocol.news_documents import NAME, TO_DO
from medusa_core.suggest import shown

ENVELOPES_MAX = 64
ENVELOPES_BYTES_MAX = 16 << 20
ANSWER_LENGTH_MAX = 2_000
DELIVERIES_BYTES_MAX = 2 << 20
"""Enough for an answer of the largest length to each envelope, whatever its characters."""


@dataclass(frozen=True, slots=True)
class Base64Field:
    """Bytes of a limited number, as base64 in its one canonical form."""

    bytes_max: int

    def check(self, value: Any) -> None:
        """See `Field.check`."""
        if type(value) is not str:
            raise WrongField(f"is {shown(value)}, not text")
        if len(value) > (self.bytes_max + 2) // 3 * 4:
            raise WrongField(f"has {len(value)} characters, more than {self.bytes_max} bytes")
        try:
            content = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise WrongField(f"is {shown(value)}, not base64") from None
        if base64.b64encode(content).decode() != value or len(content) > self.bytes_max:
            raise WrongField(f"is {shown(value)}, not base64 of {self.bytes_max} bytes at most")

    @property
    def schema(self) -> dict[str, Any]:
        """See `Field.schema`."""
        return {
            "type": "string",
            "contentEncoding": "base64",
            "maxLength": (self.bytes_max + 2) // 3 * 4,
        }


ENVELOPE = RecordField(
    {
        "kind": ChoiceField(tuple(kind.value for kind in EnvelopeKind)),
        "sender": NAME,
        "receiver": NAME,
        "nonce": TextField(32, "[0-9a-f]{32}", "a nonce of 32 hexadecimal digits"),
        "sent_at_ms": TIME_MS,
        "expires_at_ms": TIME_MS,
        "body": Base64Field(BODY_BYTES_MAX),
        "signature": TextField(2 * SIGNATURE_BYTES, "[0-9a-f]{128}", "a signature of 64 bytes"),
    },
    is_closed=True,
)
ENVELOPES = Document(
    "the envelopes",
    "send others",
    RecordField({"envelopes": ListField(ENVELOPE, ENVELOPES_MAX)}, is_closed=True),
    ENVELOPES_BYTES_MAX,
)


def write_envelopes(envelopes: Sequence[Envelope]) -> bytes:
    """The document of envelopes. Raises Refused if one of them is not valid."""
    _check_times(envelopes)
    return ENVELOPES.write({"envelopes": [envelope_fields(one) for one in envelopes]})


def envelope_fields(envelope: Envelope) -> dict[str, Any]:
    """The fields of an envelope, as documents and the catalog have them."""
    return {
        "kind": envelope.kind.value,
        "sender": envelope.sender,
        "receiver": envelope.receiver,
        "nonce": envelope.nonce,
        "sent_at_ms": envelope.sent_at_ms,
        "expires_at_ms": envelope.expires_at_ms,
        "body": base64.b64encode(envelope.body).decode(),
        "signature": envelope.signature.hex(),
    }


def read_envelopes(content: bytes) -> tuple[Envelope, ...]:
    """The envelopes that a partner sent. Raises Refused if one of them is not valid.

    The caller compares their senders with the partner and verifies their signatures.
    """
    envelopes = tuple(
        Envelope(
            kind=EnvelopeKind(one["kind"]),
            sender=Participant(one["sender"]),
            receiver=Participant(one["receiver"]),
            nonce=one["nonce"],
            sent_at_ms=one["sent_at_ms"],
            expires_at_ms=one["expires_at_ms"],
            body=base64.b64decode(one["body"]),
            signature=bytes.fromhex(one["signature"]),
        )
        for one in ENVELOPES.read(content)["envelopes"]
    )
    _check_times(envelopes)
    return envelopes


def _check_times(envelopes: Sequence[Envelope]) -> None:
    for at, one in enumerate(envelopes):
        if not 0 <= one.expires_at_ms - one.sent_at_ms <= LIFETIME_MS_MAX:
            raise ENVELOPES.refusal(
                f"envelopes[{at}] is sent at {one.sent_at_ms} and expires at {one.expires_at_ms}"
            )
        if one.sender == one.receiver:
            raise ENVELOPES.refusal(f"envelopes[{at}] is sent by {one.sender} to itself")


DELIVERIES = Document(
    "the answer about envelopes",
    TO_DO,
    RecordField({"answers": ListField(TextField(ANSWER_LENGTH_MAX), ENVELOPES_MAX)}),
    DELIVERIES_BYTES_MAX,
)


def write_deliveries(answers: Sequence[str]) -> bytes:
    """The document with an answer to each envelope."""
    return DELIVERIES.write({"answers": list(answers)})


def read_deliveries(content: bytes, count: int) -> tuple[str, ...]:
    """A partner's answers to `count` envelopes. Raises Refused for another number of answers."""
    answers = tuple(DELIVERIES.read(content)["answers"])
    if len(answers) != count:
        raise DELIVERIES.refusal(f"has {len(answers)} answers about {count} envelopes")
    return answers
