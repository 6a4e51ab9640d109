"""Responses of a known length, sent piece by piece.

What a response holds of its partner's budget is released when the last byte is sent, so that a
partner that reads slowly, or not at all, uses up its own budget.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.segments import SegmentFile
from pipelines.storage.store import read_file

log = logging.getLogger(__name__)

PARQUET = "application/vnd.apache.parquet"
FILE_BATCH = "application/vnd.medusa.files"
PIECE_BYTES = 1 << 19


class LimitedResponse(StreamingResponse):
    """A response of `length` bytes, of which `memory_bytes` are in memory until they are sent."""

    def __init__(
        self, pieces: AsyncIterator[bytes], length: int, status: int, media_type: str,
        headers: Mapping[str, str] | None = None, *, memory_bytes: int,
    ) -> None:  # fmt: skip
        announced = {**(headers or {}), "Content-Length": str(length)}
        super().__init__(self._noted(pieces), status, announced, media_type=media_type)
        self.memory_bytes = memory_bytes
        self._is_one_piece = length <= PIECE_BYTES
        self.held = ExitStack()
        self.on_sent: Callable[[int], object] = lambda sent: None
        """Called with the number of bytes of each piece."""

    async def _noted(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            self.on_sent(len(piece))
            yield piece

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, then release what it holds.

        Where fewer bytes can be sent than announced the connection is closed.
        """
        with self.held, suppress(EOFError):
            if self._is_one_piece:
                # Nobody is looked after who might leave in the middle: that costs a task group.
                await self.stream_response(send)
            else:
                await super().__call__(scope, receive, send)


def document_response(
    content: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> LimitedResponse:
    """A document."""
    length = len(content)
    return LimitedResponse(_slices(content), length, 200, media_type, headers, memory_bytes=length)


def file_response(
    opened: BinaryIO, read: Callable[[int], Awaitable[bytes]], length: int, status: int,
    headers: Mapping[str, str],
) -> LimitedResponse:  # fmt: skip
    """`length` bytes of an open file from its position; the file is closed after them.

    `read` reads from it without blocking the event loop.
    """
    pieces = _pieces(read, length)
    response = LimitedResponse(
        pieces, length, status, PARQUET, headers, memory_bytes=2 * PIECE_BYTES
    )
    response.held.enter_context(opened)
    return response


def opened_file(root: Path, file: SegmentFile) -> BinaryIO:
    """A stored file; Unavailable, without a path, unless it is there with its size."""
    try:
        return read_file(root, file, partial(_opened, file))
    except MedusaError as error:
        # Its text may name files and objects of this home.
        log.warning("file %s cannot be sent: %s", file.path, error)
        raise _damaged(file) from None


def _opened(file: SegmentFile, path: Path) -> BinaryIO:
    try:
        opened = path.open("rb", buffering=0)
        if os.fstat(opened.fileno()).st_size == file.size_bytes:
            return opened
        opened.close()
    except OSError:
        pass
    raise _damaged(file)


def _damaged(file: SegmentFile) -> Unavailable:
    return Unavailable(f"the file with SHA-256 {file.sha256[:12]}… is damaged here: try later")


def batch_response(content: bytes, is_allowed: Callable[[], Awaitable[bool]]) -> LimitedResponse:
    """A batch of files; it ends early once it is not allowed any more."""

    async def slices() -> AsyncIterator[bytes]:
        async for piece in _slices(content):
            if not await is_allowed():
                raise EOFError
            yield piece

    length = len(content)
    return LimitedResponse(slices(), length, 200, FILE_BATCH, memory_bytes=length)


async def _slices(content: bytes) -> AsyncIterator[bytes]:
    # The HTTP server waits for a slow reader before it takes the next piece.
    for first in range(0, len(content), PIECE_BYTES):
        yield content[first : first + PIECE_BYTES]


async def _pieces(read: Callable[[int], Awaitable[bytes]], length: int) -> AsyncIterator[bytes]:
    """`length` bytes; raises EOFError where the file has become shorter."""
    while length:
        piece = await read(min(PIECE_BYTES, length))
        if not piece:
            raise EOFError
        length -= len(piece)
        yield piece
