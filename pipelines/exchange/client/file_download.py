"""A partner's file by its hash, from where an earlier attempt has stopped.

What has come lies beside the target until all of it is there and has the announced size and hash;
then it takes the target's name. A connection that breaks in the middle costs what is not yet there.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import httpx

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from medusa_core.segments import SegmentFile
from pipelines.base.files import PART_PREFIX, PART_SUFFIX, rename, sync_file
from pipelines.exchange.client.partner_link import PartnerLink

ATTEMPTS_MAX = 16
"""Connections that may break in the middle of one file."""

SECONDS_MAX, BYTES_PER_S_MIN = 60.0, 10_000
"""How long a file may take, and how much longer for its size."""

PIECE_BYTES = 1 << 20


async def download(
    link: PartnerLink, partner: Participant, file: SegmentFile, target: Path
) -> None:
    """A copy of the file at the target, synced; the target's folder is not yet.

    Raises Unavailable if the partner does not send it, sends something else, or the copy cannot be
    written; then the target does not exist.
    """
    part = target.with_name(f"{PART_PREFIX}{file.sha256}{PART_SUFFIX}")
    try:
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        with part.open("a+b") as opened:
            copy = _Copy(opened, file)
            await asyncio.to_thread(copy.read_again)
            seconds_max = SECONDS_MAX + file.size_bytes / BYTES_PER_S_MIN
            async with link.in_time(seconds_max):
                await _complete(link, partner, copy)
            await asyncio.to_thread(sync_file, opened)
        rename(part, target)
    except _OtherBytes:
        part.unlink(missing_ok=True)
        raise Unavailable(
            f"partner {partner} sends other bytes than it announced for the file with SHA-256 "
            f"{file.sha256[:12]}…: call its operator"
        ) from None
    except OSError as error:
        raise Unavailable(
            f"copy {target} could not be written ({error.strerror}): free space or mend the "
            "folder; it is tried again"
        ) from error


class _OtherBytes(Exception):
    """What has come is not the announced file."""


class _Copy:
    """What has come of a file, in an open file that is written at its end."""

    def __init__(self, opened: BinaryIO, file: SegmentFile) -> None:
        self._opened = opened
        self._digest = sha256()
        self.file = file
        self.length = 0

    @property
    def is_complete(self) -> bool:
        return self.length == self.file.size_bytes

    def read_again(self) -> None:
        """What came with earlier attempts counts; too much of it is none."""
        self._opened.seek(0)
        while piece := self._opened.read(PIECE_BYTES):
            self._digest.update(piece)
            self.length += len(piece)
        if self.length > self.file.size_bytes:
            raise _OtherBytes

    def write(self, piece: bytes) -> None:
        """What comes next."""
        self.length += len(piece)
        if self.length > self.file.size_bytes:
            raise _OtherBytes
        self._digest.update(piece)
        self._opened.write(piece)

    def check(self) -> None:
        """Raise unless it is the announced file."""
        if not self.is_complete or self._digest.hexdigest() != self.file.sha256:
            raise _OtherBytes


async def _complete(link: PartnerLink, partner: Participant, copy: _Copy) -> None:
    for _ in range(ATTEMPTS_MAX):
        if copy.is_complete:
            break
        before = copy.length
        try:
            await _receive(link, copy)
        except Unavailable:
            if copy.length == before:
                raise  # nothing more came
    if not copy.is_complete:
        raise Unavailable(
            f"partner {partner} has sent {copy.length} of {copy.file.size_bytes} bytes of a file "
            f"and broken off {ATTEMPTS_MAX} times: it is tried again"
        )
    copy.check()


async def _receive(link: PartnerLink, copy: _Copy) -> None:
    """What one connection brings; what has come when it breaks is not lost."""
    headers = {"Range": f"bytes={copy.length}-"} if copy.length else {}
    path = f"/v1/files/{copy.file.sha256}"
    async with link.streamed("GET", path, headers=headers) as response:
        begins = f"bytes {copy.length}-"
        is_rest = response.status_code == httpx.codes.PARTIAL_CONTENT and response.headers.get(
            "content-range", ""
        ).startswith(begins)
        if copy.length and not is_rest:
            raise _OtherBytes
        collected: list[bytes] = []
        try:
            async for part in link.pieces(response):
                collected.append(part)
                if sum(map(len, collected)) >= PIECE_BYTES:
                    piece = b"".join(collected)
                    collected.clear()
                    await asyncio.to_thread(copy.write, piece)
        finally:
            copy.write(b"".join(collected))
