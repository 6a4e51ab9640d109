"""Waiting for changes at partners: none is missed, and no partner makes this machine busy."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol.call_documents import LineProgress, write_progress
from medusa_core.segments import Producer
from pipelines.base import clock
from pipelines.catalog.partner_records import KnownPartner
from pipelines.exchange.client.https_exchange import (
    AFTER_CHANGE_S,
    LARGE_S,
    WATCH_BURST,
    WATCH_MS,
    WATCH_S_MIN,
    HttpsExchange,
)
from pipelines.exchange.client.partner_addresses import KNOWN_S_MAX, MISSES_S_MAX, PartnerAddresses
from pipelines.exchange.client.partner_link import SILENT_S, PartnerAddress, PartnerLink
from pipelines.exchange.client.progress_listener import ProgressListener
from pipelines.exchange.server.https_server import HttpsServer
from pipelines.homes.exchange_addresses import ServerAddress, write_address
from tests.catalog import building as a
from tests.exchange.published_home import ALPHA, BETA, GAMMA, KeyIdentity
from tests.exchange.served import (
    address_of,
    asking,
    request_with_token,
    scripted,
)

LINES = (LineProgress(stream=StreamName("sums"), replica=0, mark="3.1"),)


class Pauses:
    """The pauses of a watch: none takes time, and at the last one it stops."""

    def __init__(self, number: int) -> None:
        self.seconds: list[float] = []
        self.are_over = threading.Event()
        self._number = number

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == self._number:
            self.are_over.set()
            await asyncio.Event().wait()


def address_for(url: str) -> Callable[[Participant], PartnerAddress]:
    return lambda partner: address_of(url)


@contextmanager
def answering(etags: list[str | None]) -> Iterator[tuple[str, list[str]]]:
    """A partner that answers a request for progress at once, with these keys; its requests."""
    left, requests = deque(etags), list[str]()

    def answer(connection: socket.socket) -> None:
        while True:
            head = request_with_token(connection).decode()
            requests.append(head.splitlines()[0])
            etag = left.popleft()
            named = "" if etag is None else f"ETag: {etag}\r\n"
            content = write_progress(LINES)
            head = f"HTTP/1.1 200 OK\r\n{named}Content-Length: {len(content)}\r\n\r\n"
            connection.sendall(head.encode() + content)

    with scripted(answer) as url:
        yield url, requests


def watched(
    address: Callable[[Participant], PartnerAddress], pauses: Pauses, happened: Callable[[], object]
) -> None:
    """Watch alpha until the last pause."""
    with closing(HttpsExchange(BETA, address, KeyIdentity(BETA), answer_s=60, pause=pauses)) as one:
        one.watch(ALPHA, happened)
        assert pauses.are_over.wait(120)


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still unless it is set."""
    now = [1_000.0]
    monkeypatch.setattr(clock, "monotonic_s", lambda: now[0])
    return now


@pytest.mark.usefixtures("now_s")
def test_a_partner_with_ever_new_keys_is_asked_at_intervals() -> None:
    pauses, heard = Pauses(WATCH_BURST + 2), list[int]()
    with answering([f'"{n}"' for n in range(20)]) as (url, requests):
        watched(address_for(url), pauses, lambda: heard.append(1))
    assert len(requests) == len(heard) == WATCH_BURST + 2
    # By a clock that stands still.
    early = [AFTER_CHANGE_S] * WATCH_BURST
    assert pauses.seconds == pytest.approx([*early, WATCH_S_MIN, 2 * WATCH_S_MIN])


def test_the_marks_of_a_partner_are_known_while_it_is_watched_and_answers() -> None:
    pauses, found = Pauses(2), list[object]()
    with (
        answering(['"a"', None]) as (url, _),
        closing(
            HttpsExchange(BETA, address_for(url), KeyIdentity(BETA), answer_s=60, pause=pauses)
        ) as one,
    ):
        assert one.line_marks(ALPHA) is None
        end = one.watch(ALPHA, lambda: found.append(one.line_marks(ALPHA)))
        assert pauses.are_over.wait(120)
        assert found == [{("sums", 0): "3.1"}]
        assert one.line_marks(ALPHA) is None, "it has failed to answer"
        end()


@pytest.mark.usefixtures("now_s")
def test_an_answer_without_a_key_is_a_failure_and_pauses_grow_until_a_success() -> None:
    pauses, heard = Pauses(10), list[int]()
    etags = [None, '""', *[None] * 5, '"a"', '"a"', None]
    with answering(etags) as (url, requests):
        watched(address_for(url), pauses, lambda: heard.append(1))
    assert pauses.seconds == pytest.approx([1, 2, 4, 8, 16, 30, 30, AFTER_CHANGE_S, 0, 1])
    assert len(heard) == 1
    assert [f"known=a&wait_ms={WATCH_MS} " in line for line in requests] == [
        *[False] * 8, True, True
    ]  # fmt: skip


@pytest.mark.usefixtures("now_s")
def test_a_fault_does_not_end_a_watch() -> None:
    pauses, looks, heard = Pauses(4), list[int](), list[int]()

    def happened() -> None:
        heard.append(1)
        if len(heard) == 1:
            raise RuntimeError("a fault of who is told")

    with answering(['"a"', '"a"', '"a"']) as (url, _):

        def address(partner: Participant) -> PartnerAddress:
            looks.append(1)
            if len(looks) == 1:
                raise ValueError("a fault of who knows addresses")
            return address_of(url)

        watched(address, pauses, happened)
    assert pauses.seconds == pytest.approx([1, 2, AFTER_CHANGE_S, 0])
    assert len(heard) == 2, "what was not told is told again"


def test_closing_waits_for_an_address_that_is_being_looked_up() -> None:
    is_looking, is_closed = threading.Event(), threading.Event()
    seen: list[bool] = []

    def address(partner: Participant) -> PartnerAddress:
        is_looking.set()
        exchange._thread.join(60)  # the event loop ends without it
        seen.append(is_closed.wait(0.5))
        raise Unavailable("the catalog is closed")

    exchange = HttpsExchange(BETA, address, KeyIdentity(BETA))
    exchange.watch(ALPHA, lambda: None)
    assert is_looking.wait(60)
    exchange.close()
    is_closed.set()
    assert seen == [False], "the look-up has ended before"


@pytest.mark.long(quick=True)
def test_an_answer_of_any_size_begins_as_soon_as_a_small_one(
    server: HttpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    real = PartnerLink.in_time

    @asynccontextmanager
    async def noted(link: PartnerLink, seconds_max: float) -> AsyncIterator[None]:
        limits.append(seconds_max)
        async with real(link, seconds_max):
            yield

    monkeypatch.setattr(PartnerLink, "in_time", noted)
    with asking(address_of(server.url), answer_s=50) as exchange:
        exchange.line_news(a.SUMS, Producer(ALPHA), Version(0), segments_max=10)
        assert starts(limits) == [LARGE_S, 50]
        limits.clear()
        exchange.progress(ALPHA, wait_ms=20_000)
        assert starts(limits) == [LARGE_S + 20, 50 + 20], "it may wait at the partner"
        limits.clear()
        exchange.deliver(ALPHA, ())
        assert starts(limits) == [50, 50]


def starts(limits: list[float]) -> list[float]:
    """The limits of answers and of their beginnings, without those of each piece of a body."""
    return [limit for limit in limits if limit != SILENT_S]


class Keys:
    """The keys that a home knows, and how often they are read."""

    def __init__(self) -> None:
        self.known = {ALPHA: b"a"}
        self.reads = 0
        self.is_away = False

    def __call__(self) -> dict[Participant, KnownPartner]:
        self.reads += 1
        if self.is_away:
            raise Unavailable("the home is away")
        return {name: KnownPartner(public_key=key) for name, key in self.known.items()}


@pytest.fixture
def keys() -> Keys:
    return Keys()


@pytest.fixture
def addresses(tmp_path: Path, keys: Keys) -> PartnerAddresses:
    for partner in (ALPHA, GAMMA):
        address = ServerAddress(url="https://127.0.0.1:1", pin=None)
        write_address(tmp_path, partner, address)
    return PartnerAddresses(tmp_path, keys)


def test_a_key_that_is_not_known_costs_a_query_now_and_then(
    addresses: PartnerAddresses, keys: Keys, now_s: list[float]
) -> None:
    for reads in (1, 2):
        for _ in range(5):
            with pytest.raises(Unavailable, match="is not known in this home"):
                addresses(GAMMA)
        assert addresses(ALPHA).public_key == b"a"
        assert keys.reads == reads
        now_s[0] += MISSES_S_MAX + 0.1
    keys.known[GAMMA] = b"g"
    assert addresses(GAMMA).public_key == b"g"


def test_a_key_that_was_known_is_used_while_the_own_home_is_away(
    addresses: PartnerAddresses, keys: Keys, now_s: list[float]
) -> None:
    addresses(ALPHA)
    keys.is_away = True
    now_s[0] += KNOWN_S_MAX + 0.1
    for _ in range(5):
        assert addresses(ALPHA).public_key == b"a"
    assert keys.reads == 2
    now_s[0] += MISSES_S_MAX + 0.1
    with pytest.raises(Unavailable, match="the home is away"):
        addresses(GAMMA)


def test_nobody_waits_for_a_query_of_another_thread(tmp_path: Path, keys: Keys) -> None:
    entered = 0

    def read() -> dict[Participant, KnownPartner]:
        nonlocal entered
        entered += 1
        if entered == 1:  # while this query runs, another thread asks
            thread = threading.Thread(target=addresses, args=(ALPHA,), daemon=True)
            thread.start()
            thread.join(60)
            assert not thread.is_alive()
        return keys()

    write_address(tmp_path, ALPHA, ServerAddress(url="https://127.0.0.1:1", pin=None))
    addresses = PartnerAddresses(tmp_path, read)
    assert addresses(ALPHA).public_key == b"a"


def test_a_notification_that_is_being_sent_keeps_its_descriptor() -> None:
    told: list[Callable[[], None]] = []
    is_sending, is_closed = threading.Event(), threading.Event()
    closed_meanwhile: list[bool] = []

    def watch(happened: Callable[[], None]) -> Callable[[], None]:
        told.append(happened)
        return lambda: None

    class Written:
        """The end that is written to, between the look at its number and the send."""

        def send(self, content: bytes) -> int:
            is_sending.set()
            closed_meanwhile.append(is_closed.wait(0.5))
            return len(content)

        def close(self) -> None:
            is_closed.set()

    with ExitStack() as stack:
        listener = ProgressListener(watch)
        stack.callback(listener._written.close)
        listener._written = Written()  # type: ignore[assignment]
        sender = threading.Thread(target=told[0])
        sender.start()
        assert is_sending.wait(60)
        listener.close()
        sender.join()
    assert closed_meanwhile == [False]
    assert is_closed.is_set()
