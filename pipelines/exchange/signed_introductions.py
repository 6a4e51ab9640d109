"""Introductions that others have signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.protocol.introductions import (
    CLAIMS,
    INTRODUCTION_BYTES_MAX,
    SUCCESSION_BYTES_MAX,
    Introduction,
    read_introduction,
    read_succession,
)
from pipelines.exchange.signed_assertions import unverified_claims, verified_claims


def verified_introduction(
    token: str, participant: Participant, known_keys: Sequence[bytes], now_ms: int
) -> tuple[bytes, Introduction]:
    """An introduction, and the known key that it is signed with or that leads to its key.

    Raises Refused unless one of the known keys does.
    """
    claims = unverified_claims(token, bytes_max=INTRODUCTION_BYTES_MAX)
    CLAIMS.check(claims)
    successions = _by_earlier_key(claims["successions"])
    for known in known_keys:
        key, left = known, dict(successions)
        while (succession := left.pop(key.hex(), None)) is not None:
            with suppress(Refused):  # it is not signed with that key
                key = read_succession(verified_claims(succession, key), participant, key)
        try:
            verified = verified_claims(token, key, bytes_max=INTRODUCTION_BYTES_MAX)
        except Refused:
            continue
        return known, read_introduction(verified, participant, key, now_ms)
    raise Refused(
        f"the introduction of {participant} is not signed with the key that is known here, or with "
        "one that this key leads to: let one operator invite the other again"
    )


def _by_earlier_key(successions: Sequence[str]) -> Mapping[str, str]:
    """Each succession by the key that it says it replaces, so that it is verified with no other.

    A key is replaced once. Anyone may send an introduction, and a signature costs much to verify.
    """
    found: dict[str, str] = {}
    for one in successions:
        with suppress(Refused):
            before = unverified_claims(one, bytes_max=SUCCESSION_BYTES_MAX).get("before")
            found.setdefault(str(before), one)
    return found
