"""A home as its own exchange server sees it: the login `exchange`, which calls a few functions."""

from __future__ import annotations

from medusa_core.names import Participant
from pipelines.catalog.postgres.home_database import HomeDatabase


class ExchangeHome(HomeDatabase):
    """Access of partners to one home.

    Raises Unavailable while the home cannot be reached, and Refused for what its functions refuse.
    """

    def partner_key(self, partner: Participant) -> bytes | None:
        """The key that a partner's assertions are verified with; None if it is no partner."""
        key = self._value("partner_key", partner=partner)
        return None if key is None else bytes(key)

    def issue_token(self, partner: Participant, public_key: bytes, nonce: str, *, keep_ms: int,
                    token_hash: bytes, lifetime_ms: int) -> bool:  # fmt: skip
        """Store the hash of a token; the nonce counts once. False: too many were requested."""
        return bool(
            self._value(
                "issue_token",
                committing=True,
                partner=partner,
                public_key=public_key,
                nonce=nonce,
                keep_ms=keep_ms,
                token_hash=token_hash,
                lifetime_ms=lifetime_ms,
            )
        )

    def token_holder(self, token_hash: bytes) -> Participant | None:
        """The partner that a token was issued to; None if it is over, revoked or unknown."""
        partner = self._value("token_holder", token_hash=token_hash)
        return None if partner is None else Participant(partner)
