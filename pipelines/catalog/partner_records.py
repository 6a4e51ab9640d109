"""Partners of a home, as its catalog stores them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from medusa_core.names import Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartner:
    """A partner that counts: its key, and where its exchange server is reached.

    `url` None: as its folder of homes says, or nowhere. `pin` None: a public authority's
    certificate.
    """

    public_key: bytes
    url: str | None = None
    pin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerStatus:
    """A partner as its owner sees it.

    `state`: `partner`; `invited`, and it has not joined yet; `unconfirmed`, and it has joined but
    not yet proved that it has its key; `lapsed`, since it did not prove it in time; `removed`.
    """

    participant: Participant
    state: str
    url: str | None
    pin: str | None
    public_key: str | None
    key_since: datetime | None
    changed_at: datetime | None
    changed_by: str | None
    confirmed_at: datetime | None
    heard_at: datetime | None
    invited_until: datetime | None
