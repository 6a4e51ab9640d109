"""Envelopes: signed messages between participants, each counted once.

An envelope names its kind of message, its sender, its receiver, its time and how long it is
valid; its nonce is drawn for it alone. The signature covers all of that and the body. The
receiver verifies the signature with its own copy of the sender's key, then checks here whether it
is the addressee and the envelope is still valid, and checks the nonce last. A signature is made
over bytes that begin with a separate domain, so that a signature for one purpose cannot be used
for another.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256

from medusa_core.errors import Refused
from medusa_core.market.converging import CLOCK_MS_MAX
from medusa_core.market.terms import Revision
from medusa_core.names import Participant, check_name

ENVELOPE_DOMAIN = b"medusa.envelope/1\n"
CONTRACT_DOMAIN = b"medusa.contract-signature/1\n"
STATEMENT_DOMAIN = b"medusa.statement/1\n"
BODY_BYTES_MAX = 96 * 1024
LIFETIME_MS_MAX = 31 * 86_400_000
SIGNATURE_BYTES = 64
_NONCE = re.compile("[0-9a-f]{32}")
_TIME_MAX = 2**53


class EnvelopeKind(Enum):
    """What a message is about; the last two are of rounds, all others of agreements."""

    DOCUMENT = "document"
    WITHDRAWAL = "withdrawal"
    LET_GO = "let_go"
    WANT = "want"
    NOTICE = "notice"
    REFUSAL = "refusal"
    STATUS = "status"
    HOLDINGS = "holdings"
    DEFINITION = "definition"
    DEFINED = "defined"
    MOVE = "move"
    MOVED = "moved"
    BILL = "bill"
    BILL_ANSWER = "bill_answer"
    BILL_CONCESSION = "bill_concession"
    OFFER = "offer"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One message, sealed: `signature` is the sender's over `bytes_to_sign`.

    `nonce` is 32 hexadecimal digits; times are Unix times in ms by the sender's clock.
    """

    kind: EnvelopeKind
    sender: Participant
    receiver: Participant
    nonce: str
    sent_at_ms: int
    expires_at_ms: int
    body: bytes
    signature: bytes = b""

    @property
    def bytes_to_sign(self) -> bytes:
        """The domain, then all that the envelope says, the body by its SHA-256."""
        fields = [
            self.kind.value,
            self.sender,
            self.receiver,
            self.nonce,
            self.sent_at_ms,
            self.expires_at_ms,
            sha256(self.body).hexdigest(),
        ]
        return ENVELOPE_DOMAIN + json.dumps(fields, separators=(",", ":")).encode()


def contract_bytes(revision: Revision) -> bytes:
    """What the parties of a contract sign: the domain, then the document's hash."""
    return CONTRACT_DOMAIN + revision.encode()


def statement_bytes(statement: str) -> bytes:
    """What a party signs that states something: the domain, then the statement."""
    return STATEMENT_DOMAIN + statement.encode()


def check_envelope(envelope: Envelope, here: Participant, received_at_ms: int) -> None:
    """Refuse an envelope that is not meant for `here`, or was not good when it came, by its clock.

    How long it has lain in the inbox since is no fault of its sender's.
    """
    check_name("participant", envelope.sender)
    if envelope.receiver != here:
        raise Refused(f"it is meant for {envelope.receiver}, not for {here}")
    if envelope.sender == here:
        raise Refused(f"{here} sends it to itself")
    if not _NONCE.fullmatch(envelope.nonce) or len(envelope.signature) != SIGNATURE_BYTES:
        raise Refused("its nonce or its signature is not valid")
    if len(envelope.body) > BODY_BYTES_MAX:
        raise Refused(f"it is longer than {BODY_BYTES_MAX // 1024} KiB")
    if not 0 <= envelope.sent_at_ms <= envelope.expires_at_ms < _TIME_MAX:
        raise Refused("its times are not valid")
    if envelope.expires_at_ms - envelope.sent_at_ms > LIFETIME_MS_MAX:
        raise Refused("it would be good for more than 31 days")
    if envelope.sent_at_ms > received_at_ms + CLOCK_MS_MAX:
        raise Refused("it was sent in the future: set the clocks")
    if envelope.expires_at_ms < received_at_ms:
        raise Refused("it is stale: its time has passed")
