"""Connections of the HTTP client, over asyncio's transports.

The library's own go through another library's streams, which decrypt and hand on at most one TLS
record of 16 KiB at a time and look at the socket several times for each request: of a large file
over TLS that was most of the cost.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpcore
import httpx

BUFFERED_BYTES_MAX = 1 << 20
"""What was received and not taken yet; beyond it nothing more is read."""

EYEBALLS_S = 0.25
"""How long one address of a host is tried alone."""

IDLE_S_MAX = 45.0
"""How long a connection without a request is kept: less than the server keeps it."""


class Transport(httpx.AsyncHTTPTransport):
    """A transport of `httpx` over these connections."""

    def __init__(
        self, context: ssl.SSLContext, connections_max: int, options: Iterable[tuple[int, int, int]]
    ) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=connections_max,
            max_keepalive_connections=connections_max,
            keepalive_expiry=IDLE_S_MAX,
            network_backend=Backend(),
            socket_options=list(options),
        )


class Backend(httpcore.AsyncNetworkBackend):
    """Makes connections."""

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None,
        local_address: str | None = None, socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:  # fmt: skip
        """See `httpcore.AsyncNetworkBackend`."""
        async with _in_time(timeout, httpcore.ConnectTimeout, httpcore.ConnectError):
            transport, received = await asyncio.get_running_loop().create_connection(
                Received, host, port, happy_eyeballs_delay=EYEBALLS_S
            )
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return Stream(transport, received)

    async def sleep(self, seconds: float) -> None:
        """See `httpcore.AsyncNetworkBackend`."""
        await asyncio.sleep(seconds)


class Received(asyncio.Protocol):
    """What has arrived on a connection, and whether more can be sent."""

    def __init__(self) -> None:
        self.is_ended = False
        self.error: Exception | None = None
        self.transport: asyncio.Transport | None = None
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_paused = False
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_readable(self) -> bool:
        """Whether a read would return at once."""
        return self.is_ended or bool(self._pieces)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size > BUFFERED_BYTES_MAX and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()
        self._changed.set()

    def eof_received(self) -> None:
        """See `asyncio.Protocol`."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._end(exc)
        self._writable.set()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._writable.set()

    async def take(self) -> bytes:
        """Bytes that have arrived, nothing at the end; raises OSError if the connection broke."""
        while not self.is_readable:
            self._changed.clear()
            await self._changed.wait()
        if not self._pieces:
            if self.error is not None:
                raise self.error
            return b""
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._is_paused and self._size <= BUFFERED_BYTES_MAX // 2 and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        return piece

    async def until_writable(self) -> None:
        """Wait until what was sent is on its way; raises OSError if the connection broke."""
        await self._writable.wait()
        if self.error is not None:
            raise self.error

    def _end(self, error: Exception | None) -> None:
        self.is_ended = True
        self.error = self.error or error
        self._changed.set()


class Stream(httpcore.AsyncNetworkStream):
    """One connection."""

    def __init__(self, transport: asyncio.Transport, received: Received) -> None:
        self._transport = transport
        self._received = received

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What arrived at once, up to 256 KiB, as asyncio reads it: the parser takes any number."""
        async with _in_time(timeout, httpcore.ReadTimeout, httpcore.ReadError):
            return await self._received.take()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """See `httpcore.AsyncNetworkStream`."""
        if not buffer:
            return
        async with _in_time(timeout, httpcore.WriteTimeout, httpcore.WriteError):
            if self._transport.is_closing():
                raise self._received.error or ConnectionResetError
            self._transport.write(buffer)
            await self._received.until_writable()

    async def aclose(self) -> None:
        """See `httpcore.AsyncNetworkStream`: nothing that was sent is waited for."""
        self._transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:  # fmt: skip
        """See `httpcore.AsyncNetworkStream`."""
        try:
            async with _in_time(timeout, httpcore.ConnectTimeout, httpcore.ConnectError):
                transport = await asyncio.get_running_loop().start_tls(
                    self._transport, self._received, ssl_context, server_hostname=server_hostname
                )
                if transport is None:
                    raise ConnectionResetError
        except BaseException:
            self._transport.abort()
            raise
        self._received.transport = transport
        return Stream(transport, self._received)

    def get_extra_info(self, info: str) -> Any:
        """See `httpcore.AsyncNetworkStream`."""
        if info == "is_readable":
            return self._received.is_readable or self._transport.is_closing()
        return self._transport.get_extra_info(info)


@asynccontextmanager
async def _in_time(
    seconds: float | None, timed_out: type[Exception], failed: type[Exception]
) -> AsyncIterator[None]:
    """Errors of a connection as those of the library."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise timed_out(error) from error
    except OSError as error:
        raise failed(error) from error
