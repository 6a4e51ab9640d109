"""Signed JSON Web Tokens: the one module that knows their library.

One algorithm is made and accepted, EdDSA with Ed25519 keys: what the header of a token says decides
nothing. Times are not checked here, since the library would ask the machine's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from jwt.types import Options

from medusa_core.errors import WRONG_FORM, Refused
from medusa_core.names import Participant, check_name
from medusa_core.protocol.assertions import ALGORITHM, ASSERTION_BYTES_MAX

_WRONG = (jwt.PyJWTError, *WRONG_FORM)
_OPTIONS: Options = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
"""The claims are checked by `check_claims`."""


def sign_claims(claims: Mapping[str, Any], key: Ed25519PrivateKey) -> str:
    """The token with these claims, signed with a participant's own key."""
    return jwt.encode(dict(claims), key, algorithm=ALGORITHM)


def issuer_of(token: str) -> Participant:
    """Who a token says that it is from: only to find the key that it is verified with."""
    issuer = _claims(token, None).get("iss", "")
    try:
        return Participant(check_name("participant", issuer))
    except Refused:
        raise Refused(NOT_SIGNED) from None


def verified_claims(
    token: str, public_key: bytes, *, bytes_max: int = ASSERTION_BYTES_MAX
) -> Mapping[str, Any]:
    """The claims of a token that the owner of a key has signed; Refused unless it is one."""
    return _claims(token, public_key, bytes_max)


def unverified_claims(token: str, *, bytes_max: int) -> Mapping[str, Any]:
    """The claims of a token whoever signed it: to find the key that it is verified with."""
    return _claims(token, None, bytes_max)


def _claims(
    token: str, public_key: bytes | None, bytes_max: int = ASSERTION_BYTES_MAX
) -> Mapping[str, Any]:
    if len(token) > bytes_max:
        raise Refused(f"the signed token has {len(token)} characters: sign a shorter one")
    try:
        if public_key is None:
            claims: Any = jwt.decode(token, options={"verify_signature": False})
        else:
            claims = jwt.decode(
                token,
                Ed25519PublicKey.from_public_bytes(public_key),
                algorithms=[ALGORITHM],
                options=_OPTIONS,
            )
    except _WRONG:
        raise Refused(NOT_SIGNED) from None
    if not isinstance(claims, dict):
        raise Refused(NOT_SIGNED)
    return claims


NOT_SIGNED = (
    "the assertion is not signed with the key of a partner of this home: exchange keys with its "
    "operator"
)
"""The same sentence for a partner that is not known and for a wrong signature."""
