"""The exchange with partners over HTTPS, called from any thread.

Requests run in one event loop, in a thread of its own, so that each of them ends within its time
limit whatever it waits for: the resolution of a name, a handshake, a response of one byte a second.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medusa_core.errors import Diverged, MedusaError, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.news_documents import NEWS_BYTES_MAX, read_news
from medusa_core.segments import Producer, SegmentFile
from pipelines.exchange.client.file_download import Downloads
from pipelines.exchange.client.partner_link import PartnerAddress, PartnerLink, Received, Sign

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope

ANSWER_S, LARGE_S = 10.0, 60.0
"""Time limits of responses: of small ones, and of those of any size."""

WATCH_MS = 25_000
"""How long one request for progress waits: less than proxies wait for an answer."""

WATCH_AGAIN_S = 1.0
"""Pause after a request for progress that failed."""

LOOKUPS_MAX = 64
"""Names of hosts that may be resolved at once."""

Value = TypeVar("Value")


class HttpsExchange:
    """An `Exchange` and a `Transport`. `address` says where a partner is, or raises Unavailable."""

    def __init__(
        self, reader: Participant, address: Callable[[Participant], PartnerAddress], sign: Sign,
        *, answer_s: float = ANSWER_S,
    ) -> None:  # fmt: skip
        self._answer_s = answer_s
        self._reader = reader
        self._address = address
        self._sign = sign
        self._links: dict[Participant, PartnerLink] = {}
        self._downloads = Downloads()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()
        self._is_closed = False
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
                "GET", "/v1/news", query=query, bytes_max=NEWS_BYTES_MAX, seconds_max=LARGE_S
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
        self._run(partner, lambda link: self._downloads.download(link, partner, file, target))

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
                seconds_max=LARGE_S,
            ),
        )  # fmt: skip
        return calls.read_deliveries(received.content, len(envelopes))

    def offers(self, partner: Participant) -> tuple[calls.OfferedStream, ...]:
        """The streams of a partner that this participant may read."""
        received = self._run(
            partner,
            lambda link: link.request(
                "GET", "/v1/streams", bytes_max=calls.OFFERS_BYTES_MAX, seconds_max=LARGE_S
            ),
        )
        return calls.read_offers(received.content)[1]

    def progress(
        self, partner: Participant, known: str = "", wait_ms: int = 0
    ) -> tuple[str, tuple[calls.LineProgress, ...]]:
        """The lines of a partner that this participant may read, and a key of all of them.

        Waits for so long while the key is the known one.
        """
        received = self._run(partner, partial(_progress, known=known, wait_ms=wait_ms))
        return _key_of(received), calls.read_progress(received.content)

    def watch(self, partner: Participant, happened: Callable[[], object]) -> Callable[[], None]:
        """Call `happened`, in a thread of the exchange, when lines of a partner have changed.

        It is called too when the partner answers again. Ends when what is returned is called.
        """
        with self._starts:
            loop = self._running()
            watching = asyncio.run_coroutine_threadsafe(self._watched(partner, happened), loop)

        def end() -> None:
            watching.cancel()

        return end

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
            loop, self._loop, self._is_closed = self._loop, None, True
        try:
            if loop is not None:
                asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        finally:
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()
                loop.close()
            self._downloads.close()

    # Inside

    def _run(
        self,
        partner: Participant,
        call: Callable[[PartnerLink], Coroutine[Any, Any, Value]],
    ) -> Value:
        address = self._address(partner)
        with self._starts:
            loop = self._running()
            future = asyncio.run_coroutine_threadsafe(self._called(partner, address, call), loop)
        try:
            return future.result()
        except CancelledError:
            raise Unavailable("the exchange with partners was closed: open it again") from None
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        """The event loop, in a thread that is started with the first request."""
        if self._is_closed:
            raise Unavailable("the exchange with partners is closed: open it again")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # Names of hosts are resolved there: a name server that hangs holds a thread.
            self._loop.set_default_executor(ThreadPoolExecutor(LOOKUPS_MAX, "medusa-names"))
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="medusa-exchange", daemon=True
            )
            self._thread.start()
        return self._loop

    async def _called(
        self,
        partner: Participant,
        address: PartnerAddress,
        call: Callable[[PartnerLink], Coroutine[Any, Any, Value]],
    ) -> Value:
        link = self._links.get(partner)
        if link is None or link.address != address:
            before = link
            link = self._links[partner] = PartnerLink(self._reader, partner, address, self._sign)
            if before is not None:
                await before.retire()
        return await call(link)

    async def _watched(self, partner: Participant, happened: Callable[[], object]) -> None:
        known = ""
        while True:
            try:
                # It may ask the own catalog, which the event loop must not wait for.
                address = await asyncio.to_thread(self._address, partner)
                received = await self._called(
                    partner, address, partial(_progress, known=known, wait_ms=WATCH_MS)
                )
            except MedusaError:
                known = ""
                await asyncio.sleep(WATCH_AGAIN_S)
                continue
            if (key := _key_of(received)) != known:
                known = key
                happened()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for link in self._links.values():
            await link.close()


async def _progress(link: PartnerLink, known: str, wait_ms: int) -> Received:
    return await link.request(
        "GET", "/v1/progress", query={"known": known, "wait_ms": wait_ms},
        bytes_max=calls.OFFERS_BYTES_MAX, seconds_max=LARGE_S + wait_ms / 1_000,
    )  # fmt: skip


def _key_of(progress: Received) -> str:
    """What a partner's lines are known by while none of them changes."""
    return str(progress.headers.get("etag", "")).strip('"')
