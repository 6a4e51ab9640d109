"""The exchange over a network: TLS, tokens, files by range, and partners that misbehave."""

from __future__ import annotations

import errno
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import psycopg2
import pytest

from medusa_core.errors import Diverged, MedusaError, Refused, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.client import file_download, https_exchange
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.server.https_server import HttpsServer, ListenAddress
from pipelines.exchange.server.partner_budgets import ServerLimits
from pipelines.exchange.server_certificates import (
    make_certificate,
    pin_of_file,
    server_context,
)
from tests.catalog import building as a
from tests.exchange.certificates import renewed
from tests.exchange.published_home import ALPHA, BETA, GAMMA, ROWS, form_for, stored, write
from tests.exchange.served import address_of, asking, scripted, served, signed_by
from tests.waiting import until

SUMS_FILE = SegmentFile(
    path="sums/x.parquet", size_bytes=len(ROWS), sha256=sha256(ROWS).hexdigest(), rows=2
)
LIMITS = ServerLimits(
    token_s_max=0.5,
    anonymous_connections_max=8,
    connections_max=4,
    header_s_max=1.5,
    idle_s_max=3.0,
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "server.pem", ALPHA)


@pytest.fixture(scope="module")
def server(home: ExchangeHome, storage: Path, urls: HomeUrls) -> Iterator[HttpsServer]:
    """On loopback, without TLS."""
    with served(home, storage, urls.exchange, limits=LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def hasty(home: ExchangeHome, storage: Path, urls: HomeUrls) -> Iterator[HttpsServer]:
    """The same, but it waits for nothing."""
    limits = replace(LIMITS, header_s_max=0.2, idle_s_max=1.0)
    with served(home, storage, urls.exchange, limits=limits) as server:
        yield server


@pytest.fixture(scope="module")
def tls_server(
    home: ExchangeHome, storage: Path, urls: HomeUrls, certificate: Path
) -> Iterator[HttpsServer]:
    address = ListenAddress(tls=server_context(certificate))
    with served(home, storage, urls.exchange, address, LIMITS) as server:
        yield server


def test_a_partner_reads_what_it_was_granted(
    tls_server: HttpsServer, home: ExchangeHome, certificate: Path, tmp_path: Path
) -> None:
    assert tls_server.url.startswith("https://")
    with asking(address_of(tls_server.url, pin_of_file(certificate))) as exchange:
        news = exchange.line_news(a.SUMS, Producer(ALPHA), Version(0), segments_max=10)
        expected = home.published_news(BETA, a.SUMS, 0, Version(0), segments_max=10)
        assert expected is not None
        assert news.key == expected.key
        (file,) = news.segments[0].segment.files
        exchange.fetch(ALPHA, file, tmp_path / file.path)
        assert (tmp_path / file.path).read_bytes() == ROWS
        exchange.acknowledge(ALPHA, a.SUMS, 0, 1_000, 0)
        assert [one.name for one in exchange.offers(ALPHA)] == [a.SUMS]
        key, lines = exchange.progress(ALPHA)
        assert [(line.stream, line.replica) for line in lines] == [(a.SUMS, 0)]
        assert exchange.progress(ALPHA, key, 50) == (key, lines)
        assert exchange.health(ALPHA).participant == ALPHA


def test_what_is_not_granted_is_refused(server: HttpsServer) -> None:
    with asking(address_of(server.url)) as exchange, pytest.raises(Refused, match="nothing of"):
        exchange.line_news(a.BIG, Producer(ALPHA), Version(0), segments_max=10)
    with asking(address_of(server.url), GAMMA) as exchange:
        assert exchange.offers(ALPHA) == ()


def test_a_server_with_another_key_is_sent_nothing(
    tls_server: HttpsServer, certificate: Path
) -> None:
    with (
        asking(address_of(tls_server.url, "0" * 64)) as exchange,
        pytest.raises(Unavailable, match="not the one that is pinned"),
    ):
        exchange.health(ALPHA)
    with (
        asking(address_of(tls_server.url)) as exchange,
        pytest.raises(Unavailable, match="certificate is not valid"),
    ):
        exchange.health(ALPHA)


def test_an_assertion_for_another_server_is_refused(server: HttpsServer) -> None:
    with (
        asking(address_of(server.url, of=GAMMA)) as exchange,
        pytest.raises(Refused, match="another server, or for another key"),
    ):
        exchange.health(ALPHA)


def test_tls_before_1_3_is_not_served(tls_server: HttpsServer) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with closing(connected(tls_server)) as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "localhost.example"])
def test_without_tls_it_is_served_on_loopback_only(host: str) -> None:
    with pytest.raises(Refused, match="without TLS on loopback only"):
        ListenAddress(host=host)


def test_an_address_that_is_taken_is_named(server: HttpsServer, home: ExchangeHome) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(Unavailable, match=f"port {port} .Address already in use."):
        HttpsServer(lambda *_: None, ListenAddress(port=port), LIMITS)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("content", [b"", b"no certificate", None])
def test_a_certificate_that_cannot_be_used_is_refused(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "server.pem"
    if content is not None:
        file.write_bytes(content)
    for use in (server_context, pin_of_file):
        with pytest.raises(Refused, match="give"):
            use(file)


def test_a_certificate_that_ends_is_renewed_with_its_key_and_one_that_has_ended_is_not_trusted(
    home: ExchangeHome, storage: Path, urls: HomeUrls, tmp_path: Path
) -> None:
    made = make_certificate(tmp_path / "server.pem", ALPHA)
    pin = pin_of_file(made)
    ended = renewed(made, tmp_path / "ended.pem", days=-1)
    address = ListenAddress(tls=server_context(ended))
    with (
        served(home, storage, urls.exchange, address, LIMITS) as server,
        asking(address_of(server.url, pin)) as exchange,
        pytest.raises(Unavailable, match=r"certificate is not valid \(certificate has expired"),
    ):
        exchange.health(ALPHA)
    ending = renewed(made, tmp_path / "ending.pem", days=20)
    content = ending.read_bytes()
    assert make_certificate(ending, ALPHA).read_bytes() != content
    assert pin_of_file(ending) == pin


def test_a_certificate_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    made = make_certificate(tmp_path / "tls" / "server.pem", ALPHA)
    content = made.read_bytes()
    assert make_certificate(made, ALPHA).read_bytes() == content
    assert made.stat().st_mode & 0o077 == 0
    assert made.parent.stat().st_mode & 0o077 == 0


def test_a_certificate_that_was_renewed_with_its_key_is_trusted(
    home: ExchangeHome, storage: Path, urls: HomeUrls, tmp_path: Path
) -> None:
    first = make_certificate(tmp_path / "first.pem", ALPHA)
    second = renewed(first, tmp_path / "second.pem")
    where = ""
    with asking(lambda: address_of(where, pin_of_file(first))) as exchange:
        for file in (first, second):
            port = int(where.rpartition(":")[2] or 0)
            address = ListenAddress(tls=server_context(file), port=port)
            with served(home, storage, urls.exchange, address, LIMITS) as server:
                where = server.url
                assert exchange.health(ALPHA).participant == ALPHA


# ------------------------------------------------------------ files


@pytest.fixture
def content() -> bytes:
    return random.Random(3).randbytes(5_000_000)


def a_file(content: bytes) -> SegmentFile:
    digest = sha256(content).hexdigest()
    return SegmentFile(path="x.parquet", size_bytes=len(content), sha256=digest, rows=1)


def test_a_file_goes_on_where_a_connection_broke(
    server: HttpsServer, tmp_path: Path, content: bytes
) -> None:
    """Each connection carries a fifth of it."""
    starts = []

    def answer(connection: socket.socket) -> None:
        head = request_on(connection)
        if b"/v1/token" in head:
            send_token(connection)
            head = request_on(connection)
        first = int(head.partition(b"bytes=")[2].partition(b"-")[0] or 0)
        starts.append(first)
        part = f"206 Partial\r\nContent-Range: bytes {first}-{len(content) - 1}/{len(content)}"
        status = part if first else "200 OK"
        headers = f"HTTP/1.1 {status}\r\nContent-Length: {len(content) - first}\r\n\r\n"
        connection.sendall(headers.encode() + content[first : first + 1_000_000])

    file, target = a_file(content), tmp_path / "copies" / "x.parquet"
    with scripted(answer) as url, asking(address_of(url)) as exchange:
        exchange.fetch(ALPHA, file, target)
    assert target.read_bytes() == content
    assert starts == list(range(0, 5_000_000, 1_000_000))
    assert [one.name for one in target.parent.iterdir()] == ["x.parquet"]


def part_of(folder: Path, file: SegmentFile) -> Path:
    return folder / f".medusa-{file.sha256}.parquet.part"


@pytest.mark.parametrize("rest", [ROWS[:500_000], b"damaged" * 1_000, ROWS + b"more", b""])
def test_what_an_earlier_attempt_received_is_continued_or_forgotten(
    server: HttpsServer, tmp_path: Path, rest: bytes
) -> None:
    part_of(tmp_path, SUMS_FILE).write_bytes(rest)
    with asking(address_of(server.url)) as exchange:
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet").read_bytes() == ROWS
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]


def test_two_fetches_of_one_file_both_end_with_it(tmp_path: Path, content: bytes) -> None:
    """Both receive the first half before either receives the second."""
    both = threading.Barrier(2, timeout=30)

    def answer(connection: socket.socket) -> None:
        while b"/v1/token" in request_on(connection):
            send_token(connection)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content[:3_000_000])
        both.wait()
        connection.sendall(content[3_000_000:])

    file, target = a_file(content), tmp_path / "x.parquet"
    with (
        scripted(answer) as url,
        asking(address_of(url)) as one,
        asking(address_of(url)) as other,
        ThreadPoolExecutor(2) as threads,
    ):
        for done in [threads.submit(e.fetch, ALPHA, file, target) for e in (one, other)]:
            done.result(timeout=60)
    assert target.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]


def test_a_disk_that_is_full_leaves_the_part_file_for_the_next_attempt(
    server: HttpsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, piece: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with asking(address_of(server.url)) as exchange:
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(file_download._PartFile, "write", full)
                with pytest.raises(Unavailable, match="No space left"):
                    exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
        assert list(tmp_path.iterdir()) == [part_of(tmp_path, SUMS_FILE)]
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]


def test_a_connection_that_falls_silent_in_a_file_is_given_up_and_the_file_continued(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_download, "SILENT_S", 0.5)
    starts = []

    def answer(connection: socket.socket) -> None:
        while b"/v1/token" in (head := request_on(connection)):
            send_token(connection)
        first = int(head.partition(b"bytes=")[2].partition(b"-")[0] or 0)
        starts.append(first)
        part = f"206 Partial\r\nContent-Range: bytes {first}-{len(content) - 1}/{len(content)}"
        headers = f"HTTP/1.1 {part if first else '200 OK'}\r\n"
        headers += f"Content-Length: {len(content) - first}\r\n\r\n"
        connection.sendall(headers.encode() + content[first : first + 3_000_000])
        silent(connection)

    with scripted(answer) as url, asking(address_of(url)) as exchange:
        exchange.fetch(ALPHA, a_file(content), tmp_path / "x.parquet")
    assert starts == [0, 3_000_000]
    assert (tmp_path / "x.parquet").read_bytes() == content


def test_a_connection_that_is_too_slow_for_a_file_is_given_up(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_download, "SILENT_S", 0.5)
    monkeypatch.setattr(file_download, "ATTEMPTS_MAX", 2)
    content = content[:100_000]

    def answer(connection: socket.socket) -> None:
        while b"/v1/token" in request_on(connection):
            send_token(connection)
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        for one in content:
            connection.sendall(bytes([one]))
            time.sleep(0.05)

    with (
        scripted(answer) as url,
        asking(address_of(url)) as exchange,
        pytest.raises(Unavailable, match=r"broken off 2 times|bytes a second"),
    ):
        exchange.fetch(ALPHA, a_file(content), tmp_path / "x.parquet")


def test_a_file_that_the_disk_has_no_room_for_is_not_requested(
    server: HttpsServer, tmp_path: Path
) -> None:
    file = replace(SUMS_FILE, size_bytes=2**60)
    with (
        asking(address_of(server.url)) as exchange,
        pytest.raises(Unavailable, match="no room for a file"),
    ):
        exchange.fetch(ALPHA, file, tmp_path / "x.parquet")


@pytest.mark.parametrize("sent", [b"x" * len(ROWS), ROWS + b"more"], ids=["other", "more"])
def test_a_file_with_other_bytes_than_announced_is_not_kept(tmp_path: Path, sent: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        while b"/v1/token" in request_on(connection):
            send_token(connection)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(sent)}\r\n\r\n"
        connection.sendall(head.encode() + sent)

    with (
        scripted(answer) as url,
        asking(address_of(url)) as exchange,
        pytest.raises(Unavailable, match=r"other bytes than it announced|more than 700000 bytes"),
    ):
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def test_a_copy_that_cannot_be_written_says_so(server: HttpsServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        asking(address_of(server.url)) as exchange,
        pytest.raises(Unavailable, match="could not be written"),
    ):
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "file" / "x.parquet")


# ------------------------------------------------------------ partners that misbehave


def test_a_name_that_is_not_resolved_holds_up_no_other_partner(
    server: HttpsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    real = socket.getaddrinfo

    def hangs(host: str, *args: Any, **kwargs: Any) -> Any:
        return never.wait(60) if host == "hangs.example" else real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    addresses = {GAMMA: address_of("https://hangs.example"), ALPHA: address_of(server.url)}
    exchange = HttpsExchange(BETA, addresses.__getitem__, signed_by(BETA), answer_s=60)
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
        while True:
            heads.append(request_on(connection))
            token = f"HTTP/1.1 200 OK\r\nContent-Length: {len(TOKEN)}\r\n"
            connection.sendall(token.encode() + b"Set-Cookie: a=b\r\n\r\n" + TOKEN)

    with scripted(answer) as url, asking(address_of(url)) as exchange:
        for _ in range(3):
            with pytest.raises(MedusaError):
                exchange.health(ALPHA)
    assert len(heads) > 3
    assert not any(b"cookie" in head.lower() for head in heads)


def test_tokens_are_sent_without_tls_to_loopback_only() -> None:
    for url in ("http://192.0.2.1", "http://example.com", "ftp://127.0.0.1", "//x", ""):
        with pytest.raises(Refused, match="no address of an exchange server"):
            address_of(url)
    with pytest.raises(Refused, match="no address"):
        address_of("http://127.0.0.1:80", "0" * 64)


def request_on(connection: socket.socket) -> bytes:
    """The header of the next request; a body is read over."""
    found = b""
    while b"\r\n\r\n" not in found:
        if not (more := connection.recv(65_536)):
            raise OSError
        found += more
    return found


TOKEN = b'{"access_token":"' + b"x" * 43 + b'","token_type":"Bearer","expires_in":900}'


def send_token(connection: socket.socket) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(TOKEN)}\r\n\r\n"
    connection.sendall(head.encode() + TOKEN)


def silent(connection: socket.socket) -> None:
    while connection.recv(1 << 20):
        pass


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
    has_too_much: "more than 65536 bytes",
    is_a_bomb: "is encoded",
    comes_in_chunks: "announces no length",
    has_a_length_and_chunks: "is encoded",
    resets: "reset by peer",
    leads_elsewhere: "answers 302",
    speaks_no_http: "is not available",
    has_a_huge_header: "is not available",
}


@pytest.mark.parametrize(
    ("what", "sentence"), MISBEHAVIOUR.items(), ids=[what.__name__ for what in MISBEHAVIOUR]
)
def test_a_partner_that_misbehaves_is_unavailable_in_its_time(
    what: Callable[[socket.socket], None], sentence: str
) -> None:
    with (
        scripted(what) as url,
        asking(address_of(url), answer_s=1.0) as exchange,
        pytest.raises(Unavailable, match=sentence) as error,
    ):
        exchange.health(ALPHA)
    assert str(error.value).isprintable()


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


# ------------------------------------------------------------ hostile clients


def connected(server: HttpsServer) -> socket.socket:
    host, _, port = server.url.partition("//")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it, in 30 s at most, sending nothing but that it is invalid."""
    sent = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(65_536):
            sent += more
    assert sent[9:12] in (b"", b"400"), sent
    return True


START = b"GET /v1/health HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /v1/token HTTP/1.1\r\nHost: a\r\n"
INVALID = {
    "nothing": b"",
    "half a line": b"GET /v1/hea",
    "half a header": START + b"A: ",
    "a large header": START + b"A: " + b"x" * 100_000,
    "TLS": b"\x16\x03\x01",
    "zeros": b"\0" * 100,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "a length and chunks": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n",
    "another encoding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
}


@pytest.mark.parametrize("sent", INVALID.values(), ids=list(INVALID))
def test_a_request_that_is_not_complete_or_not_valid_ends_its_connection(
    hasty: HttpsServer, sent: bytes
) -> None:
    with closing(connected(hasty)) as connection:
        connection.sendall(sent)
        assert is_closed(connection)


def test_a_flood_of_connections_ends_the_oldest_of_nobody_and_no_partners(
    server: HttpsServer, tls_server: HttpsServer, home: ExchangeHome, certificate: Path
) -> None:
    for attacked, pin in ((server, None), (tls_server, pin_of_file(certificate))):
        with asking(address_of(attacked.url, pin)) as exchange, ExitStack() as stack:
            exchange.health(ALPHA)
            flood = [stack.enter_context(closing(connected(attacked))) for _ in range(60)]
            assert exchange.health(ALPHA).participant == ALPHA
            counted = attacked.connections.anonymous
            assert counted <= LIMITS.anonymous_connections_max
            for one in flood:
                assert is_closed(one)
            assert exchange.health(ALPHA).participant == ALPHA


def test_tokens_that_are_tried_and_bodies_that_never_come_hold_up_no_partner(
    server: HttpsServer,
) -> None:
    ends = threading.Event()
    tries = START + b"Authorization: Bearer " + b"x" * 43 + b"\r\n\r\n"
    never = POST + b"Content-Length: 9\r\n\r\n"

    def attack(request: bytes) -> None:
        while not ends.is_set():
            with suppress(OSError), closing(connected(server)) as connection:
                connection.settimeout(1)
                connection.sendall(request)
                connection.recv(65_536)

    with asking(address_of(server.url)) as exchange, ThreadPoolExecutor(20) as threads:
        exchange.health(ALPHA)
        for _ in range(10):
            threads.submit(attack, tries)
            threads.submit(attack, never)
        try:
            for _ in range(25):
                assert exchange.health(ALPHA).participant == ALPHA
        finally:
            ends.set()


def test_a_client_that_leaves_while_it_waits_gives_its_request_back(
    home: ExchangeHome, storage: Path, urls: HomeUrls
) -> None:
    limits = ServerLimits(requests_max=3)
    with served(home, storage, urls.exchange, limits=limits) as server:
        token = token_of(server, home)
        with asking(address_of(server.url)) as exchange:
            key, _ = exchange.progress(ALPHA)
            request = f"GET /v1/progress?wait_ms=30000&known={key} HTTP/1.1\r\nHost: a\r\n"
            request += f"Authorization: Bearer {token}\r\n\r\n"
            for _ in range(6):
                with closing(connected(server)) as connection:
                    connection.sendall(request.encode())
            until(lambda: is_answered(exchange), "the requests have ended", 20)


def test_clients_that_leave_before_they_are_known_do_not_count_for_their_partner(
    home: ExchangeHome, storage: Path, urls: HomeUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ServerLimits(connections_max=3)
    with served(home, storage, urls.exchange, limits=limits) as server:
        token = token_of(server, home)
        real, entered, goes_on = home.token_holder, threading.Semaphore(0), threading.Event()

        def slow(token_hash: bytes) -> Participant | None:
            entered.release()
            assert goes_on.wait(30)
            return real(token_hash)

        monkeypatch.setattr(home, "token_holder", slow)
        request = START + f"Authorization: Bearer {token}\r\n\r\n".encode()
        for _ in range(3):
            with closing(connected(server)) as connection:
                connection.sendall(request)
                assert entered.acquire(timeout=30)
        until(lambda: server.connections.anonymous == 0, "they have left")
        goes_on.set()
        monkeypatch.undo()
        with asking(address_of(server.url)) as exchange:
            assert exchange.health(ALPHA).participant == ALPHA


def test_a_file_that_becomes_shorter_while_it_is_sent_ends_its_connection(
    home: ExchangeHome, storage: Path, urls: HomeUrls, caplog: pytest.LogCaptureFixture
) -> None:
    file = stored(storage, "shrinks.parquet", random.Random(6).randbytes(20_000_000))
    with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
        write(catalog, a.MAIN, 2, file)
    with served(home, storage, urls.exchange) as server, closing(connected(server)) as connection:
        head = f"GET /v1/files/{file.sha256} HTTP/1.1\r\nHost: a\r\n"
        head += f"Authorization: Bearer {token_of(server, home)}\r\n\r\n"
        connection.sendall(head.encode())
        received = len(connection.recv(10_000))
        os.truncate(storage / "shrinks.parquet", 9_000_000)
        with suppress(ConnectionResetError):
            while more := connection.recv(1 << 20):
                received += len(more)
        assert received < file.size_bytes
    assert not caplog.records


@pytest.mark.parametrize("pause", [False, True])
def test_a_body_that_is_not_valid_ends_its_connection_and_is_no_fault(
    server: HttpsServer, pause: bool, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with closing(connected(server)) as connection:
        connection.sendall(head if pause else head + b"ZZ\r\n")
        if pause:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 404 ")
            connection.sendall(b"ZZ\r\n")
        with suppress(ConnectionResetError):
            while connection.recv(65_536):
                pass
    assert not caplog.records


def test_a_head_request_is_no_call(server: HttpsServer, home: ExchangeHome) -> None:
    url = f"{server.url}/v1/files/{SUMS_FILE.sha256}"
    headers = {"Authorization": f"Bearer {token_of(server, home)}"}
    assert httpx.head(url, headers=headers, trust_env=False).status_code == 404


def test_a_partner_has_a_number_of_connections(server: HttpsServer, home: ExchangeHome) -> None:
    token = token_of(server, home)
    request = f"GET /v1/health HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    with ExitStack() as stack:
        answers = []
        for _ in range(LIMITS.connections_max + 2):
            one = stack.enter_context(closing(connected(server)))
            one.sendall(request.encode())
            answers.append(one.recv(65_536).split()[1])
        assert answers == [b"200"] * LIMITS.connections_max + [b"429"] * 2


def token_of(server: HttpsServer, home: ExchangeHome) -> str:
    answer = httpx.post(f"{server.url}/v1/token", data=form_for(home, BETA), trust_env=False)
    return str(answer.json()["access_token"])


def test_a_partner_that_does_not_read_its_answers_costs_its_own_memory(
    home: ExchangeHome, storage: Path, urls: HomeUrls
) -> None:
    file = stored(storage, "large.parquet", random.Random(5).randbytes(20_000_000))
    with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
        write(catalog, a.MAIN, 1, file)
    limits = ServerLimits(memory_bytes_max=2_000_000, request_s_max=2.0)
    with served(home, storage, urls.exchange, limits=limits) as server:
        token = token_of(server, home)
        path = f"/v1/files/{file.sha256}"
        request = f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
        with ExitStack() as stack:
            answers = []
            for _ in range(8):
                one = stack.enter_context(closing(socket.socket()))
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                one.settimeout(30)
                one.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
                one.sendall(request.encode())
                answers.append(one.recv(12).split()[1])
            assert set(answers) == {b"200", b"429"}
            with asking(address_of(server.url), GAMMA) as other:
                other.health(ALPHA)
        with asking(address_of(server.url)) as exchange:
            until(lambda: is_answered(exchange), "the budget is given back")


def is_answered(exchange: HttpsExchange) -> bool:
    try:
        exchange.health(ALPHA)
    except MedusaError:
        return False
    return True
