"""The HTTP of the client: servers that answer early, announce without end, or end unanswered."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

import pytest

from pipelines.exchange.client.http_client import (
    INFORMATIONAL_MAX,
    BrokenConnection,
    HttpClient,
    Silence,
)
from tests.exchange.served import request_on, scripted

LARGE = b"x" * (4 << 20)
"""More than the buffers of a connection hold."""


def status_of(
    answer: Callable[[socket.socket], None], content: bytes = b"", silent_s: float = 30
) -> int:
    async def asked(url: str) -> int:
        client = HttpClient(url, None, connections_max=1)
        try:
            response = await client.send(
                "POST", "/v1/envelopes", content=content, connect_s=30, silent_s=silent_s
            )
            await response.aclose()
            return response.status
        finally:
            await client.aclose()

    with scripted(answer) as url:
        return asyncio.run(asked(url))


def test_an_answer_counts_though_the_server_has_not_read_the_whole_request() -> None:
    def refuses(connection: socket.socket) -> None:
        request_on(connection)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        # Closes by RST once the client has the answer: what is unread does not block it.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        while connection.recv(1):
            if connection.recv(65_536, socket.MSG_PEEK) and has_read():
                return

    counted = iter(range(1_000))

    def has_read() -> bool:
        return next(counted) > 100

    assert status_of(refuses, LARGE) == 413


def test_a_few_informational_responses_may_come_before_the_response() -> None:
    def announces(connection: socket.socket) -> None:
        request_on(connection)
        connection.sendall(b"HTTP/1.1 103 \r\n\r\n" * INFORMATIONAL_MAX)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    assert status_of(announces) == 204


def test_informational_responses_without_end_are_a_broken_connection() -> None:
    def floods(connection: socket.socket) -> None:
        request_on(connection)
        while True:
            connection.sendall(b"HTTP/1.1 103 \r\n\r\n" * 1_000)

    with pytest.raises(BrokenConnection, match="announces responses and sends none"):
        status_of(floods)


def test_a_server_that_sends_nothing_is_silent() -> None:
    def waits(connection: socket.socket) -> None:
        request_on(connection)
        connection.recv(1)

    with pytest.raises(Silence):
        status_of(waits, silent_s=0.2)


def test_a_connection_that_ends_before_an_answer_is_broken() -> None:
    with pytest.raises(BrokenConnection):
        status_of(lambda connection: connection.close())
