"""The exchange over a network: TLS, tokens and certificates."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Version
from medusa_core.segments import Producer
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.client.partner_link import PartnerLink
from pipelines.exchange.server.https_server import HttpsServer, ListenAddress
from pipelines.exchange.server_certificates import (
    ServerCertificate,
    make_certificate,
    pin_of,
    pin_of_file,
    replace_certificate,
    server_context,
)
from tests.catalog import building as a
from tests.exchange.certificates import renewed
from tests.exchange.published_home import ALPHA, BETA, GAMMA, ROWS
from tests.exchange.served import (
    LIMITS,
    address_of,
    asking,
    connected,
    served,
)


def test_small_answers_wait_for_no_acknowledgement(server: HttpsServer) -> None:
    (listening,) = server.servers[0].sockets
    # Without its protocol asyncio leaves Nagle's algorithm on: 40 ms for each answer.
    assert listening.proto == socket.IPPROTO_TCP


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
        exchange.acknowledge(ALPHA, a.SUMS, 0, 1_000, 0, replica=0, version=Version(0))
        assert [one.name for one in exchange.offers(ALPHA)] == [a.SUMS]
        key, lines = exchange.progress(ALPHA)
        assert [(line.stream, line.replica) for line in lines] == [(a.SUMS, 0)]
        assert exchange.progress(ALPHA, key, 50) == (key, lines)
        assert exchange.health(ALPHA).participant == ALPHA


def test_a_connection_is_used_again_after_a_response_without_content(server: HttpsServer) -> None:
    before = set(server.server_state.connections)
    used = []
    with asking(address_of(server.url)) as exchange:
        for _ in range(3):
            exchange.acknowledge(ALPHA, a.SUMS, 0, 60_000, 0, replica=0, version=Version(0))
            used.append(set(server.server_state.connections) - before)
    assert len(used[0]) == 1
    assert used == [used[0]] * 3


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
        pytest.raises(Refused, match="not signed with the key that is known here"),
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


def test_a_certificate_that_is_replaced_between_two_looks_is_looked_at_again(
    tls_server: HttpsServer, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = make_certificate(tmp_path / "earlier.pem", ALPHA).read_text()
    begins = earlier.index("-----BEGIN CERTIFICATE-----")
    received = [ssl.PEM_cert_to_DER_cert(earlier[begins:])]
    look = PartnerLink._certificate

    async def certificate_of(link: PartnerLink) -> bytes:
        return received.pop() if received else await look(link)

    monkeypatch.setattr(PartnerLink, "_certificate", certificate_of)
    with asking(address_of(tls_server.url, pin_of_file(certificate))) as exchange:
        exchange.health(ALPHA)
    assert received == []


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


def test_a_server_presents_another_certificate_when_its_file_changes_and_keeps_one_that_works(
    tmp_path: Path,
) -> None:
    path = make_certificate(tmp_path / "own.pem", ALPHA)
    presented = ServerCertificate(path)
    first, whole = presented.pin, path.read_bytes()
    path.unlink()
    with pytest.raises(Refused, match="cannot be used"):
        presented.refresh()
    presented.refresh()  # it was said once
    path.write_bytes(whole[:200])
    with pytest.raises(Refused, match="cannot be used"):
        presented.refresh()
    assert presented.pin == first
    replace_certificate(path, ALPHA)
    presented.refresh()
    assert presented.pin == pin_of_file(path) != first


def test_no_handshake_fails_while_the_certificate_is_replaced(tmp_path: Path) -> None:
    path = make_certificate(tmp_path / "own.pem", ALPHA)
    presented = ServerCertificate(path)
    seen: set[str] = set()
    is_over = threading.Event()

    def replace() -> None:
        while not is_over.is_set():
            replace_certificate(path, ALPHA)
            presented.refresh()

    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        for _ in range(300):
            seen.add(pin_in_handshake(presented.context))
    finally:
        is_over.set()
        replacing.join()
    assert len(seen) > 1
    assert pin_in_handshake(presented.context) == presented.pin == pin_of_file(path)


def pin_in_handshake(context: ssl.SSLContext) -> str:
    """The pin of the certificate that a server with a context presents."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(received, sent)
    server = context.wrap_bio(sent, received, server_side=True)
    for one in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            one.do_handshake()
    certificate = client.getpeercert(binary_form=True)
    assert certificate is not None
    return pin_of(certificate)


def test_a_certificate_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    made = make_certificate(tmp_path / "tls" / "server.pem", ALPHA)
    content = made.read_bytes()
    assert make_certificate(made, ALPHA).read_bytes() == content
    assert made.stat().st_mode & 0o077 == 0
    assert made.parent.stat().st_mode & 0o077 == 0


@pytest.mark.long(quick=True)
def test_a_certificate_that_was_renewed_with_its_key_is_trusted(
    home: ExchangeHome, storage: Path, urls: HomeUrls, tmp_path: Path
) -> None:
    first = make_certificate(tmp_path / "first.pem", ALPHA)
    second = renewed(first, tmp_path / "second.pem")
    with socket.socket() as kept:
        # Bound and not listening, it keeps the port for both servers while none has it.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        where = f"https://127.0.0.1:{port}"
        with asking(address_of(where, pin_of_file(first))) as exchange:
            for file in (first, second):
                address = ListenAddress(tls=server_context(file), port=port)
                with served(home, storage, urls.exchange, address, LIMITS):
                    assert exchange.health(ALPHA).participant == ALPHA
