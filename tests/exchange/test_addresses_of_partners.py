"""An address that a partner names, and the environment, lead no request to anybody else."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path

import pytest

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.protocol.introductions import introduction_claims, read_introduction
from pipelines.exchange.server.https_server import HttpsServer
from pipelines.exchange.server_certificates import make_certificate, pin_of_file, server_context
from tests.exchange.published_home import ALPHA, GAMMA, KEYS, KeyIdentity
from tests.exchange.served import (
    address_of,
    asking,
    request_on,
    request_with_token,
    scripted,
    send,
)

NO_URLS = (
    "https://", "https://[", "https://]", "https://[]", "https://[::1", "https://[::1]x",
    "https://:80", "https://a:b", "https://a:99999999", "https://a:1:2", "https://a:",
    "https://...", "https://-", "https://a-", "http://127.0.0.1", "file:///etc/passwd",
    "https://a/b", "https://u:p@a", "https://a?b", "https://a#b", "https://a\nb", "https://ä",
    "https://a%2e", "//a", "",
)  # fmt: skip
"""What no participant may say that its address is."""
NO_ADDRESSES = {
    "https://", "https://[", "https://]", "https://[]", "https://[::1", "https://[:::::]",
    "https://:80", "https://a:b", "https://a:99999999", "https://a:1:2", "//a", "",
    "file:///etc/passwd",
}  # fmt: skip


@pytest.mark.parametrize("url", NO_URLS)
def test_an_introduction_with_what_is_no_url_is_refused(url: str) -> None:
    claims = {**introduction_claims(ALPHA, "https://a", None, (), 0), "url": url}
    with pytest.raises(Refused, match="the introduction is not valid: url"):
        read_introduction(claims, ALPHA, KEYS[ALPHA].public_key().public_bytes_raw(), 0)


@pytest.mark.parametrize("url", sorted(NO_ADDRESSES))
def test_an_address_that_cannot_be_read_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="no address of an exchange server"):
        address_of(url)


URLS = (
    "https://a", "https://a-b.example:8443", "https://[::1]:1", "https://192.0.2.1",
    "https://xn--mnchen-3ya.example",
)  # fmt: skip


@pytest.mark.parametrize("url", URLS)
def test_an_introduction_may_name_a_host_and_a_port(url: str) -> None:
    claims = introduction_claims(ALPHA, url, None, (), 0)
    key = KEYS[ALPHA].public_key().public_bytes_raw()
    assert read_introduction(claims, ALPHA, key, 0).url == address_of(url).url == url


@pytest.mark.parametrize("pin", [None, "0" * 64])
def test_an_address_that_leads_to_a_service_without_tls_is_sent_a_greeting_alone(
    pin: str | None,
) -> None:
    """As if a partner had said that it is at https://127.0.0.1:5432."""
    received = []

    def listens(connection: socket.socket) -> None:
        received.append(connection.recv(65_536))
        connection.sendall(b"E\0\0\0\x0cSFATAL\0\0")

    with scripted(listens) as url:
        address = address_of(url.replace("http:", "https:"), pin)
        with asking(address) as exchange, pytest.raises(Unavailable, match="TLS failed"):
            exchange.health(ALPHA)
    assert received
    assert all(greeting.startswith(b"\x16\x03") for greeting in received)
    assert not any(b"HTTP" in greeting or b"Bearer" in greeting for greeting in received)


def test_an_address_that_leads_to_another_service_with_tls_is_asked_for_its_introduction_alone(
    tmp_path: Path,
) -> None:
    """As if a partner had signed the address and the key of an internal service as its own."""
    certificate = make_certificate(tmp_path / "internal.pem", GAMMA)
    heads = []

    def serves(connection: socket.socket) -> None:
        with server_context(certificate).wrap_socket(connection, server_side=True) as tls:
            heads.append(request_on(tls))
            send(tls, b'{"introduction":"a.b.c"}')

    with scripted(serves) as url:
        address = address_of(url.replace("http:", "https:"), pin_of_file(certificate))
        with asking(address) as exchange, pytest.raises(MedusaError):
            exchange.health(ALPHA)
    assert heads
    for head in heads:
        lines = head.lower().split(b"\r\n")
        assert lines[0] == b"get /v1/introduction http/1.1"
        assert not any(line.startswith((b"authorization", b"cookie")) for line in lines)


def test_a_file_or_a_redirect_to_a_file_is_never_read(tmp_path: Path) -> None:
    def leads_to_file(connection: socket.socket) -> None:
        request_on(connection)
        connection.sendall(
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: file:///etc/passwd\r\n"
            b"Content-Length: 0\r\n\r\n"
        )

    with (
        scripted(leads_to_file) as url,
        asking(address_of(url)) as exchange,
        pytest.raises(Unavailable, match="answers 307"),
    ):
        exchange.health(ALPHA)


def test_the_environment_leads_no_request_elsewhere(
    tls_server: HttpsServer, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxied, heads = [], []

    def proxies(connection: socket.socket) -> None:
        proxied.append(connection.recv(65_536))

    def answers(connection: socket.socket) -> None:
        heads.append(request_with_token(connection))
        send(connection, b"{}")

    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login canary password canary\n")
    netrc.chmod(0o600)
    with scripted(proxies) as proxy, scripted(answers) as plain:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)
            monkeypatch.setenv(name.lower(), proxy)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "")
        monkeypatch.setenv("NETRC", str(netrc))
        monkeypatch.setenv("SSLKEYLOGFILE", "")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
        monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
        with asking(address_of(tls_server.url, pin_of_file(certificate))) as exchange:
            assert exchange.health(ALPHA).participant == ALPHA
        with asking(address_of(plain)) as exchange, pytest.raises(Refused, match="is missing"):
            exchange.health(ALPHA)
    assert not proxied
    assert heads
    assert not any(b"canary" in head or b"Basic" in head for head in heads)


def endless_interim_answers(connection: socket.socket) -> None:
    request_on(connection)
    while True:
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 10)
        time.sleep(0.01)


@pytest.mark.long(quick=True)
def test_interim_answers_without_end_are_no_answer() -> None:
    with (
        scripted(endless_interim_answers) as url,
        asking(address_of(url)) as exchange,
        pytest.raises(Unavailable, match="announces responses and sends none"),
    ):
        exchange.health(ALPHA)


def test_an_introduction_of_another_participant_is_not_believed() -> None:
    def lies(connection: socket.socket) -> None:
        request_on(connection)
        signed = KeyIdentity(GAMMA).introduction()
        send(connection, b'{"introduction":"' + signed.encode() + b'"}')

    with (
        scripted(lies) as url,
        asking(address_of(url)) as exchange,
        pytest.raises(Refused, match="not signed with the key that is known here"),
        closing(exchange),
    ):
        exchange.health(ALPHA)
