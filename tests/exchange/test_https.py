"""The exchange over a network: TLS, tokens, files by range, and partners that misbehave."""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import httpx
import psycopg2
import pytest

from medusa_core.errors import Diverged, MedusaError, Refused, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.client import https_exchange
from pipelines.exchange.server.https_server import Address, HttpsServer
from pipelines.exchange.server.partner_budgets import ServerLimits
from pipelines.exchange.server_certificates import (
    make_certificate,
    pin_of_file,
    server_context,
)
from tests.catalog import building as a
from tests.exchange.certificates import renewed
from tests.exchange.published_home import ALPHA, BETA, GAMMA, ROWS, form_for, stored, write
from tests.exchange.served import address_of, asking, scripted, served
from tests.waiting import until

SUMS_FILE = SegmentFile(
    path="sums/x.parquet", size_bytes=len(ROWS), sha256=sha256(ROWS).hexdigest(), rows=2
)
LIMITS = ServerLimits(
    anonymous_connections_max=8, connections_max=4, header_s_max=0.5, idle_s_max=2.0
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
def tls_server(
    home: ExchangeHome, storage: Path, urls: HomeUrls, certificate: Path
) -> Iterator[HttpsServer]:
    address = Address(tls=server_context(certificate))
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
        pytest.raises(Unavailable, match="certificate does not count"),
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
        Address(host=host)


def test_an_address_that_is_taken_is_named(server: HttpsServer, home: ExchangeHome) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(Unavailable, match=f"port {port} .Address already in use."):
        HttpsServer(lambda *_: None, Address(port=port), LIMITS)  # type: ignore[arg-type, return-value]


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
            address = Address(tls=server_context(file), port=port)
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


def test_what_came_of_a_file_counts_at_the_next_attempt(
    server: HttpsServer, storage: Path, tmp_path: Path
) -> None:
    part = tmp_path / f".medusa-{SUMS_FILE.sha256}.part"
    part.write_bytes(ROWS[:500_000])
    with asking(address_of(server.url)) as exchange:
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
        assert (tmp_path / "x.parquet").read_bytes() == ROWS
        # What is no beginning of it is forgotten.
        part.write_bytes(b"other" * 1_000)
        with pytest.raises(Unavailable, match="other bytes than it announced"):
            exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "y.parquet")
        assert not part.exists()
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "y.parquet")


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
        pytest.raises(Unavailable, match="other bytes than it announced"),
    ):
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_cannot_be_written_says_so(server: HttpsServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        asking(address_of(server.url)) as exchange,
        pytest.raises(Unavailable, match="could not be written"),
    ):
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "file" / "x.parquet")


# ------------------------------------------------------------ partners that misbehave


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
    never_ends: "more than 65536 bytes",
    is_a_bomb: "content encoding",
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


def test_a_token_that_is_forgotten_is_requested_anew(
    server: HttpsServer, postgres_server: EmbeddedServer, urls: HomeUrls
) -> None:
    superuser_url = postgres_server.superuser_url(urls.database).replace("+psycopg2", "")
    with asking(address_of(server.url)) as exchange:
        exchange.health(ALPHA)
        with closing(psycopg2.connect(superuser_url)) as login:
            login.autocommit = True
            with login.cursor() as cursor:
                cursor.execute("DELETE FROM medusa_market.access_token")
                assert cursor.rowcount
        assert exchange.health(ALPHA).participant == ALPHA


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
    return sent[9:12] in (b"", b"400")


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
    server: HttpsServer, sent: bytes
) -> None:
    with closing(connected(server)) as connection:
        connection.sendall(sent)
        assert is_closed(connection)


def test_a_flood_of_connections_ends_the_oldest_of_nobody_and_no_partners(
    server: HttpsServer, home: ExchangeHome
) -> None:
    with asking(address_of(server.url)) as exchange, ExitStack() as stack:
        exchange.health(ALPHA)
        flood = []
        for _ in range(40):
            flood.append(stack.enter_context(closing(connected(server))))
            assert exchange.health(ALPHA).participant == ALPHA
        for one in flood:
            assert is_closed(one)
        assert exchange.health(ALPHA).participant == ALPHA


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
    limits = ServerLimits(memory_bytes_max=1_000_000, answer_s_max=1.0)
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


def is_answered(exchange: https_exchange.HttpsExchange) -> bool:
    try:
        exchange.health(ALPHA)
    except MedusaError:
        return False
    return True
