"""Invitations: the code that lets a participant elsewhere join, and the request with which it does.

The code is one line of text that two operators pass on in private. It holds all that the invited
participant must know of the other one, and a secret that is valid once. The home that invites
stores the hash of the secret alone.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from hashlib import sha256

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.protocol.call_documents import SMALL_BYTES_MAX, TIME_MS
from medusa_core.protocol.document_fields import (
    Document,
    NullableField,
    RecordField,
    TextField,
)
from medusa_core.protocol.introductions import KEY, SIGNED, SIGNED_INTRODUCTION, URL
from medusa_core.protocol.news_documents import HASH, NAME, TO_DO

PREFIX = "medusa-invitation-1."
CHECK_BYTES = 4
CODE_LENGTH_MAX = 2_000
SECRET = TextField(64, "[0-9A-Za-z_-]{32,64}", "a secret")
TO_REPEAT = "copy the whole code, or ask the operator for another one"

INVITATION = Document(
    "the invitation",
    TO_REPEAT,
    RecordField(
        {
            "inviter": NAME,
            "invited": NAME,
            "public_key": KEY,
            "url": URL,
            "pin": NullableField(HASH),
            "secret": SECRET,
            "expires_at_ms": TIME_MS,
        },
        is_closed=True,
    ),
    CODE_LENGTH_MAX,
)
JOINING = Document(
    "the request to join",
    TO_DO,
    RecordField(
        {
            "public_key": KEY,
            "assertion": TextField(4_096, SIGNED, "a signed token"),
            "introduction": SIGNED_INTRODUCTION,
            "secret": SECRET,
        },
        is_closed=True,
    ),
    SMALL_BYTES_MAX,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """Who invites whom, where the inviter is reached and by which keys, and until when.

    Its text does not show the secret.
    """

    inviter: Participant
    invited: Participant
    public_key: bytes
    url: str
    pin: str | None
    secret: str
    expires_at_ms: int

    def __repr__(self) -> str:
        return f"Invitation({self.inviter} invites {self.invited})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A participant that joins: its key, what it has signed, and the secret of its invitation."""

    public_key: bytes
    assertion: str
    introduction: str
    secret: str

    def __repr__(self) -> str:
        return f"Joining(public_key={self.public_key.hex()})"


def hash_of_secret(secret: str) -> bytes:
    """What the home that invites stores of a secret."""
    return sha256(secret.encode()).digest()


def write_code(invitation: Invitation) -> str:
    """The invitation as one line of letters, digits, points and dashes."""
    content = INVITATION.write(
        {
            "inviter": invitation.inviter,
            "invited": invitation.invited,
            "public_key": invitation.public_key.hex(),
            "url": invitation.url,
            "pin": invitation.pin,
            "secret": invitation.secret,
            "expires_at_ms": invitation.expires_at_ms,
        }
    )
    check = sha256(content).digest()[:CHECK_BYTES]
    return PREFIX + base64.urlsafe_b64encode(content + check).decode("ascii").rstrip("=")


def read_code(text: str) -> Invitation:
    """The invitation of a code; white space, as of a wrapped line, does not count.

    Raises Refused if the code is not whole.
    """
    code = "".join(text.split())
    if not code.startswith(PREFIX):
        raise Refused(f"this is no invitation: it begins with {PREFIX}; {TO_REPEAT}")
    encoded = code.removeprefix(PREFIX)
    try:
        whole = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        whole = b""
    content, check = whole[:-CHECK_BYTES], whole[-CHECK_BYTES:]
    if not content or sha256(content).digest()[:CHECK_BYTES] != check:
        raise INVITATION.refusal("is not whole")
    fields = INVITATION.read(content)
    return Invitation(
        inviter=Participant(fields["inviter"]),
        invited=Participant(fields["invited"]),
        public_key=bytes.fromhex(fields["public_key"]),
        url=fields["url"],
        pin=fields["pin"],
        secret=fields["secret"],
        expires_at_ms=fields["expires_at_ms"],
    )


def write_joining(joining: Joining) -> bytes:
    """The document of a request to join."""
    return JOINING.write(
        {
            "public_key": joining.public_key.hex(),
            "assertion": joining.assertion,
            "introduction": joining.introduction,
            "secret": joining.secret,
        }
    )


def read_joining(content: bytes) -> Joining:
    """The request of a participant that joins. Raises Refused if it is not valid."""
    fields = JOINING.read(content)
    return Joining(
        public_key=bytes.fromhex(fields["public_key"]),
        assertion=fields["assertion"],
        introduction=fields["introduction"],
        secret=fields["secret"],
    )
