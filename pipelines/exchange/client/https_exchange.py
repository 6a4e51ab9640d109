"""The exchange with partners over HTTPS, called from any thread.

Requests run in one event loop, in a thread of their own, so that each of them, whatever it waits
for, ends in its time: a name that is not resolved, a handshake, an answer of one byte a second.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medusa_core.errors import Diverged, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.news_documents import NEWS_BYTES_MAX, read_news
from medusa_core.segments import Producer, SegmentFile
from pipelines.exchange.client.file_download import download
from pipelines.exchange.client.partner_link import PartnerAddress, PartnerLink, Sign

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope

ANSWER_S, LARGE_S = 10.0, 60.0
"""In which an answer must have come: a small one, and one of any size."""

Answer = TypeVar("Answer")


class HttpsExchange:
    """An `Exchange` and a `Transport`. `address` says where a partner is, or raises Unavailable."""

    def __init__(
        self, reader: Participant, address: Callable[[Participant], PartnerAddress], sign: Sign,
        *, answer_s: float = ANSWER_S, large_s: float = LARGE_S,
    ) -> None:  # fmt: skip
        self._answer_s = answer_s
        self._large_s = large_s
        self._reader = reader
        self._address = address
        self._sign = sign
        self._links: dict[Participant, PartnerLink] = {}
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._starts = threading.Lock()

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Exchange.line_news`."""
        query: dict[str, str | int] = {
            "stream": stream,
            "replica": producer.replica,
            "after": after,
            "segments_max": segments_max,
        }
        received = self._run(
            producer.participant,
            lambda link: link.request(
                "GET", "/v1/news", query=query, bytes_max=NEWS_BYTES_MAX, seconds_max=self._large_s
            ),
        )
        news = read_news(received.content)
        if (news.stream, news.producer, news.after) != (stream, producer, after):
            raise Diverged(
                f"partner {producer.participant} was asked for {stream} by {producer} after "
                f"{after} and sends {news.stream} by {news.producer} after {news.after}: call its "
                "operator"
            )
        return news

    def fetch(self, partner: Participant, file: SegmentFile, target: Path) -> None:
        """See `Exchange.fetch`."""
        self._run(partner, lambda link: download(link, partner, file, target))

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int) -> None:  # fmt: skip
        """See `Exchange.acknowledge`."""
        body = calls.write_acknowledgement(
            calls.Acknowledgement(
                stream=stream, through_us=through_us, limit_ms=limit_ms, path_ms=path_ms
            )
        )
        self._run(
            partner,
            lambda link: link.request(
                "POST",
                "/v1/acknowledgements",
                body=body,
                bytes_max=calls.SMALL_BYTES_MAX,
                seconds_max=self._answer_s,
            ),
        )

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """See `Transport.deliver`."""
        body = calls.write_envelopes(envelopes)
        received = self._run(
            partner,
            lambda link: link.request(
                "POST", "/v1/envelopes", body=body, bytes_max=calls.SMALL_BYTES_MAX,
                seconds_max=self._large_s,
            ),
        )  # fmt: skip
        return calls.read_deliveries(received.content, len(envelopes))

    def offers(self, partner: Participant) -> tuple[calls.OfferedStream, ...]:
        """The streams of a partner that this participant may read."""
        received = self._run(
            partner,
            lambda link: link.request(
                "GET", "/v1/streams", bytes_max=calls.OFFERS_BYTES_MAX, seconds_max=self._large_s
            ),
        )
        return calls.read_offers(received.content)[1]

    def health(self, partner: Participant) -> calls.Health:
        """Whose home answers there, with its clock."""
        received = self._run(
            partner,
            lambda link: link.request(
                "GET", "/v1/health", bytes_max=calls.SMALL_BYTES_MAX, seconds_max=self._answer_s
            ),
        )
        return calls.read_health(received.content)

    def close(self) -> None:
        """Close the connections; requests that are open end with Unavailable."""
        with self._starts:
            thread, self._thread = self._thread, None
            if thread is not None:
                asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
                self._loop.call_soon_threadsafe(self._loop.stop)
                thread.join()
            if not self._loop.is_running():
                self._loop.close()

    # Inside

    def _run(
        self,
        partner: Participant,
        call: Callable[[PartnerLink], Coroutine[Any, Any, Answer]],
    ) -> Answer:
        address = self._address(partner)
        with self._starts:
            if self._loop.is_closed():
                raise Unavailable("the exchange with partners is closed: open it again")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="medusa-exchange", daemon=True
                )
                self._thread.start()
            future = asyncio.run_coroutine_threadsafe(
                self._called(partner, address, call), self._loop
            )
        try:
            return future.result()
        except CancelledError:
            raise Unavailable("the exchange with partners was closed: open it again") from None

    async def _called(
        self,
        partner: Participant,
        address: PartnerAddress,
        call: Callable[[PartnerLink], Coroutine[Any, Any, Answer]],
    ) -> Answer:
        link = self._links.get(partner)
        if link is None or link.address != address:
            if link is not None:
                await link.close()
            link = self._links[partner] = PartnerLink(self._reader, partner, address, self._sign)
        return await call(link)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for link in self._links.values():
            await link.close()
