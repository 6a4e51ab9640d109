"""The recipients of a home, as its owner issues tokens to them and grants streams."""

from __future__ import annotations

from collections.abc import Collection

from medusa_core.names import StreamName
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts
from pipelines.catalog.sharing_records import IssuedToken, RecipientStatus


class Recipients(NamedStatements):
    """The recipients of the home at `url`, which logs in as its owner; one connection."""

    def __init__(self, url: str) -> None:
        super().__init__(engine_with_timeouts(url))

    def all(self) -> tuple[RecipientStatus, ...]:
        """All of them, in order of their names."""
        return tuple(
            RecipientStatus(**{**row, "streams": tuple(row["streams"])})
            for row in self._rows("recipients")
        )

    def issue(self, recipient: str, lifetime_ms: int) -> IssuedToken:
        """A new token, which is returned this once."""
        (row,) = self._rows("issue_recipient_token", recipient=recipient, lifetime_ms=lifetime_ms)
        return IssuedToken(**row)

    def revoke(self, recipient: str, token_id: int | None = None) -> int:
        """End one token now, or all of them (None); returns how many counted until now."""
        return int(self._value("revoke_recipient_tokens", recipient=recipient, token_id=token_id))

    def grant(self, stream: StreamName, recipient: str) -> bool:
        """Let a recipient read a stream; whether that is new."""
        return bool(self._value("grant_to_recipient", stream=stream, recipient=recipient))

    def declare(self, stream: StreamName, recipients: Collection[str], *, is_public: bool) -> bool:
        """Let just these recipients read a stream, or all of them, as its contract says."""
        return bool(
            self._value(
                "declare_recipients",
                stream=stream,
                recipients=sorted(recipients),
                is_public=is_public,
            )
        )

    def withdraw(self, stream: StreamName, recipient: str) -> bool:
        """End a recipient's access to a stream now; whether it had access."""
        return bool(self._value("withdraw_from_recipient", stream=stream, recipient=recipient))
