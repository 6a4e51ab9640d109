"""Access tokens: issued for a signed assertion, stored as a hash, and looked up with each request.

A token is 32 random bytes, so nothing about it can be computed or altered. The catalog holds
hashes alone. The home's clock decides what has expired, for assertions as for tokens, so
that an assertion is remembered for exactly as long as it could be accepted.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Generic, Protocol, TypeVar

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol.assertions import TOKEN_LIFETIME_S, check_claims
from medusa_core.protocol.call_documents import AccessToken
from medusa_core.protocol.introductions import Introduction
from pipelines.base import clock
from pipelines.exchange.signed_assertions import NOT_SIGNED, issuer_of, verified_claims
from pipelines.exchange.signed_introductions import verified_introduction

Holder = TypeVar("Holder")

TOKEN_BYTES = 32
TOKEN_CHARACTERS = 43
RECENT_S = 0.5
"""For how long a holder is not looked up again; so much later a removed partner is refused."""

RECENT_MAX = 10_000


class AccessRecords(Protocol):
    """What a home stores of its partners' access."""

    def read_clock_ms(self) -> int:
        """The home's clock."""

    def partner_keys(self, partner: Participant) -> tuple[bytes, ...]:
        """The keys that a partner's assertions are verified with, the newest first."""

    def note_introduction(self, known_key: bytes, introduction: Introduction) -> None:
        """Store what a partner has signed with a known key: its present key, and its address."""

    def issue_token(self, partner: Participant, public_key: bytes, nonce: str, *, keep_ms: int,
                    token_hash: bytes, lifetime_ms: int) -> bool:  # fmt: skip
        """Store the hash of a token; the nonce counts once. False: too many were requested."""

    def token_holder(self, token_hash: bytes) -> Participant | None:
        """The partner that a token was issued to; None if it is over, revoked or unknown."""


class RecentHolders(Generic[Holder]):
    """The holders of tokens that were looked up within the last `RECENT_S`."""

    def __init__(self, now_s: Callable[[], float] = clock.monotonic_s) -> None:
        self._now_s = now_s
        self._found: dict[bytes, tuple[Holder, float]] = {}

    def look_up(
        self, token_hash: bytes, look_up: Callable[[bytes], Holder | None]
    ) -> Holder | None:
        """The holder of a token by the catalog; None if it counts for nobody."""
        now_s = self._now_s()
        holder = look_up(token_hash)
        if holder is not None:
            if len(self._found) >= RECENT_MAX:
                self._found = {k: one for k, one in [*self._found.items()] if one[1] > now_s}
            self._found[token_hash] = holder, now_s + RECENT_S
        return holder

    def find(self, token_hash: bytes) -> Holder | None:
        """The holder of a token that was looked up a moment ago; None: look it up."""
        holder, until_s = self._found.get(token_hash, (None, 0.0))
        return holder if self._now_s() < until_s else None


class AccessTokens:
    """Issues the access tokens of one exchange server, and finds their holders.

    `audiences` returns what assertions for this server may name (see `audience_of`).
    """

    def __init__(
        self,
        records: AccessRecords,
        audiences: Callable[[], frozenset[str]],
        *,
        draw: Callable[[int], str] = secrets.token_urlsafe,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._records = records
        self._audiences = audiences
        self._draw = draw
        self._recent: RecentHolders[Participant] = RecentHolders(now_s)

    def issue(self, assertion: str, introduction: str = "") -> AccessToken:
        """A token for the partner that signed an assertion.

        The partner may introduce itself with another key than the known one, which this one leads
        to. Raises Refused for an assertion that does not count, and Unavailable while the partner
        requests too many tokens or the home cannot be reached.
        """
        partner = issuer_of(assertion)
        keys = self._records.partner_keys(partner)
        now_ms = self._records.read_clock_ms()
        if introduction and keys:
            known, introduced = verified_introduction(introduction, partner, keys, now_ms)
            keys = (introduced.public_key, *keys)
        key, claims = _signed_with(assertion, keys)
        accepted = check_claims(claims, self._audiences(), now_ms)
        if accepted.partner != partner:
            raise Refused(NOT_SIGNED)
        if introduction:
            self._records.note_introduction(known, introduced)
        token = self._draw(TOKEN_BYTES)
        is_issued = self._records.issue_token(
            partner,
            key,
            accepted.nonce,
            keep_ms=accepted.keep_ms,
            token_hash=hash_of(token),
            lifetime_ms=TOKEN_LIFETIME_S * 1_000,
        )
        if not is_issued:
            raise Unavailable(
                f"{partner} has requested too many tokens: use one until it expires, and try later"
            )
        return AccessToken(token=token, lifetime_s=TOKEN_LIFETIME_S)

    def holder(self, token: str) -> Participant | None:
        """The partner that a token was issued to; None if it counts for nobody."""
        if len(token) != TOKEN_CHARACTERS or not token.isascii():
            return None
        return self._recent.look_up(hash_of(token), self._records.token_holder)

    def recent_holder(self, token: str) -> Participant | None:
        """The holder of a token that was looked up a moment ago; None: look it up."""
        return self._recent.find(hash_of(token))


def _signed_with(assertion: str, keys: Sequence[bytes]) -> tuple[bytes, Mapping[str, Any]]:
    """Which of the keys an assertion is signed with, and its claims; Refused if with none."""
    for key in keys:
        with suppress(Refused):
            return key, verified_claims(assertion, key)
    raise Refused(NOT_SIGNED)


def hash_of(token: str) -> bytes:
    """What a home stores of a token: its SHA-256."""
    return sha256(token.encode()).digest()
