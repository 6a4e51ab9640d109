"""Shared files: prepared for an answer, and sent to the holder of the address that was in it.

An address is no path: it names what a file holds, and its signature says for whom. While a file is
sent the grant is looked up again, so that it breaks off soon after it was withdrawn.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from starlette.requests import Request
from starlette.responses import Response

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.base import clock
from pipelines.catalog.sharing_records import TokenHolder
from pipelines.exchange.server.connections import claim
from pipelines.exchange.server.partner_budgets import PartnerBudgets, TooManyRequests
from pipelines.exchange.server.request_parts import range_of
from pipelines.exchange.server.responses import PARQUET, file_response
from pipelines.sharing.address_signatures import FileAddress, Signatures
from pipelines.sharing.call_parts import address_of_request, expired_address
from pipelines.sharing.recipient_limits import (
    RequestRate,
    UsageMeter,
    claimant_of,
    preparing_thread,
)

if TYPE_CHECKING:
    from pipelines.sharing.file_rows import FileRows
    from pipelines.sharing.prepared_files import PreparedFile, PreparedFiles
    from pipelines.sharing.sharing_home import SharingHome

PREFIX = "/delta-sharing"
FILE_PATH = "/files/{expires}/{token}/{stream}/{key}.parquet"
RECENT_S = 0.5
"""For how long a grant is not looked up again while a file is sent."""

TOKENS_MAX = 10_000
_HOST = re.compile(r"[0-9A-Za-z.:\[\]_-]{1,270}")


class FileCalls:
    """The files of one server; `folder` is where they are kept, `storage` the home's root."""

    def __init__(
        self, home: SharingHome, budgets: PartnerBudgets, rate: RequestRate, usage: UsageMeter,
        signatures: Signatures, folder: Path, storage: Path,
    ) -> None:  # fmt: skip
        self._home = home
        self._budgets = budgets
        self._rate = rate
        self._usage = usage
        self._signatures = signatures
        self._folder = folder
        self._storage = storage
        self._preparing = preparing_thread()
        self._prepared: PreparedFiles | None = None
        self._recipients: dict[int, str] = {}

    def close(self) -> None:
        """End the thread."""
        self._preparing.shutdown(cancel_futures=True)

    async def prepare(
        self, holder: TokenHolder, stream: StreamName, rows: FileRows
    ) -> PreparedFile:
        """The file of these rows, one after the other with those of other recipients."""
        loop = asyncio.get_running_loop()
        file = await loop.run_in_executor(self._preparing, lambda: self._files().prepare(rows))
        self._usage.count(holder.recipient, stream, rows=file.rows)
        return file

    def address(
        self, request: Request, holder: TokenHolder, stream: StreamName, file: PreparedFile
    ) -> tuple[str, int]:
        """Where the client gets a file, and until when (Unix ms): below the name that it used."""
        host = request.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise Refused("the header Host names no host: send the one of the endpoint")
        is_tls = request.url.scheme == "https"
        # A proxy that ends TLS says so; a client that says so itself gets what it asks for.
        is_tls = is_tls or request.headers.get("x-forwarded-proto") == "https"
        path, expires_ms = self._signatures.address_of(holder.token_id, stream, file.key)
        if len(self._recipients) >= TOKENS_MAX:
            self._recipients.clear()
        self._recipients[holder.token_id] = holder.recipient
        return f"http{'s' if is_tls else ''}://{host}{PREFIX}{path}", expires_ms

    async def file(self, request: Request) -> Response:
        """A file, or one range of its bytes."""
        address, signature = address_of_request(request)
        if address is None or not self._signatures.recognised(address, signature):
            raise expired_address()
        recipient = self._recipients.get(address.token_id)
        if recipient is None:
            raise expired_address()
        claimant = claimant_of(recipient)
        if not claim(request.scope, claimant):
            raise TooManyRequests
        with ExitStack() as held:
            held.enter_context(self._budgets.request(claimant))
            if not await self._is_granted(address, recipient):
                raise expired_address()
            opened = await self._opened(address, recipient)
            held.enter_context(opened)
            size_bytes = os.fstat(opened.fileno()).st_size
            part = range_of(request, size_bytes)
            first, end = part or (0, size_bytes)
            headers = {"Accept-Ranges": "bytes", "ETag": f'"{address.key}"'}
            self._usage.count(recipient, address.stream, requests=1)
            if request.method == "HEAD":
                headers["Content-Length"] = str(size_bytes)
                return Response(b"", 200, headers, media_type=PARQUET)
            if first >= end:
                headers["Content-Range"] = f"bytes */{size_bytes}"
                return Response(b"", 416, headers)
            if part is not None:
                headers["Content-Range"] = f"bytes {first}-{end - 1}/{size_bytes}"
            opened.seek(first)
            read = self._reader(opened, address, recipient)
            status = 200 if part is None else 206
            response = file_response(opened, read, end - first, status, headers)
            held.enter_context(self._budgets.memory(claimant, response.memory_bytes))
            held.push(response.held)
            response.held = held.pop_all()
            return response

    def _reader(
        self, opened: BinaryIO, address: FileAddress, recipient: str
    ) -> Callable[[int], Awaitable[bytes]]:
        """Reads the next piece of a file; nothing once the grant is withdrawn."""
        looked_s = clock.monotonic_s()

        async def read(bytes_max: int) -> bytes:
            nonlocal looked_s
            await clock.sleep_async(self._rate.wait_s(recipient, bytes_max))
            now_s = clock.monotonic_s()
            if now_s - looked_s > RECENT_S:
                looked_s = now_s
                if not await self._is_granted(address, recipient):
                    return b""
            piece = await self._budgets.call(claimant_of(recipient), opened.read, bytes_max)
            self._usage.count(recipient, address.stream, bytes_=len(piece))
            return piece

        return read

    async def _opened(self, address: FileAddress, recipient: str) -> BinaryIO:
        """The file, written again first if it was removed; that waits for its turn."""
        prepared = self._prepared
        if prepared is None:
            raise expired_address()
        claimant = claimant_of(recipient)
        opened = await self._budgets.call(claimant, prepared.opened, address.key)
        if opened is None:
            loop = asyncio.get_running_loop()
            opened = await loop.run_in_executor(self._preparing, prepared.written, address.key)
        if opened is None:
            raise expired_address()
        return opened

    async def _is_granted(self, address: FileAddress, recipient: str) -> bool:
        return await self._budgets.call(
            claimant_of(recipient), self._home.is_shared, address.token_id, address.stream
        )

    def _files(self) -> PreparedFiles:
        """The shared files; called by the one thread that writes them."""
        if self._prepared is None:
            from pipelines.sharing.prepared_files import PreparedFiles

            self._prepared = PreparedFiles(self._folder, self._storage)
        return self._prepared
