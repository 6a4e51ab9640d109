"""The exchange with partners over HTTPS, called from any thread.

Requests run in one event loop, in a thread of its own, so that each of them ends within its time
limit whatever it waits for: the resolution of a name, a handshake, a response of one byte a second.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medusa_core.errors import Diverged, MedusaError, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.file_batches import BATCH_BYTES_MAX, FILE_BYTES_MAX, batch_bytes
from medusa_core.protocol.news_documents import NEWS_BYTES_MAX, check_page, read_news
from medusa_core.restart import RestartPolicy
from medusa_core.segments import Producer, SegmentFile
from pipelines.base import clock
from pipelines.catalog.partner_records import LinkState
from pipelines.exchange.client.file_download import Downloads
from pipelines.exchange.client.partner_link import (
    ClientIdentity,
    Learn,
    PartnerAddress,
    PartnerLink,
)
from pipelines.exchange.link_recorder import LinkRecorder

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope

ANSWER_S, LARGE_S = 10.0, 60.0
"""Time limits of responses: of small ones and of the start of any; of those of any size."""

WATCH_MS = 25_000
"""How long one request for progress waits: less than proxies wait for an answer."""

WATCH_S_MIN = 0.05
WATCH_BURST = 10
"""Time between the starts of two requests for progress, on average over so many.

A partner that always answers at once costs 20 requests and ticks a second. A change is heard as
soon as it would be without it, unless too many others came just before.
"""

AFTER_CHANGE_S = 0.02
"""Pause after an answer with a change: the news of the changed lines is requested first, and a
further change would wait for its import."""

INLINE_BYTES_MAX = 64 << 10
"""A larger document is read in a thread, so that requests to other partners go on meanwhile."""

WATCH_RETRIES = RestartPolicy(back_off_ms=1_000, back_off_ms_max=30_000)
"""Pauses after requests for progress that failed."""

BATCH_FILES = 16
"""Small files that are requested together."""

LOOKUPS_MAX = 64
"""Names of hosts that may be resolved at once."""

ADDRESSES_MAX = 4
"""Addresses of partners that are watched which may be looked up at once."""

Value = TypeVar("Value")


LineMarks = Mapping[tuple[StreamName, int], str]
"""Stream and replica -> mark."""


class CallKind(Enum):
    """How a call counts in what is recorded of a link: one that waits, or transfers a file, does
    not show how long answers take."""

    SHORT = "short"
    WAITING = "waiting"
    FILE = "file"


def ignore(known_key: bytes, introduction: object) -> None:
    """Discard introductions of partners: for clients that make a few calls."""


class HttpsExchange:
    """`ExchangeCalls` and a `Transport`. `address` says where a partner is, or raises Unavailable.

    `learn` stores what a partner says of itself; `pause` waits for seconds in the event loop.
    """

    def __init__(
        self, reader: Participant, address: Callable[[Participant], PartnerAddress],
        identity: ClientIdentity, *, learn: Learn = ignore, answer_s: float = ANSWER_S,
        pause: Callable[[float], Awaitable[object]] = clock.sleep_async,
    ) -> None:  # fmt: skip
        self._answer_s = answer_s
        self._reader = reader
        self._address = address
        self._identity = identity
        self._learn = learn
        self._links: dict[Participant, PartnerLink] = {}
        self._watched_marks: dict[Participant, LineMarks] = {}
        self._pause = pause
        self._downloads = Downloads()
        self.links = LinkRecorder()
        self._lookups = ThreadPoolExecutor(ADDRESSES_MAX, "medusa-addresses")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()
        self._is_closed = False
        self._starts = threading.Lock()

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `ExchangeCalls.line_news`."""
        query: dict[str, str | int] = {
            "stream": stream,
            "replica": producer.replica,
            "after": after,
            "segments_max": segments_max,
        }
        began_s = clock.monotonic_s()
        received = self._run(
            producer.participant,
            lambda link: link.request(
                "GET",
                "/v1/news",
                query=query,
                bytes_max=NEWS_BYTES_MAX,
                begins_s_max=self._answer_s,
                seconds_max=LARGE_S,
            ),
        )
        news = read_news(received.content)
        if (news.stream, news.producer, news.after) != (stream, producer, after):
            raise Diverged(
                f"partner {producer.participant} was asked for {stream} by {producer} after "
                f"{after} and sends {news.stream} by {news.producer} after {news.after}: call its "
                "operator"
            )
        check_page(news, segments_max)
        # Rounded down: an age is never too small.
        return replace(news, read_after_ms=max(int((received.read_s - began_s) * 1_000), 0))

    def fetch(self, partner: Participant, file: SegmentFile, target: Path) -> None:
        """A copy of one file, see `fetch_all`."""
        self.fetch_all(partner, {file: target})

    def fetch_all(self, partner: Participant, files: Mapping[SegmentFile, Path]) -> None:
        """See `ExchangeCalls.fetch_all`: `DOWNLOADS_MAX` at a time, small files in batches."""

        async def download_some(link: PartnerLink, some: Sequence[SegmentFile]) -> None:
            targets = {file: files[file] for file in some}
            made = await self._downloads.download_batch(link, partner, targets)
            for _ in made:
                self.links.note_answer(partner)
                self.links.note_file(partner)
            # Each of the others alone: it is continued where it broke off, or says what is wrong.
            await _all_of(download(link, file, files[file]) for file in some if file not in made)

        async def download(link: PartnerLink, file: SegmentFile, target: Path) -> None:
            await self._downloads.download(link, partner, file, target)
            self.links.note_answer(partner)
            self.links.note_file(partner)

        async def all_files(link: PartnerLink) -> None:
            batches = batches_of(files)
            in_batches = {file for batch in batches for file in batch}
            await _all_of(
                [
                    *(download_some(link, batch) for batch in batches),
                    *(download(link, f, to) for f, to in files.items() if f not in in_batches),
                ]
            )

        self._run(partner, all_files, kind=CallKind.FILE)

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int, *, replica: int,
                    version: Version) -> None:  # fmt: skip
        """See `ExchangeCalls.acknowledge`."""
        body = calls.write_acknowledgement(
            calls.Acknowledgement(
                stream=stream,
                replica=replica,
                version=version,
                through_us=through_us,
                limit_ms=limit_ms,
                path_ms=path_ms,
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
        # Here, so that a loop without a contract does not load the market.
        from medusa_core.protocol.envelope_documents import (
            DELIVERIES_BYTES_MAX,
            read_deliveries,
            write_envelopes,
        )

        body = write_envelopes(envelopes)
        received = self._run(
            partner,
            lambda link: link.request(
                "POST", "/v1/envelopes", body=body, bytes_max=DELIVERIES_BYTES_MAX,
                seconds_max=self._answer_s,
            ),
        )  # fmt: skip
        return read_deliveries(received.content, len(envelopes))

    def offers(self, partner: Participant) -> tuple[calls.OfferedStream, ...]:
        """The streams of a partner that this participant may read."""
        received = self._run(
            partner,
            lambda link: link.request(
                "GET", "/v1/streams", bytes_max=calls.OFFERS_BYTES_MAX,
                begins_s_max=self._answer_s, seconds_max=LARGE_S,
            ),
        )  # fmt: skip
        return calls.read_offers(received.content)[1]

    def progress(
        self, partner: Participant, known: str = "", wait_ms: int = 0
    ) -> tuple[str, tuple[calls.LineProgress, ...]]:
        """The lines of a partner that this participant may read, and a key of all of them.

        Waits for so long while the key is the known one.
        """
        call = partial(self._progress, known=known, wait_ms=wait_ms)
        kind = CallKind.WAITING if wait_ms else CallKind.SHORT
        key, content = self._run(partner, call, kind=kind)
        return key, calls.read_progress(content)

    def watch(self, partner: Participant, happened: Callable[[], object]) -> Callable[[], None]:
        """Call `happened`, in a thread of the exchange, when lines of a partner have changed.

        It is called too when the partner answers again, and again later if it raises. Ends when
        what is returned is called; a call that has begun by then is not waited for.
        """
        with self._starts:
            loop = self._running()
            watching = asyncio.run_coroutine_threadsafe(self._watched(partner, happened), loop)

        def end() -> None:
            watching.cancel()

        return end

    def line_marks(self, partner: Participant) -> LineMarks | None:
        """The mark of each line of a partner that is watched: it changes when the line's news do.

        None: it is not known now, because the partner is not watched, or does not answer.
        """
        return self._watched_marks.get(partner)

    def address_of(self, partner: Participant) -> PartnerAddress:
        """Where a partner is; raises Unavailable if that is not known."""
        return self._address(partner)

    def health(self, partner: Participant) -> calls.Health:
        """Whose home answers there, with its clock."""
        received = self._run(
            partner,
            lambda link: link.request(
                "GET", "/v1/health", bytes_max=calls.SMALL_BYTES_MAX, seconds_max=self._answer_s
            ),
        )
        return calls.read_health(received.content)

    def token_left_s(self, partner: Participant) -> float | None:
        """For how long the present access token of a partner is valid; None if there is none."""
        link = self._links.get(partner)
        return None if link is None else link.token_left_s

    def is_refused(self, partner: Participant) -> bool:
        """Whether the partner's server has refused to issue the last access token."""
        link = self._links.get(partner)
        return link is not None and link.is_refused

    def introduction(self, partner: Participant) -> str:
        """The introduction that a partner's server presents, signed and not verified."""
        return self._run(partner, lambda link: link.introduction(self._answer_s))

    def join(self, partner: Participant, secret: str) -> None:
        """Join this participant at a partner, with the secret of its invitation."""
        self._run(partner, lambda link: link.join(secret, self._answer_s))

    def close(self) -> None:
        """Close the connections; requests that are open end with Unavailable.

        When it returns, no address is being looked up for a watch.
        """
        with self._starts:
            loop, self._loop, self._is_closed = self._loop, None, True
        try:
            if loop is not None:
                asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        finally:
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()
            self._lookups.shutdown()  # they may still use the own catalog, and tell the loop
            if loop is not None:
                loop.close()
            self._downloads.close()

    # Inside

    def _run(
        self,
        partner: Participant,
        call: Callable[[PartnerLink], Coroutine[Any, Any, Value]],
        *,
        kind: CallKind = CallKind.SHORT,
    ) -> Value:
        try:
            address = self._address(partner)
        except Unavailable as error:
            self.links.note_failure(partner, error, LinkState.UNREACHABLE)
            raise
        called = self._called(partner, address, call, kind)
        try:
            with self._starts:
                future = asyncio.run_coroutine_threadsafe(called, self._running())
        except Unavailable:
            called.close()
            raise
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
        kind: CallKind,
    ) -> Value:
        link = await self._link_to(partner, address)
        began_s = clock.monotonic_s()
        try:
            value = await call(link)
        except MedusaError as error:
            self.links.note_failure(partner, error, _state_after(error, link, kind))
            raise
        else:
            took_s = clock.monotonic_s() - began_s if kind is CallKind.SHORT else None
            if kind is not CallKind.FILE:  # each file is a request, and is noted as it arrives
                self.links.note_answer(partner, took_s=took_s)
            return value
        finally:
            received, sent = link.take_bytes()
            self.links.note_bytes(partner, received=received, sent=sent)

    async def _link_to(self, partner: Participant, address: PartnerAddress) -> PartnerLink:
        link = self._links.get(partner)
        if link is None or link.address != address:
            before = link
            link = self._links[partner] = PartnerLink(
                self._reader, partner, address, self._identity, self._learn
            )
            if before is not None:
                await before.retire()
        return link

    async def _watched(self, partner: Participant, happened: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        known, failures = "", 0
        pace = _Pace(clock.monotonic_s())
        try:
            while True:
                rest_s = 0.0
                try:
                    # It may ask the own catalog, which the event loop must not wait for.
                    address = await loop.run_in_executor(self._lookups, self._address, partner)
                    call = partial(self._progress, known=known, wait_ms=WATCH_MS)
                    key, content = await self._called(partner, address, call, CallKind.WAITING)
                    if key != known:
                        self._watched_marks[partner] = await self._marks(content)
                        happened()
                        rest_s = AFTER_CHANGE_S
                    known, failures = key, 0
                except Exception:  # noqa: BLE001
                    # Also a fault of Medusa's own: nobody would learn that the watch has ended.
                    known, failures = "", failures + 1
                    self._watched_marks.pop(partner, None)
                pause_s = max(pace.pause_s(clock.monotonic_s()), rest_s)
                await self._pause(max(pause_s, WATCH_RETRIES.wait_ms(failures) / 1_000))
        finally:
            self._watched_marks.pop(partner, None)

    async def _marks(self, content: bytes) -> LineMarks:
        """The marks in a document; a large one is read in a thread."""
        if len(content) > INLINE_BYTES_MAX:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._lookups, _marks_of, content)
        return _marks_of(content)

    async def _progress(self, link: PartnerLink, known: str, wait_ms: int) -> tuple[str, bytes]:
        """A key of the lines of a partner, by which they are known until one changes; the lines."""
        wait_s = wait_ms / 1_000
        received = await link.request(
            "GET", "/v1/progress", query={"known": known, "wait_ms": wait_ms},
            bytes_max=calls.OFFERS_BYTES_MAX,
            begins_s_max=self._answer_s + wait_s, seconds_max=LARGE_S + wait_s,
        )  # fmt: skip
        key = received.headers.get("etag", "").strip('"')
        if not key:
            raise link.unavailable("its answer has no ETag")
        return key, received.content

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for link in self._links.values():
            await link.close()


async def _all_of(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all of them; what arrives is kept, also if another one fails."""
    for found in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found


def batches_of(files: Iterable[SegmentFile]) -> list[list[SegmentFile]]:
    """Small files, as they are requested together: also one alone, which needs no part file.

    A batch is much smaller than it may be: while one is written, others are sent.
    """
    batches: list[list[SegmentFile]] = []
    known: set[str] = set()
    for file in files:
        # Of two names of one content the second is requested by itself.
        if file.size_bytes > FILE_BYTES_MAX or file.sha256 in known:
            continue
        known.add(file.sha256)
        is_full = not batches or len(batches[-1]) >= BATCH_FILES
        if is_full or batch_bytes(f.size_bytes for f in (*batches[-1], file)) > BATCH_BYTES_MAX:
            batches.append([])
        batches[-1].append(file)
    return batches


def _marks_of(content: bytes) -> LineMarks:
    return {(one.stream, one.replica): one.mark for one in calls.read_progress(content)}


class _Pace:
    """When requests for progress may start: WATCH_BURST at once, then one in WATCH_S_MIN."""

    def __init__(self, now_s: float) -> None:
        self._free_s = now_s - WATCH_BURST * WATCH_S_MIN

    def pause_s(self, now_s: float) -> float:
        """How long to wait before the next one starts."""
        earliest_s = now_s - WATCH_BURST * WATCH_S_MIN
        self._free_s = max(self._free_s, earliest_s) + WATCH_S_MIN
        return max(self._free_s - now_s, 0.0)


def _state_after(error: MedusaError, link: PartnerLink, kind: CallKind) -> LinkState | None:
    """What a failed call says of the link; None: nothing, as the disk here may be full."""
    if link.is_refused:
        return LinkState.REFUSED
    if not isinstance(error, Unavailable):
        return LinkState.REACHABLE
    return None if kind is CallKind.FILE else LinkState.UNREACHABLE
