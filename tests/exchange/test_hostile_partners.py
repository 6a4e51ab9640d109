"""Partners that misbehave as servers cost a request its time limit and nothing else."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from medusa_core.errors import Diverged, MedusaError, OutcomeUnknown, Refused, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Version
from medusa_core.protocol.envelope_documents import ANSWER_LENGTH_MAX, ENVELOPES_MAX
from medusa_core.protocol.news_documents import write_news
from medusa_core.protocol.problems import ProblemKind, write_problem
from medusa_core.segments import Producer
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.client import https_exchange
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.server.https_server import HttpsServer
from tests.catalog import building as a
from tests.exchange.published_home import ALPHA, BETA, GAMMA, KeyIdentity
from tests.exchange.served import (
    SUMS_FILE,
    address_of,
    asking,
    request_on,
    request_with_token,
    scripted,
    send,
    served,
    silent,
)
from tests.exchange.test_exchange_home import an_envelope
from tests.protocol.test_news_relations import NEWS, a_segment
from tests.sweeps import long_but
from tests.waiting import until


@pytest.mark.long(quick=True)
def test_a_name_that_is_not_resolved_holds_up_no_other_partner(
    server: HttpsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    real = socket.getaddrinfo

    def hangs(host: str, *args: Any, **kwargs: Any) -> Any:
        return never.wait(60) if host == "hangs.example" else real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    addresses = {GAMMA: address_of("https://hangs.example"), ALPHA: address_of(server.url)}
    exchange = HttpsExchange(BETA, addresses.__getitem__, KeyIdentity(BETA), answer_s=60)
    try:
        with ThreadPoolExecutor(20) as threads:
            waiting = [threads.submit(exchange.health, GAMMA) for _ in range(20)]
            exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
            assert not any(one.done() and not one.exception() for one in waiting)
            exchange.close()
            for one in waiting:
                with pytest.raises(Unavailable):
                    one.result(timeout=30)
    finally:
        never.set()
        exchange.close()


def test_a_partners_cookies_are_not_kept() -> None:
    heads = []

    def answer(connection: socket.socket) -> None:
        cookie = "Set-Cookie: a=b\r\n"
        while True:
            heads.append(request_with_token(connection, cookie))
            send(connection, b"{}", cookie)

    with scripted(answer) as url, asking(address_of(url)) as exchange:
        for _ in range(3):
            with pytest.raises(MedusaError):
                exchange.health(ALPHA)
    assert len(heads) == 3
    assert not any(b"cookie" in head.lower() for head in heads)


def test_tokens_are_sent_without_tls_to_loopback_only() -> None:
    for url in ("http://192.0.2.1", "http://example.com", "ftp://127.0.0.1", "//x", ""):
        with pytest.raises(Refused, match="no address of an exchange server"):
            address_of(url)
    with pytest.raises(Refused, match="no address"):
        address_of("http://127.0.0.1:80", "0" * 64)


def drips(connection: socket.socket) -> None:
    request_on(connection)
    for one in b"HTTP/1.1 200 OK\r\n" + b"A" * 1_000:
        connection.sendall(bytes([one]))
        time.sleep(0.05)


def never_ends(connection: socket.socket) -> None:
    request_on(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65_536)


def has_too_much(connection: socket.socket) -> None:
    request_on(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n")
    silent(connection)


def comes_in_chunks(connection: socket.socket) -> None:
    request_on(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\nx\r\n" * 1_000)


def has_a_length_and_chunks(connection: socket.socket) -> None:
    request_on(connection)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.sendall(head)
    while True:
        connection.sendall(b"400\r\n" + b"x" * 1_024 + b"\r\n")


def is_a_bomb(connection: socket.socket) -> None:
    request_on(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b" + b"\0" * 99)


def resets(connection: socket.socket) -> None:
    request_on(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def leads_elsewhere(connection: socket.socket) -> None:
    request_on(connection)
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")


def speaks_no_http(connection: socket.socket) -> None:
    request_on(connection)
    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")


def has_a_huge_header(connection: socket.socket) -> None:
    request_on(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 10_000_000)


MISBEHAVIOUR = {
    silent: "not answered in 1 s",
    drips: "not answered in 1 s",
    never_ends: "announces no length",
    has_too_much: "more than 24676 bytes",
    is_a_bomb: "is encoded",
    comes_in_chunks: "announces no length",
    has_a_length_and_chunks: "is encoded",
    resets: "reset by peer",
    leads_elsewhere: "answers 302",
    speaks_no_http: "is not available",
    has_a_huge_header: "is not available",
}


@pytest.mark.parametrize(
    ("what", "sentence"),
    long_but(4, MISBEHAVIOUR.items(), quick=True),
    ids=[what.__name__ for what in MISBEHAVIOUR],
)
def test_a_partner_that_misbehaves_is_unavailable_in_its_time(
    what: Callable[[socket.socket], None], sentence: str
) -> None:
    with (
        scripted(what) as url,
        # Only what never comes is waited for in vain.
        asking(address_of(url), answer_s=1.0 if "in 1 s" in sentence else 60) as exchange,
        pytest.raises(Unavailable, match=sentence) as error,
    ):
        exchange.health(ALPHA)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("kind", ProblemKind)
def test_no_problem_that_a_partner_reports_is_taken_for_one_of_the_own_catalog(
    kind: ProblemKind,
) -> None:
    content = write_problem(kind, "so it is")

    def reports(connection: socket.socket) -> None:
        request_on(connection)
        head = f"HTTP/1.1 {kind.status} -\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content)

    with (
        scripted(reports) as url,
        asking(address_of(url)) as exchange,
        pytest.raises(MedusaError, match="alpha") as error,
    ):
        exchange.health(ALPHA)
    assert not isinstance(error.value, OutcomeUnknown), "it stops the loop: see Importer.poll"


def test_the_longest_answer_to_each_of_the_most_envelopes_is_read(
    server: HttpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ("\N{GRINNING FACE}" * ANSWER_LENGTH_MAX,) * ENVELOPES_MAX
    monkeypatch.setattr(ExchangeHome, "deliver", lambda home, partner, envelopes: answers)
    with asking(address_of(server.url)) as exchange:
        assert exchange.deliver(ALPHA, [an_envelope(BETA)] * ENVELOPES_MAX) == answers


def test_a_partner_that_is_not_there_is_named() -> None:
    with (
        asking(address_of("http://127.0.0.1:1")) as exchange,
        pytest.raises(Unavailable, match=r"alpha at http://127.0.0.1:1 is not .*refused"),
    ):
        exchange.health(ALPHA)


def test_news_of_another_line_than_was_requested_is_refused(
    server: HttpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = https_exchange.read_news

    def other(content: bytes) -> LineNews:
        at = Version(1)
        return replace(real(content), after=at, version=at, segments=(), plans=())

    monkeypatch.setattr(https_exchange, "read_news", other)
    with asking(address_of(server.url)) as exchange, pytest.raises(Diverged, match="was asked for"):
        exchange.line_news(a.SUMS, Producer(ALPHA), Version(0), segments_max=10)


def asked_for_1024(versions: int) -> LineNews:
    """The answer of a partner that sends 5,000 segments, of so many versions."""
    segments = tuple(a_segment(n, n + 1, 5 + n % versions) for n in range(5_000))
    version = Version(4 + versions)
    whole = replace(NEWS, version=version, end_us=None, trimmed_us=None, segments=segments)
    content = write_news(whole)

    def sends(connection: socket.socket) -> None:
        while True:
            request_with_token(connection)
            send(connection, content)

    with scripted(sends) as url, asking(address_of(url)) as exchange:
        return exchange.line_news(NEWS.stream, NEWS.producer, NEWS.after, segments_max=1_024)


def test_more_segments_than_were_requested_are_refused_unless_one_version_has_them() -> None:
    assert len(asked_for_1024(versions=1).segments) == 5_000
    with pytest.raises(Refused, match="5000 segments of busy_sources were sent where 1024 were"):
        asked_for_1024(versions=2)


@pytest.mark.long(quick=True)
def test_a_token_that_is_forgotten_is_requested_again_by_many_at_once(
    home: ExchangeHome, storage: Path, postgres_server: EmbeddedServer, urls: HomeUrls
) -> None:
    superuser_url = postgres_server.superuser_url(urls.database).replace("+psycopg2", "")
    with (
        served(home, storage, urls.exchange) as server,
        asking(address_of(server.url)) as exchange,
        ThreadPoolExecutor(40) as threads,
    ):
        exchange.health(ALPHA)
        with closing(psycopg2.connect(superuser_url)) as login:
            login.autocommit = True
            with login.cursor() as cursor:
                cursor.execute("DELETE FROM medusa_market.access_token")
                assert cursor.rowcount
                requests = [threads.submit(exchange.health, ALPHA) for _ in range(40)]
                assert {one.result(timeout=60).participant for one in requests} == {ALPHA}
                cursor.execute("SELECT count(*) FROM medusa_market.access_token")
                assert cursor.fetchone() in [(0,), (1,)], "0: the token was used a moment before"


def test_requests_that_are_open_end_when_the_exchange_is_closed() -> None:
    heard = []

    def listens(connection: socket.socket) -> None:
        heard.append(connection.recv(1))
        silent(connection)

    with (
        scripted(listens) as url,
        asking(address_of(url)) as exchange,
        ThreadPoolExecutor(1) as threads,
    ):
        waiting = threads.submit(exchange.health, ALPHA)
        until(lambda: heard, "it has asked")
        exchange.close()
        with pytest.raises(Unavailable, match="closed"):
            waiting.result(timeout=30)
        with pytest.raises(Unavailable, match="closed"):
            exchange.health(ALPHA)
