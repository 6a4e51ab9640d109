"""The age of news counts from when its sender read it: never too small, and each wait only once."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol.news_documents import write_news
from medusa_core.segments import Producer
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.client.https_exchange import HttpsExchange
from tests.exchange.published_home import ALPHA, published_home
from tests.exchange.served import (
    LIMITS,
    address_of,
    asking,
    request_with_token,
    scripted,
    send,
    served,
    token_of,
)
from tests.sweeps import long_but

SUMS = StreamName("sums")
HELD_S, QUEUED_S = 0.4, 2.0
INSIDE = re.compile(r"inside;dur=([0-9.]+), read;dur=([0-9]+)")


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def urls(postgres_server: EmbeddedServer, storage: Path) -> Iterator[HomeUrls]:
    with published_home(postgres_server, storage) as found:
        yield found


class HeldHome(ExchangeHome):
    """A home whose calls of news wait, before or after they read, and remember when they read."""

    before_s = after_s = read_s = 0.0

    def __init__(self, url: str, participant: Participant) -> None:
        super().__init__(url, participant)
        self.is_first = threading.Semaphore(0)
        self.has_begun, self.lets = threading.Event(), threading.Event()

    @contextmanager
    def first_held(self, request: Callable[[], object]) -> Iterator[None]:
        """Hold this request for QUEUED_S, while the next one waits behind it."""
        self.is_first.release()
        first = threading.Thread(target=request)
        first.start()
        assert self.has_begun.wait(60)

        timer = threading.Timer(QUEUED_S, self.lets.set)
        timer.start()
        yield
        timer.join()
        first.join()

    def published_news(self, partner: Participant, stream: StreamName, replica: int,
                       after: Version, *, segments_max: int) -> LineNews | None:  # fmt: skip
        if self.is_first.acquire(blocking=False):
            self.has_begun.set()
            self.lets.wait(60)
        time.sleep(self.before_s)
        self.read_s = time.monotonic()
        news = super().published_news(partner, stream, replica, after, segments_max=segments_max)
        time.sleep(self.after_s)
        return news


@pytest.fixture
def home(urls: HomeUrls) -> Iterator[HeldHome]:
    with closing(HeldHome(urls.exchange, ALPHA)) as found:
        yield found


def news_of(exchange: HttpsExchange) -> LineNews:
    return exchange.line_news(SUMS, Producer(ALPHA), Version(0), segments_max=16)


def committed_ms(urls: HomeUrls) -> int:
    """When the age of the segment was 0, by the home's clock."""
    return value_of(
        urls,
        "SELECT medusa.to_ms(c.committed_at) - s.age_ms FROM medusa.segment AS s "
        "JOIN medusa.commit AS c USING (commit_id) "
        "JOIN medusa.stream_producer AS p USING (line_id) WHERE p.stream = 'sums'",
    )


def made_ms(urls: HomeUrls) -> int:
    """When the version of the line was made, by the home's clock."""
    return value_of(
        urls,
        "SELECT medusa.to_ms(v.made_at) FROM medusa.line_version AS v "
        "JOIN medusa.stream_producer AS p USING (line_id) WHERE p.stream = 'sums'",
    )


def value_of(urls: HomeUrls, statement: str) -> int:
    (row,) = rows_of(urls, statement)
    return int(row[0])


def rows_of(urls: HomeUrls, statement: str) -> list[Any]:
    url = urls.owner.replace("+psycopg2", "")
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


@pytest.mark.long(quick=True)
@pytest.mark.parametrize(
    ("before_s", "after_s"), long_but(1, [(0.0, 0.0), (HELD_S, 0.0), (0.0, HELD_S)], quick=True)
)
def test_a_slow_server_makes_no_age_too_small(
    home: HeldHome, urls: HomeUrls, storage: Path, before_s: float, after_s: float
) -> None:
    """The clock of both homes is that of one database here, so that ages can be compared."""
    with (
        served(home, storage, urls.exchange, limits=LIMITS) as server,
        asking(address_of(server.url)) as exchange,
    ):
        exchange.health(ALPHA)
        home.before_s, home.after_s = before_s, after_s
        requested_s, requested_ms = time.monotonic(), home.read_clock_ms()
        news = news_of(exchange)
        left_ms = home.read_clock_ms() - requested_ms
    (published,) = news.segments
    fresh_ms = replace(news, requested_at_ms=requested_ms).fresh_ms(published.segment)
    assert fresh_ms is not None
    assert fresh_ms <= committed_ms(urls), "S11"
    assert news.read_after_ms <= (home.read_s - requested_s) * 1_000
    # What the server took behind reading is part of the age now, and was not before.
    delay_ms = replace(news, requested_at_ms=requested_ms).delay_ms(requested_ms + left_ms)
    assert delay_ms is not None
    assert delay_ms >= requested_ms + left_ms - made_ms(urls) - 1


def test_the_wait_for_news_is_no_part_of_its_age(
    home: HeldHome, urls: HomeUrls, storage: Path
) -> None:
    with served(home, storage, urls.exchange, limits=LIMITS) as server:
        token = token_of(server, home)
        url = f"{server.url}/v1/news?stream=sums&replica=0&after=0&segments_max=16"
        headers = {"Authorization": f"Bearer {token}"}
        known = httpx.get(url, headers=headers, trust_env=False).headers["etag"].strip('"')
        waited = httpx.get(f"{url}&known={known}&wait_ms=700", headers=headers, trust_env=False)
        inside_ms, read_ms = map(float, INSIDE.fullmatch(waited.headers["server-timing"]).groups())  # type: ignore[union-attr]
    assert 700 <= read_ms <= inside_ms


@pytest.mark.long(quick=True)
def test_a_request_that_waits_for_the_partners_own_requests_is_not_older_by_that(
    home: HeldHome, urls: HomeUrls, storage: Path
) -> None:
    """The server makes few calls of one partner at a time: the others wait before they read."""
    limits = replace(LIMITS, calls_max=1)
    with (
        served(home, storage, urls.exchange, limits=limits) as server,
        asking(address_of(server.url)) as exchange,
    ):
        exchange.health(ALPHA)
        with home.first_held(lambda: news_of(exchange)):
            news = news_of(exchange)
    assert news.read_after_ms >= QUEUED_S * 1_000 / 4, "most of it was queued"


def answering(timing: str, held_s: float = 0.0) -> Any:
    news = LineNews(
        stream=SUMS, producer=Producer(ALPHA), after=Version(0), version=Version(0),
        origin_us=None, end_us=None, made_ago_ms=50,
    )  # fmt: skip

    def answer(connection: socket.socket) -> None:
        while True:
            request_with_token(connection)
            time.sleep(held_s)
            send(connection, write_news(news), f"Server-Timing: {timing}\r\n")

    return answer


@contextmanager
def news_with(timing: str, held_s: float = 0.0) -> Iterator[tuple[LineNews, float]]:
    """News from a server that says this of its time, and how many ms it took as seen from here."""
    with scripted(answering(timing, held_s)) as url, asking(address_of(url)) as exchange:
        began_s = time.monotonic()
        news = news_of(exchange)
        yield news, (time.monotonic() - began_s) * 1_000


@pytest.mark.parametrize(
    "timing",
    long_but(
        1,
        ["inside;dur=3.0", "inside;dur=9, read;dur=x", "read;dur=-5", "read", "read;dur=1e9"],
        quick=True,
    ),
)
def test_over_a_stalled_link_all_of_the_time_is_age(timing: str) -> None:
    """Nobody knows on which way the time passed: the age counts from the request."""
    with news_with(timing, HELD_S) as (news, took_ms):
        assert news.read_after_ms <= took_ms - HELD_S * 1_000
    assert replace(news, requested_at_ms=1_000).delay_ms(6_000) == 5_050 - news.read_after_ms


def test_a_server_that_claims_to_have_read_later_than_it_answered_gains_nothing() -> None:
    with news_with("inside;dur=1, read;dur=999999999") as (news, took_ms):
        assert news.read_after_ms <= took_ms


def test_what_is_said_of_the_time_of_reading_is_used() -> None:
    with news_with("inside;dur=310.5, read;dur=300", HELD_S) as (news, took_ms):
        assert 300 <= news.read_after_ms <= took_ms - (HELD_S * 1_000 - 300)


def test_ages_are_those_of_when_the_request_arrived(urls: HomeUrls) -> None:
    """However long the database takes: the server knows only when it has sent the statement."""
    ((began_ms, _, news),) = rows_of(
        urls,
        "SELECT medusa.to_ms(statement_timestamp()), pg_sleep(0.3), "
        "medusa.line_news('sums', 'alpha', 0, 0, 16)",
    )
    (segment,) = news["segments"]
    assert segment["age_ms"] == began_ms - committed_ms(urls)
    assert news["made_ago_ms"] == began_ms - made_ms(urls)


@given(
    requested=st.integers(0, 10**6), on_way=st.integers(0, 10**4), inside=st.integers(0, 10**4),
    back=st.integers(0, 10**4), made_ago=st.integers(0, 10**6),
)  # fmt: skip
def test_an_age_is_too_large_by_the_way_of_the_request_and_by_nothing_else(
    requested: int, on_way: int, inside: int, back: int, made_ago: int
) -> None:
    news = LineNews(
        stream=SUMS, producer=Producer(ALPHA), after=Version(0), version=Version(1),
        origin_us=None, end_us=None, made_ago_ms=made_ago,
        requested_at_ms=requested, read_after_ms=inside,
    )  # fmt: skip
    arrived = requested + on_way + inside + back
    assert news.delay_ms(arrived) == made_ago + on_way + back
