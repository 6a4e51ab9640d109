"""Requests to partners over links with the faults that drills inject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.exchange.exchange_port import ExchangeCalls, Transport
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope


class PartnerCalls(ExchangeCalls, Transport, Protocol):
    """All that one participant asks of others."""


class FaultInjectedTransport:
    """A `Transport` around another one, which its owner closes."""

    def __init__(self, transport: Transport, links: FaultInjectedLinks) -> None:
        self._transport = transport
        self._links = links

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """See `Transport.deliver`."""
        self._links.ask(partner)
        answers = self._transport.deliver(partner, envelopes)
        self._links.hear(partner)
        return answers

    def close(self) -> None:
        """See `Transport.close`."""


class FaultInjectedExchange(FaultInjectedTransport):
    """`ExchangeCalls` and a `Transport` around others, which its owner closes."""

    def __init__(self, exchange: PartnerCalls, links: FaultInjectedLinks) -> None:
        super().__init__(exchange, links)
        self._exchange = exchange

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `ExchangeCalls.line_news`."""
        self._links.ask(producer.participant)
        news = self._exchange.line_news(stream, producer, after, segments_max=segments_max)
        self._links.hear(producer.participant)
        return news

    def fetch_all(self, partner: Participant, files: Mapping[SegmentFile, Path]) -> None:
        """See `ExchangeCalls.fetch_all`: all of the files arrive, or nothing."""
        self._links.ask(partner)
        self._links.hear(partner)
        self._exchange.fetch_all(partner, files)

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int, *, replica: int,
                    version: Version) -> None:  # fmt: skip
        """See `ExchangeCalls.acknowledge`."""
        self._links.ask(partner)
        self._exchange.acknowledge(partner, stream, through_us, limit_ms, path_ms, replica=replica,
                                   version=version)  # fmt: skip
        self._links.hear(partner)
