"""Introductions: what a participant says of itself, signed with its key.

An introduction names the participant's present key and the address of its exchange server. A key
that replaces another one is signed by it, in a succession: so a partner that knows an earlier key
finds the present one, and no key must be replaced on two machines at once. Each server gives out
its introduction, and each client presents its own with the request of a token. Signatures are
verified elsewhere, before the claims are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.protocol.assertions import CLOCK_SKEW_S, TIME_S
from medusa_core.protocol.document_fields import (
    ChoiceField,
    Document,
    ListField,
    NullableField,
    RecordField,
    TextField,
)
from medusa_core.protocol.news_documents import HASH, NAME, TO_DO

LIFETIME_S = 3_600
SUCCESSIONS_MAX = 16
"""A partner that has missed more of them must be invited again."""

SUCCESSION_BYTES_MAX = 1_024
INTRODUCTION_BYTES_MAX = 24_576
_HOST = r"(?:[0-9A-Za-z](?:[0-9A-Za-z.-]{0,251}[0-9A-Za-z])?|\[[0-9A-Fa-f:.]{2,45}\])"
URL = TextField(270, rf"https://{_HOST}(?::[0-9]{{1,5}})?", "the URL of an exchange server")
SIGNED = r"[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+"
KEY = TextField(64, "[0-9a-f]{64}", "a key in 64 hexadecimal digits")

SUCCESSION = Document(
    "the succession of a key",
    TO_DO,
    RecordField(
        {"use": ChoiceField(("succession",)), "iss": NAME, "iat": TIME_S, "before": KEY, "key": KEY}
    ),
    SUCCESSION_BYTES_MAX,
)
CLAIMS = Document(
    "the introduction",
    TO_DO,
    RecordField(
        {
            "use": ChoiceField(("introduction",)),
            "iss": NAME,
            "iat": TIME_S,
            "exp": TIME_S,
            "url": NullableField(URL),
            "pin": NullableField(HASH),
            "successions": ListField(
                TextField(SUCCESSION_BYTES_MAX, SIGNED, "a signed token"), SUCCESSIONS_MAX
            ),
        }
    ),
    INTRODUCTION_BYTES_MAX,
)
SIGNED_INTRODUCTION = TextField(INTRODUCTION_BYTES_MAX, SIGNED, "a signed token")
INTRODUCTION = Document(
    "the introduction",
    TO_DO,
    RecordField({"introduction": SIGNED_INTRODUCTION}),
    INTRODUCTION_BYTES_MAX + 100,
)
"""The answer of a server, which holds the signed token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """Who a participant is: its present key, and where its exchange server is.

    `url` None: it has none that partners reach. `pin` None: the certificate of a public authority.
    """

    participant: Participant
    public_key: bytes
    url: str | None
    pin: str | None


def introduction_claims(
    participant: Participant, url: str | None, pin: str | None, successions: Sequence[str],
    now_ms: int,
) -> Mapping[str, Any]:  # fmt: skip
    """The claims of an introduction; `successions` lead to the key that it is signed with."""
    now_s = now_ms // 1_000
    claims = {
        "use": "introduction",
        "iss": participant,
        "iat": now_s,
        "exp": now_s + LIFETIME_S,
        "url": url,
        "pin": pin,
        "successions": list(successions)[-SUCCESSIONS_MAX:],
    }
    CLAIMS.check(claims)
    return claims


def read_introduction(
    claims: object, participant: Participant, public_key: bytes, now_ms: int
) -> Introduction:
    """What verified claims say; Refused unless they are a participant's and in their time."""
    CLAIMS.check(claims)
    assert isinstance(claims, Mapping)
    if claims["iss"] != participant:
        raise CLAIMS.refusal(f"is that of {claims['iss']}, not of {participant}")
    if claims["pin"] is not None and claims["url"] is None:
        raise CLAIMS.refusal("has the key of a certificate, and no URL")
    skew_s, now_s = CLOCK_SKEW_S, now_ms // 1_000
    if not claims["iat"] - skew_s <= now_s < claims["exp"] + skew_s:
        raise Refused("the introduction is not of now: set the clocks of both machines")
    return Introduction(
        participant=participant, public_key=public_key, url=claims["url"], pin=claims["pin"]
    )


def succession_claims(
    participant: Participant, before: bytes, key: bytes, now_ms: int
) -> Mapping[str, Any]:
    """The claims that are signed with the key before: who has which key from now on."""
    return {
        "use": "succession",
        "iss": participant,
        "iat": now_ms // 1_000,
        "before": before.hex(),
        "key": key.hex(),
    }


def read_succession(claims: object, participant: Participant, before: bytes) -> bytes:
    """The key that succeeds another one; Refused unless the claims say so of this participant."""
    SUCCESSION.check(claims)
    assert isinstance(claims, Mapping)
    if (claims["iss"], claims["before"]) != (participant, before.hex()):
        raise SUCCESSION.refusal("is that of another participant, or of another key")
    return bytes.fromhex(claims["key"])
