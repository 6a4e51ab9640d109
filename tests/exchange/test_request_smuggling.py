"""Requests whose end two programs may see at different places: no second request comes out of one.

Behind each request a second one is sent, which anybody may make and which is answered with 200. It
counts as smuggled if it is answered although the first one can be read in two ways.
"""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from itertools import count

import pytest

from medusa_core.protocol.problems import read_problem
from pipelines.exchange.server.https_server import HttpsServer
from tests.exchange.published_home import ALPHA
from tests.exchange.served import address_of, asking, connected, until_closed
from tests.sweeps import long_but

HIDDEN = b"GET /v1/introduction HTTP/1.1\r\nHost: a\r\n\r\n"
GET = b"GET /x HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


AMBIGUOUS = {
    "a length and chunks": POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "chunks and a length": POST + CHUNKED + b"Content-Length: 60\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
    "a list of lengths": POST + b"Content-Length: 0, 44\r\n\r\n",
    "a length with a sign": POST + b"Content-Length: +0\r\n\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a hexadecimal length": POST + b"Content-Length: 0x0\r\n\r\n",
    "a length with digits of another script": POST + "Content-Length: ٠\r\n\r\n".encode(),
    "a length of many digits": POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "a folded length": POST + b"Content-Length: 0\r\n 44\r\n\r\n",
    "a folded encoding": POST + b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n",
    "a space before the colon": POST + b"Content-Length : 0\r\n\r\n",
    "a tab before the colon": POST + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "a space before the first header": b"POST /x HTTP/1.1\r\n Host: a\r\n\r\n",
    "an encoding that is not known": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "an encoding behind another": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "identity and chunks": POST + b"Transfer-Encoding: identity\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "an encoding in quotes": POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "an encoding behind a control character": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
    "chunks of HTTP/1.0": b"POST /x HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n" + CHUNKED
    + b"\r\n0\r\n\r\n",
    "a chunk that is longer than it says": POST + CHUNKED + b"\r\n1\r\nabc\r\n0\r\n\r\n",
    "a chunk without its end": POST + CHUNKED + b"\r\n3\r\nabc0\r\n\r\n",
    "a chunk with a sign": POST + CHUNKED + b"\r\n+3\r\nabc\r\n0\r\n\r\n",
    "a chunk with a prefix": POST + CHUNKED + b"\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk with an underscore": POST + CHUNKED + b"\r\n1_0\r\n" + b"a" * 16 + b"\r\n0\r\n\r\n",
    "a chunk of endless length": POST + CHUNKED + b"\r\n" + b"f" * 40 + b"\r\n",
    "a carriage return alone": POST + b"A: b\rContent-Length: 44\r\n\r\n",
    "a null in a header": POST + b"A: b\0\r\nContent-Length: 0\r\n\r\n",
    "a null in a name": POST + b"Content-Length\0: 0\r\n\r\n",
    "no host": b"GET /x HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a space in the target": b"GET /x y HTTP/1.1\r\nHost: a\r\n\r\n",
    "a version that is not known": b"GET /x HTTP/9.9\r\nHost: a\r\n\r\n",
    "no version": b"GET /x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "many headers": GET + b"a:\r\n" * 60_000 + b"\r\n",
    "a large header at once": GET + b"A: " + b"x" * 60_000 + b"\r\n\r\n",
    "a long target": b"GET /" + b"x" * 60_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "bytes that are no ASCII": "GET /é HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
}  # fmt: skip
CLEAR = {
    "nothing": GET + b"\r\n",
    "a body of a length": POST + b"Content-Length: 3\r\n\r\nabc",
    "a body in chunks": POST + CHUNKED + b"\r\n" + chunks(b"ab", b"c"),
    "chunks with extensions": POST + CHUNKED + b'\r\n3;a=b;c="d"\r\nabc\r\n0\r\n\r\n',
    "chunks with a trailer": POST + CHUNKED + b"\r\n0\r\nContent-Length: 44\r\n\r\n",
    "the same length twice": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "lines that end with a line feed": b"POST /x HTTP/1.1\nHost: a\nContent-Length: 0\n\n",
    "an absolute target": b"GET http://b.example/v1/introduction HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target with a host": b"GET //b.example/v1/introduction HTTP/1.1\r\nHost: a\r\n\r\n",
    "a path with dots": b"GET /x/../v1/introduction HTTP/1.1\r\nHost: a\r\n\r\n",
    "a path with a letter that is quoted": b"GET /v1/introductio%6E%2f HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tunnel": b"CONNECT b.example:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "the asterisk": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "a trace": b"TRACE /v1/introduction HTTP/1.1\r\nHost: a\r\nCookie: canary\r\n\r\n",
    "another HTTP": GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "a web socket": GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
}  # fmt: skip


def answers_to(server: HttpsServer, sent: bytes) -> list[tuple[int, bytes]]:
    """Status and content of each answer on one connection, until the server closes it."""
    with closing(connected(server)) as connection:
        with suppress(ConnectionError):  # closed while it was being sent
            connection.sendall(sent)
        received = until_closed(connection)
    answers = received.split(b"HTTP/1.1 ")[1:]
    return [(int(one[:3]), one.partition(b"\r\n\r\n")[2]) for one in answers]


@pytest.mark.parametrize("sent", long_but(12, AMBIGUOUS.values(), quick=True), ids=list(AMBIGUOUS))
def test_a_request_that_can_be_read_in_two_ways_ends_its_connection(
    hasty: HttpsServer, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answers = answers_to(hasty, sent + HIDDEN)
    assert len(answers) <= 1
    for status, content in answers:
        assert status in (400, 404)
        assert "without a reason" not in str(read_problem(content, status, "alpha"))
    assert not caplog.records


@pytest.mark.parametrize("sent", long_but(3, CLEAR.values(), quick=True), ids=list(CLEAR))
def test_a_request_that_is_clear_is_answered_once_and_so_is_the_next_one(
    hasty: HttpsServer, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answers = answers_to(hasty, sent + HIDDEN)
    assert [status for status, _ in answers] == [404, 200]
    assert b"canary" not in answers[0][1], "what was sent is not repeated"
    assert not caplog.records


@pytest.mark.long(quick=True)
def test_a_body_that_never_ends_ends_its_connection_and_holds_up_no_partner(
    hasty: HttpsServer, server: HttpsServer
) -> None:
    sent = count()
    endings = []

    def attack(head: bytes, part: bytes) -> None:
        with closing(connected(hasty)) as connection, suppress(ConnectionError, TimeoutError):
            connection.sendall(head)
            while next(sent) < 10**7:
                connection.sendall(part)
        endings.append(head)

    length = b"Content-Length: 999999999999\r\n\r\n"
    token = b"POST /v1/token HTTP/1.1\r\nHost: a\r\n"
    attacks = [
        (POST + length, b"x" * 65_536),
        (token + length, b"x" * 65_536),
        (GET + length, b"x" * 65_536),
        (POST + CHUNKED + b"\r\n", b"1\r\nx\r\n" * 10_000),
        (token + CHUNKED + b"\r\n", b"1\r\nx\r\n" * 10_000),
        (POST + CHUNKED + b"\r\n0\r\n", b"A: b\r\n" * 100),
    ]
    threads = [threading.Thread(target=attack, args=one) for one in attacks]
    for thread in threads:
        thread.start()
    with asking(address_of(hasty.url)) as exchange:
        for _ in range(5):
            assert exchange.health(ALPHA).participant == ALPHA
    for thread in threads:
        thread.join(60)
    assert len(endings) == len(attacks)
