"""A stored file as an answer: sent piece by piece, in a limited time, to a slow partner too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from medusa_core.errors import Unavailable
from medusa_core.segments import SegmentFile

PARQUET = "application/vnd.apache.parquet"
PIECE_BYTES = 1 << 18


class FileAnswer(StreamingResponse):
    """So many bytes of an open file, which is closed behind them.

    What it holds is given back when the last byte is sent, the reader has left, or the time is
    over; in the last two cases fewer bytes are sent than announced, and the connection is closed.
    """

    def __init__(
        self, opened: BinaryIO, length: int, status: int, headers: Mapping[str, str], s_max: float
    ) -> None:
        announced = {**headers, "Content-Length": str(length)}
        super().__init__(_pieces(opened, length), status, announced, media_type=PARQUET)
        self._s_max = s_max
        self._held = ExitStack()
        self._held.enter_context(opened)

    def holds(self, held: ExitStack) -> None:
        """Give this back, too, when the answer has ended."""
        self._held.push(held)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        with self._held:
            try:
                async with asyncio.timeout(self._s_max):
                    await super().__call__(scope, receive, send)
            except TimeoutError:
                return


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


async def _pieces(opened: BinaryIO, length: int) -> AsyncIterator[bytes]:
    """So many bytes of an open file; ends early where the file does."""
    while length:
        piece = await run_in_threadpool(opened.read, min(PIECE_BYTES, length))
        if not piece:
            return
        length -= len(piece)
        yield piece
