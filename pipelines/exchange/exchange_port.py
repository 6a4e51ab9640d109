"""The only interface between participants: requests to a partner, and the place of copies.

Made by the client over HTTPS, with the faults of drills around it, and by the simulator in memory.
Every call may raise Unavailable: a partner that does not answer is a fact to decide by, not a
fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from medusa_core.errors import Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, SegmentFile

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope


REQUESTS_AT_ONCE = 6
"""Requests to one partner that are open at once, at most: a link has connections for them beside
those of files."""


class Awaited(Unavailable):
    """The partner has not answered yet, which over a long link is no problem: ask again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsRequest:
    """The request of `ExchangeCalls.line_news`; for another amount it is the same request."""

    stream: StreamName
    producer: Producer
    after: Version
    segments_max: int = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRequest:
    """The request of `ExchangeCalls.fetch_all`: files, and where each is put."""

    partner: Participant
    files: tuple[tuple[SegmentFile, Path], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """The request of `ExchangeCalls.acknowledge`."""

    partner: Participant
    stream: StreamName
    through_us: int
    limit_ms: int
    path_ms: int
    replica: int
    version: Version


Request: TypeAlias = NewsRequest | FilesRequest | Acknowledgement


class ExchangeCalls(Protocol):
    """What one participant can ask of the others."""

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """What happened to a producer's line after a version (see `Readers.line_news`)."""

    def fetch_all(self, partner: Participant, files: Mapping[SegmentFile, Path]) -> None:
        """Copies of a partner's files under other paths, durable, with the given sizes and hashes.

        They are transferred side by side. Raises Unavailable if one of them cannot be copied; then
        its target does not exist, and those of others may.
        """

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int, *, replica: int,
                    version: Version) -> None:  # fmt: skip
        """Buckets before `through_us` are durable here: the partner need not keep them for us.

        They are as in `version` of the line of `replica`: what the partner recalls or revises
        behind it is still to be read.

        `path_ms` is what the path behind the stream costs here: what the partner must leave of a
        bound.
        """

    def close(self) -> None:
        """Give connections back."""


class Exchange(ExchangeCalls, Protocol):
    """What one participant can ask of the others, and what it is going to ask."""

    def begin(self, requests: Iterable[Request]) -> None:
        """The next calls make these requests: they may begin now, side by side.

        Nothing is answered here. A link of 100 ms costs so once what it would cost each of them.
        """


class Transport(Protocol):
    """What one participant can put into the others' inboxes."""

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """Put envelopes into a partner's inbox; its answer to each, in order.

        `taken` (also if it lay there before), or a sentence: why not, or not now. That it lies
        there says nothing about what the partner thinks of it. 64 at a time.
        """

    def close(self) -> None:
        """Give connections back."""


class Copies(Protocol):
    """A home's copies of its partners' files; a file's path is the copy's own."""

    def holds(self, file: SegmentFile) -> bool:
        """Whether the copy is here with the given size and hash; it is then no orphan."""

    def place(self, file: SegmentFile) -> Path:
        """Where the copy lies, or is to be put."""

    def sync(self, files: Iterable[SegmentFile]) -> None:
        """Make the names of copies durable too; raises Unavailable if one is gone."""
