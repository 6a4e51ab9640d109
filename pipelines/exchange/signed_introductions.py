"""Introductions that others have signed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.protocol.introductions import (
    CLAIMS,
    INTRODUCTION_BYTES_MAX,
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
    for known in known_keys:
        key = known
        for succession in claims["successions"]:
            with suppress(Refused):  # it is of another key than the one that was reached
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
