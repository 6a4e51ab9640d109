"""Streams as a home shares them with recipients that run no Medusa, and the recipients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from medusa_core.frozen import freeze
from medusa_core.names import StreamName, Version
from medusa_core.segments import Segment


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The recipient of a token, and the number of the token."""

    token_id: int
    recipient: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStream:
    """A shared stream at its newest version; see `LineStatus` for its times."""

    name: StreamName
    line_id: int
    columns: Mapping[str, str]
    key: tuple[str, ...]
    version: Version
    origin_us: int | None
    trimmed_us: int | None

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def kept_from_us(self) -> int | None:
        """Where its rows surely begin; None before it has begun."""
        return self.origin_us if self.trimmed_us is None else self.trimmed_us

    @property
    def lost_before_us(self) -> int | None:
        """Before when rows may have been removed; None if all of them are there."""
        return None if self.trimmed_us == self.origin_us else self.trimmed_us


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVersion:
    """A version of a shared stream.

    `stable_us`: where its stable prefix ended, None before it began; `made_at_ms`: when this home
    reached it, None if that is not known.
    """

    version: Version
    stable_us: int | None
    made_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSegment:
    """A segment, and from which version on, and before which one (None: none yet), it was live."""

    segment: Segment
    begin_version: Version
    end_version: Version | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientUsage:
    """What a recipient used; `stream` is empty for requests that name none."""

    recipient: str
    stream: str
    requests: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A token as it is returned to the owner, once."""

    token: str = field(repr=False)
    token_id: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientStatus:
    """A recipient as its owner sees it: valid tokens and the last expiry, streams, usage."""

    recipient: str
    tokens: int
    expires_at: datetime | None
    streams: tuple[str, ...]
    requests: int
    rows: int
    bytes: int
    last_at: datetime | None
