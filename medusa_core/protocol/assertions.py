"""Assertions: signed JSON Web Tokens by which a partner proves its identity (RFC 7523).

A client makes one for each access token that it requests: issuer and subject are the participant,
the audience is the server's participant with its key, so no other server accepts the assertion. It
counts once, by its `jti`. Its lifetime is minutes. Both clocks are compared with a
tolerance of CLOCK_SKEW_S; the server remembers an assertion for as long as it could be accepted.
The signature is verified elsewhere, before the claims are looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.protocol.document_fields import Document, IntegerField, RecordField, TextField
from medusa_core.protocol.news_documents import NAME

ALGORITHM = "EdDSA"
GRANT_TYPE = "client_credentials"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_BYTES_MAX = 4_096
LIFETIME_S = 120
LIFETIME_S_MAX = 600
CLOCK_SKEW_S = 600
"""How far the clocks of two participants may differ."""

TOKEN_LIFETIME_S = 900
"""How long an access token is valid, by the clock of the home that issued it."""

TIME_S = IntegerField(0, 2**40)
CLAIMS = Document(
    "the assertion",
    "sign another",
    RecordField(
        {
            "iss": NAME,
            "sub": NAME,
            "aud": TextField(300, r"[!-~]+", "one audience"),
            "jti": TextField(64, r"[0-9A-Za-z_-]{16,64}", "a nonce of 16 to 64 letters and digits"),
            "iat": TIME_S,
            "exp": TIME_S,
        }
    ),
    ASSERTION_BYTES_MAX,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Who proves its identity, the nonce that counts once, and for how long it is remembered."""

    partner: Participant
    nonce: str
    keep_ms: int


def audience_of(server: Participant, public_key: bytes) -> str:
    """What an assertion for a participant's exchange server names: the participant and its key."""
    return f"urn:medusa:exchange:{server}:{public_key.hex()}"


def claims_of(client: Participant, audience: str, nonce: str, now_ms: int) -> Mapping[str, Any]:
    """The claims of a new assertion; `nonce` is drawn for it alone."""
    now_s = now_ms // 1_000
    claims = {
        "iss": client,
        "sub": client,
        "aud": audience,
        "jti": nonce,
        "iat": now_s,
        "exp": now_s + LIFETIME_S,
    }
    CLAIMS.check(claims)
    return claims


def check_claims(claims: object, audiences: Collection[str], now_ms: int) -> Assertion:
    """The assertion with these claims; Refused unless it is for an audience and in its time."""
    CLAIMS.check(claims)
    assert isinstance(claims, Mapping)
    if claims["iss"] != claims["sub"]:
        raise _refusal(f"{claims['iss']} issues it for {claims['sub']}")
    if claims["aud"] not in audiences:
        raise _refusal("it is meant for another server, or for another key of this one")
    issued_ms, expires_ms = claims["iat"] * 1_000, claims["exp"] * 1_000
    if not 0 < expires_ms - issued_ms <= LIFETIME_S_MAX * 1_000:
        raise _refusal(f"it would be valid for more than {LIFETIME_S_MAX} s, or for no time")
    skew_ms = CLOCK_SKEW_S * 1_000
    if issued_ms > now_ms + skew_ms:
        raise _refusal(
            f"it is issued {(issued_ms - now_ms) // 1_000} s in the future: set the clocks"
        )
    if expires_ms + skew_ms <= now_ms:
        raise _refusal(f"it expired {(now_ms - expires_ms) // 1_000} s ago: set the clocks")
    return Assertion(
        partner=Participant(claims["iss"]),
        nonce=claims["jti"],
        keep_ms=expires_ms + skew_ms - now_ms,
    )


def _refusal(problem: str) -> Refused:
    return Refused(f"the assertion is not accepted: {problem}")
