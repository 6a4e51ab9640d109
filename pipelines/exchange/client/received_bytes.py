"""What has arrived on a connection, as asyncio reads it: up to 256 KiB at once, also over TLS."""

from __future__ import annotations

import asyncio
from collections import deque

BUFFERED_BYTES_MAX = 1 << 20
"""What was received and not taken yet; beyond it nothing more is read."""


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
