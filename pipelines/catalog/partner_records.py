"""Partners of a home, as its catalog stores them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

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


class LinkSide(Enum):
    """Which requests of a link: those that this home makes, or those that it answers."""

    CLIENT = "client"
    SERVER = "server"


class LinkState(Enum):
    """What became of the last request to a partner; `refused`: it issues no access token."""

    REACHABLE = "reachable"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReport:
    """What a process has counted of a link since its last report.

    Times are durations until now. `error` is of the last request that failed. `answer_ms` and
    `delay_ms` are medians of the last answers and news, with their maxima; None if there were none.
    """

    partner: Participant
    state: LinkState
    state_ago_ms: int
    error: str | None
    failed_ago_ms: int | None
    answered_ago_ms: int | None
    requests: int
    failures: int
    files: int
    bytes_received: int
    bytes_sent: int
    answer_ms: int | None
    answer_ms_max: int | None
    delay_ms: int | None
    delay_ms_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """One side of the link with a partner: the last report, and the sums of all."""

    side: LinkSide
    reported_ago_ms: int
    report: LinkReport


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerLinks:
    """Both sides of the link with a partner; None: nothing was reported."""

    partner: Participant
    client: LinkStatus | None
    server: LinkStatus | None
