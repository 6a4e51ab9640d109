"""A partner's file by its hash, continued where an earlier attempt stopped.

Received bytes are stored in a part file beside the target, which takes the target's name once it
has the announced size and hash. A connection that breaks in the middle costs what is not yet there.
The part file is locked: a second process that needs the same file at the same time uses one of its
own.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import ParamSpec, TypeVar

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol.file_batches import BatchReader, batch_bytes, write_files
from medusa_core.segments import SegmentFile
from pipelines.base.files import (
    PART_PREFIX,
    PART_SUFFIX,
    FileLock,
    atomic_file,
    rename,
    sync_file,
)
from pipelines.exchange.client.http_client import Response
from pipelines.exchange.client.partner_link import (
    DOWNLOADS_MAX,
    SILENT_S,
    MinimumRate,
    PartnerLink,
)

P = ParamSpec("P")
Value = TypeVar("Value")

ATTEMPTS_MAX = 16
"""Connections that may break in the middle of one file."""

FREE_BYTES_MIN = 1 << 30
"""Room that a partner's file leaves on the disk."""

FILE_MODE = 0o666
"""Of a part file, which becomes a file of the storage root: as the others there."""

PIECE_BYTES = 1 << 20

SYNCED_BYTES = 8 << 20
"""A file is synced after so many bytes each time: the disk writes while the rest is received."""


class Downloads:
    """Downloads of files; their disk work is done in threads of their own."""

    def __init__(self) -> None:
        # Most of them wait for the disk.
        self._threads = ThreadPoolExecutor(DOWNLOADS_MAX, "medusa-downloads")

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    async def download(
        self, link: PartnerLink, partner: Participant, file: SegmentFile, target: Path
    ) -> None:
        """Make a copy of the file at the target, synced; the target's folder is not yet.

        Raises Unavailable if the partner does not send it, sends something else, or the copy cannot
        be written; then the target does not exist.
        """
        try:
            async with link.downloads:
                part = await self._opened(target, file)
                try:
                    await self._complete(link, partner, part)
                    await self._run(part.name, target)
                except _OtherBytes:
                    await self._run(part.remove)
                    raise _other_bytes(partner, file) from None
                finally:
                    part.close()
        except OSError as error:
            raise _not_written(target, error) from error

    async def download_batch(
        self, link: PartnerLink, partner: Participant, files: Mapping[SegmentFile, Path]
    ) -> set[SegmentFile]:
        """Make copies of small files in one request; those that were made, which may be few.

        Each is synced, its folder is not yet. Raises Refused if the partner sends what was not
        requested, and Unavailable if it does not answer, sends other bytes than announced, or a
        copy cannot be written. What an answer that breaks off lacks is no error: it is missing.
        """
        writes: list[asyncio.Future[SegmentFile]] = []
        try:
            async with link.downloads:
                await self._receive_batch(link, partner, files, writes)
        finally:
            found = await asyncio.gather(*writes, return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return {one for one in found if isinstance(one, SegmentFile)}

    async def _receive_batch(
        self, link: PartnerLink, partner: Participant, files: Mapping[SegmentFile, Path],
        writes: list[asyncio.Future[SegmentFile]],
    ) -> None:  # fmt: skip
        """Begin to write each file as it arrives."""
        by_hash = {file.sha256: file for file in files}
        sizes = {digest: file.size_bytes for digest, file in by_hash.items()}
        body, is_answered = write_files(list(sizes)), False
        try:
            async with link.streamed("POST", "/v1/files", body=body, silent_s=SILENT_S) as response:
                is_answered = True
                reader, rate, received = BatchReader(sizes), MinimumRate(link), 0
                async for piece in link.pieces(response, batch_bytes(sizes.values())):
                    received += len(piece)
                    rate.check(received)
                    for digest, content in reader.take(piece):
                        file = by_hash[digest]
                        writing = self._started(_write, partner, file, content, files[file])
                        writes.append(writing)
        except Unavailable:
            if not is_answered:
                raise
        except Refused:
            if is_answered:
                raise
            # It is an older Medusa, which sends no batches.

    async def _opened(self, target: Path, file: SegmentFile) -> _PartFile:
        """The part file; closed if the request is cancelled while it is being read."""
        made = asyncio.get_running_loop().run_in_executor(self._threads, _PartFile, target, file)
        try:
            return await asyncio.shield(made)
        except asyncio.CancelledError:
            with suppress(Exception):
                (await made).close()
            raise

    async def _complete(self, link: PartnerLink, partner: Participant, part: _PartFile) -> None:
        for _ in range(ATTEMPTS_MAX):
            before = part.length
            try:
                if not part.is_complete:
                    await self._receive(link, part)
                    if not part.is_as_announced:
                        link.pause_redirects()  # an object may have other bytes
            except Unavailable:
                if part.length == before:
                    raise  # it sends nothing any more
            if part.is_complete:
                if part.is_as_announced:
                    return
                if not part.is_continued:
                    raise _OtherBytes
                # What lay here may have been damaged by a power failure.
                await self._run(part.begin_again)
        raise Unavailable(
            f"partner {partner} has sent {part.length} of {part.file.size_bytes} bytes of a file "
            f"and broken off {ATTEMPTS_MAX} times: it is tried again"
        )

    async def _receive(self, link: PartnerLink, part: _PartFile) -> None:
        """Store what one connection brings, also if it breaks."""
        async with link.file(part.file.sha256, part.length) as response:
            if part.length and not _continues(response, part.length):
                await self._run(part.begin_again)  # the server need not know ranges
            missing = part.file.size_bytes - part.length
            rate, received = MinimumRate(link, response.store), 0
            collected: list[bytes] = []
            unwritten = 0
            writing: asyncio.Future[None] | None = None
            try:
                async for piece in link.pieces(response, missing):
                    collected.append(piece)
                    received += len(piece)
                    unwritten += len(piece)
                    rate.check(received)
                    if unwritten >= PIECE_BYTES:
                        await _end_of(writing)
                        pieces, collected, unwritten = collected, [], 0
                        # Meanwhile the next piece is received.
                        writing = self._started(part.write, pieces)
            finally:
                await _end_of(writing)
                if collected:
                    part.write(collected)

    async def _run(self, function: Callable[P, Value], *args: P.args, **kwargs: P.kwargs) -> Value:
        return await self._started(function, *args, **kwargs)

    def _started(
        self, function: Callable[P, Value], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[Value]:
        call = partial(function, *args, **kwargs)
        return asyncio.get_running_loop().run_in_executor(self._threads, call)


async def _end_of(writing: asyncio.Future[None] | None) -> None:
    """Wait until a write has ended, which a cancelled download cannot stop; raises its error."""
    if writing is not None:
        await asyncio.wait([writing])
        writing.result()


def _continues(response: Response, first: int) -> bool:
    """Whether a response is the part of a file from a byte on."""
    is_part = response.status == HTTPStatus.PARTIAL_CONTENT
    return is_part and response.headers.get("content-range", "").startswith(f"bytes {first}-")


def _write(partner: Participant, file: SegmentFile, content: bytes, target: Path) -> SegmentFile:
    """Write a copy, synced, if the content has the announced hash."""
    if sha256(content).hexdigest() != file.sha256:
        raise _other_bytes(partner, file)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_room(target.parent, file, file.size_bytes)
        with atomic_file(target, syncs_folder=False, mode=FILE_MODE) as opened:
            opened.write(content)
    except OSError as error:
        raise _not_written(target, error) from error
    return file


def _check_room(folder: Path, file: SegmentFile, size_bytes: int) -> None:
    if size_bytes > shutil.disk_usage(folder).free - FREE_BYTES_MIN:
        raise Unavailable(
            f"there is no room for a file of {file.size_bytes} bytes in {folder}: free space; it "
            "is tried again"
        )


def _other_bytes(partner: Participant, file: SegmentFile) -> Unavailable:
    return Unavailable(
        f"partner {partner} sends other bytes than it announced for the file with SHA-256 "
        f"{file.sha256[:12]}…: call its operator"
    )


def _not_written(target: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"copy {target} could not be written ({error.strerror}): free space or mend the folder; it "
        "is tried again"
    )


class _OtherBytes(Exception):
    """What was received is not the announced file."""


class _PartFile:
    """The received bytes of a file; `is_continued` if some are of an earlier attempt."""

    def __init__(self, target: Path, file: SegmentFile) -> None:
        self.file = file
        target.parent.mkdir(parents=True, exist_ok=True)
        self._folder = target.parent
        _check_room(target.parent, file, file.size_bytes)
        self._path, self._lock = _locked(target, file.sha256)
        with ExitStack() as failed:
            failed.callback(self._lock.close)
            self._opened = failed.enter_context(self._path.open("r+b"))
            self._digest = sha256()
            self.length = self._unsynced = 0
            while piece := self._opened.read(PIECE_BYTES):
                self._digest.update(piece)
                self.length += len(piece)
            self.is_continued = self.length > 0
            if self.length > file.size_bytes:
                self.begin_again()
            failed.pop_all()

    @property
    def is_complete(self) -> bool:
        """Whether it has the announced size."""
        return self.length == self.file.size_bytes

    @property
    def is_as_announced(self) -> bool:
        """Whether it is the announced file."""
        return self.is_complete and self._digest.hexdigest() == self.file.sha256

    def begin_again(self) -> None:
        """Forget what was received."""
        self._opened.seek(0)
        self._opened.truncate()
        self._digest, self.length, self.is_continued = sha256(), 0, False

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append received bytes; Unavailable if too little room is left, also by other files."""
        _check_room(self._folder, self.file, sum(map(len, pieces)))
        for piece in pieces:
            self._opened.write(piece)
            self._digest.update(piece)
            self.length += len(piece)
            self._unsynced += len(piece)
        if self._unsynced >= SYNCED_BYTES:
            self._unsynced = 0
            sync_file(self._opened)

    def name(self, target: Path) -> None:
        """Give the file, which is complete, the target's name."""
        sync_file(self._opened)
        rename(self._path, target)

    def remove(self) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._path.unlink()

    def close(self) -> None:
        """Close the file, so that another process may continue it."""
        try:
            self._opened.close()  # writes what is left in its buffer
        finally:
            self._lock.close()


def _locked(target: Path, digest: str) -> tuple[Path, FileLock]:
    """The part file of a hash with its lock; one of this process if another one uses it."""
    end = f"{target.suffix}{PART_SUFFIX}"
    path = target.with_name(f"{PART_PREFIX}{digest}{end}")
    with suppress(BlockingIOError), ExitStack() as other:
        lock = other.enter_context(FileLock(path, mode=FILE_MODE))
        with suppress(FileNotFoundError):
            # Else the process before has just given it the target's name.
            if os.fstat(lock.descriptor).st_ino == path.stat().st_ino:
                other.pop_all()
                return path, lock
    path = target.with_name(f"{PART_PREFIX}{digest}-{secrets.token_hex(6)}{end}")
    return path, FileLock(path, mode=FILE_MODE)
