"""The exchange between homes of one installation: databases as reader, files by copy.

Reading another's catalog happens under its `reader` role, which may call a few functions and see
no table; files are copied and checked, so that a partner's disk fault stays the partner's.
Envelopes are put into its inbox under the same role: the signature proves the sender.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from medusa_core.errors import Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.catalog.postgres.published import PublishedHome
from pipelines.exchange.copies import checked_pieces, write_copy

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Partner:
    """Where a partner's home is: the URL of its reader role, and its storage root."""

    reader_url: str
    storage: Path


class Links(Protocol):
    """What lies between this participant and its partners, and may be cut on purpose."""

    def ask(self, partner: Participant) -> None:
        """A request is sent; raises Unavailable if it does not arrive."""

    def hear(self, partner: Participant) -> None:
        """The answer is sent; raises Unavailable if it does not arrive."""


class OpenLinks:
    """Nothing is cut."""

    def ask(self, partner: Participant) -> None:
        """See `Links.ask`."""

    def hear(self, partner: Participant) -> None:
        """See `Links.hear`."""


class LocalExchange:
    """An `Exchange` and a `Post` between homes that this process can reach itself."""

    def __init__(
        self,
        reader: Participant,
        partners: Mapping[Participant, Partner],
        links: Links | None = None,
    ) -> None:
        self._reader = reader
        self._partners = dict(partners)
        self._links = links or OpenLinks()
        self._homes: dict[Participant, PublishedHome] = {}

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Exchange.line_news`."""
        partner = producer.participant
        home = self._home(partner)
        self._links.ask(partner)
        news = home.line_news(stream, producer, after, segments_max=segments_max)
        self._links.hear(partner)
        return news

    def fetch(self, partner: Participant, file: SegmentFile, target: Path) -> None:
        """See `Exchange.fetch`."""
        path = self._partner(partner).storage / file.path
        self._links.ask(partner)
        self._links.hear(partner)
        write_copy(checked_pieces(path, file), target)

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int) -> None:  # fmt: skip
        """See `Exchange.acknowledge`."""
        home = self._home(partner)
        self._links.ask(partner)
        home.acknowledge(stream, self._reader, through_us, limit_ms, path_ms)
        self._links.hear(partner)

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """See `Post.deliver`."""
        home = self._home(partner)
        self._links.ask(partner)
        answers = home.deliver(envelopes)
        self._links.hear(partner)
        return answers

    def close(self) -> None:
        """See `Exchange.close`."""
        for home in self._homes.values():
            home.close()

    def _partner(self, name: Participant) -> Partner:
        try:
            return self._partners[name]
        except KeyError:
            known = ", ".join(sorted(self._partners)) or "nobody"
            raise Unavailable(
                f"the home of partner {name} is not known here (known: {known}): apply its "
                "contracts, or give its MEDUSA_CATALOG_URL"
            ) from None

    def _home(self, name: Participant) -> PublishedHome:
        if name not in self._homes:
            self._homes[name] = PublishedHome(name, self._partner(name).reader_url)
        return self._homes[name]
