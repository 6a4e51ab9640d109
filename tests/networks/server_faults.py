"""Faults of a link that lie at its ends: clocks, a certificate, a server that never ends an answer.

Each holds while its block runs, and is over behind it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pipelines.base import clock
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.homes.exchange_addresses import ServerAddress, read_address, write_address
from tests.exchange.certificates import renewed
from tests.exchange.served import request_with_token, scripted
from tests.networks.linked_homes import ALPHA, LinkedHomes
from tests.networks.namespaces import inside


@contextmanager
def clocks_apart(homes: LinkedHomes, minutes: int = 5) -> Iterator[None]:
    """The processes' clock is off; that of the databases, which judge assertions, is not."""
    right = clock.wall_s
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "wall_s", lambda: right() + minutes * 60)
        yield


@contextmanager
def expired_certificate(homes: LinkedHomes) -> Iterator[None]:
    """Alpha's certificate expired yesterday; it is as before behind the block."""
    file = homes.certificate_file
    good = file.read_bytes()
    renewed(file, file, days=-1)
    homes.certificate.refresh()
    homes.served.close()  # connections that are open stay open: the server starts again
    homes.serve()
    try:
        yield
    finally:
        file.write_bytes(good)
        homes.certificate.refresh()


@contextmanager
def server_instead(homes: LinkedHomes, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """At the address of alpha another server issues tokens, and answers the next request so."""
    directory = homes.settings.directory
    right, identity = read_address(directory, ALPHA), OwnIdentity(directory, ALPHA)

    def converse(connection: socket.socket) -> None:
        request_with_token(connection, identity=identity)
        answer(connection)

    with inside(homes.network.machines["beta"]), scripted(converse) as url:
        write_address(directory, ALPHA, ServerAddress(url=url, pin=None))
        try:
            yield
        finally:
            write_address(directory, ALPHA, right)


def one_byte_a_second(connection: socket.socket) -> None:
    """An answer of 500 bytes that takes 500 seconds."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
    for _ in range(500):
        connection.sendall(b" ")
        time.sleep(1)  # the fault itself: the server is this slow


def never_ending(connection: socket.socket) -> None:
    """An answer whose body has no end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000\r\n\r\n")
    while True:
        connection.sendall(b" " * 65_536)
