"""Answers of a known length, sent piece by piece in a limited time.

What an answer holds of its partner's budget is given back when the last byte is sent, so that a
partner that reads slowly, or not at all, uses up its own budget.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from medusa_core.errors import Unavailable
from medusa_core.segments import SegmentFile

PARQUET = "application/vnd.apache.parquet"
PIECE_BYTES = 1 << 18


class Answer(StreamingResponse):
    """So many bytes; `memory_bytes` of them are in memory until they are sent.

    If the reader has left or the time is over, fewer bytes are sent than announced, and the
    connection is closed.
    """

    def __init__(
        self, pieces: AsyncIterator[bytes], length: int, status: int, media_type: str,
        headers: Mapping[str, str] | None = None, *, memory_bytes: int,
    ) -> None:  # fmt: skip
        announced = {**(headers or {}), "Content-Length": str(length)}
        super().__init__(pieces, status, announced, media_type=media_type)
        self.memory_bytes = memory_bytes
        self.seconds_max: float | None = None
        self.held = ExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, then give back what it holds."""
        with self.held, suppress(TimeoutError):
            async with asyncio.timeout(self.seconds_max):
                await super().__call__(scope, receive, send)


def document_answer(
    content: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> Answer:
    """A document."""
    length = len(content)
    return Answer(_slices(content), length, 200, media_type, headers, memory_bytes=length)


def file_answer(opened: BinaryIO, length: int, status: int, headers: Mapping[str, str]) -> Answer:
    """So many bytes of an open file from where it stands, which is closed behind them."""
    pieces = _pieces(opened, length)
    answer = Answer(pieces, length, status, PARQUET, headers, memory_bytes=PIECE_BYTES)
    answer.held.enter_context(opened)
    return answer


def opened_file(path: Path, file: SegmentFile, first: int) -> BinaryIO:
    """A stored file from a byte on; Unavailable unless it is there with its size."""
    try:
        opened = path.open("rb")
        if os.fstat(opened.fileno()).st_size == file.size_bytes:
            opened.seek(first)
            return opened
        opened.close()
    except OSError:
        pass
    raise Unavailable(f"the file with SHA-256 {file.sha256[:12]}… is damaged here: try later")


async def _slices(content: bytes) -> AsyncIterator[bytes]:
    # The HTTP server waits for a slow reader before it takes the next piece.
    for first in range(0, len(content), PIECE_BYTES):
        yield content[first : first + PIECE_BYTES]


async def _pieces(opened: BinaryIO, length: int) -> AsyncIterator[bytes]:
    """So many bytes of an open file; ends early where the file does."""
    while length:
        piece = await run_in_threadpool(opened.read, min(PIECE_BYTES, length))
        if not piece:
            return
        length -= len(piece)
        yield piece
