"""The partners of a home, as its owner invites, adds and removes them."""

from __future__ import annotations

from medusa_core.names import Participant
from pipelines.catalog.partner_records import PartnerStatus
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts


class Partners(NamedStatements):
    """The partners of the home at `url`, which logs in as its owner; one connection."""

    def __init__(self, url: str) -> None:
        super().__init__(engine_with_timeouts(url))

    def all(self) -> tuple[PartnerStatus, ...]:
        """All of them, in order of their names."""
        return tuple(PartnerStatus(**row) for row in self._rows("partners"))

    def status_of(self, partner: Participant) -> PartnerStatus | None:
        """One of them; None if it is neither known nor invited."""
        return next((one for one in self.all() if one.participant == partner), None)

    def invite(
        self, partner: Participant, secret_hash: bytes, lifetime_ms: int, *, replaces_key: bool
    ) -> None:
        """Let a participant join once, with a secret of this hash."""
        self._value(
            "invite_partner",
            partner=partner,
            secret_hash=secret_hash.hex(),
            lifetime_ms=lifetime_ms,
            replaces_key=replaces_key,
        )

    def add(
        self, partner: Participant, public_key: bytes, url: str | None, pin: str | None,
        *, replaces_key: bool = False, is_confirmed: bool = True,
    ) -> None:  # fmt: skip
        """A partner elsewhere; Refused if another key of it is known and this replaces none.

        One that is not confirmed lapses after 10 minutes, unless it is added again.
        """
        self._value(
            "add_partner",
            partner=partner,
            public_key=public_key.hex(),
            url=url,
            pin=pin,
            replaces_key=replaces_key,
            is_confirmed=is_confirmed,
        )

    def remove(self, partner: Participant) -> bool:
        """Refuse a partner from now on; False if it was none."""
        return bool(self._value("remove_partner", partner=partner))

    def own_key(self, participant: Participant) -> bytes | None:
        """The key that this home knows as its participant's; None if it knows none."""
        return next(
            (
                bytes(row["public_key"])
                for row in self._rows("party_keys")
                if row["participant"] == participant and row["counts"]
            ),
            None,
        )

    def replace_own_key(self, participant: Participant, public_key: bytes) -> None:
        """Another key of this home's participant counts from now on."""
        self._value("replace_key", participant=participant, public_key=public_key.hex())
