"""HTTP/1.1 to one server over asyncio: connections that are used again, responses piece by piece.

No more than the exchange needs, so nothing has to be switched off: no redirect is followed, no
cookie kept, nothing decompressed, no setting of the environment read. `h11` writes and reads the
heads. A body has the announced length, so it needs no parser and is taken as it arrives.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlencode, urlsplit

import h11

from pipelines.base import clock
from pipelines.exchange.client.received_bytes import Received

EYEBALLS_S = 0.25
"""How long one address of a host is tried alone."""

IDLE_S_MAX = 45.0
"""How long a connection without a request is kept: less than the server keeps it."""

HEAD_BYTES_MAX = 64 << 10

INFORMATIONAL_MAX = 8
"""How many responses of 1xx may come before one."""

_NO_CONTENT = 204
_PORTS = {"http": 80, "https": 443}


class BrokenConnection(Exception):
    """A connection was not made, or ended before a response: the request may be repeated."""


class NotConnected(Exception):
    """A connection was not made in time."""


class Silence(Exception):
    """Nothing has arrived for too long."""


class HttpClient:
    """Requests to one server, in one event loop; `url` may have a path, which all others follow.

    `options` are set on each socket. At most `connections_max` requests are open, the others wait.
    """

    def __init__(
        self, url: str, context: ssl.SSLContext | None, connections_max: int,
        options: Iterable[tuple[int, int, int]] = (),
    ) -> None:  # fmt: skip
        parts = urlsplit(url)
        self._host, self._prefix = parts.hostname or "", parts.path.rstrip("/")
        self._port = parts.port or _PORTS[parts.scheme]
        self._context = context if parts.scheme == "https" else None
        self._options = tuple(options)
        self._slots = asyncio.Semaphore(connections_max)
        self._idle: list[_Connection] = []
        self._is_closed = False
        name = f"[{self._host}]" if ":" in self._host else self._host
        is_usual = self._port == _PORTS[parts.scheme]
        self._headers = {
            "Host": name if is_usual else f"{name}:{self._port}",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "User-Agent": "medusa",
        }

    async def send(
        self, method: str, path: str, *, query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None, content: bytes | None = None,
        connect_s: float, silent_s: float | None = None,
    ) -> Response:  # fmt: skip
        """The response to a request; its body is still to come. The caller closes it.

        Raises BrokenConnection; NotConnected if a connection takes longer than `connect_s`; and
        Silence if nothing of the response arrives for `silent_s`.
        """
        target = self._prefix + path + (f"?{urlencode(query)}" if query else "")
        fields = {**self._headers, **(headers or {})}
        if content is not None:
            fields["Content-Length"] = str(len(content))
        await self._slots.acquire()
        connection: _Connection | None = None
        try:
            connection = self._idle_connection() or await self._connected(connect_s)
            head = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
            request = h11.Request(method=method, target=target, headers=list(fields.items()))
            sent_s = clock.monotonic_s()
            await connection.write((head.send(request) or b"") + (content or b""))
            found = await connection.read_head(head, silent_s)
        except BaseException as error:
            if connection is not None:
                connection.transport.abort()
            self._slots.release()
            if isinstance(error, OSError | h11.ProtocolError | UnicodeError):
                raise BrokenConnection(str(error)) from error
            raise
        return Response(self, connection, found, head.trailing_data[0], sent_s, silent_s)

    async def aclose(self) -> None:
        """Close the connections; those of open responses end with these."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().transport.abort()

    def give_back(self, connection: _Connection, *, is_usable: bool) -> None:
        """Take a connection back whose response has ended."""
        self._slots.release()
        if is_usable and not self._is_closed:
            connection.idle_since_s = clock.monotonic_s()
            self._idle.append(connection)
        else:
            connection.transport.abort()

    def _idle_connection(self) -> _Connection | None:
        """The connection that was used last: one that nothing has arrived on since."""
        earliest_s = clock.monotonic_s() - IDLE_S_MAX
        found: _Connection | None = None
        kept = []
        for one in self._idle:
            if one.idle_since_s < earliest_s or not one.is_quiet:
                one.transport.abort()
            else:
                kept.append(one)
        if kept:
            found = kept.pop()
        self._idle = kept
        return found

    async def _connected(self, connect_s: float) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(connect_s):
                transport, received = await loop.create_connection(
                    Received, self._host, self._port, happy_eyeballs_delay=EYEBALLS_S
                )
        except TimeoutError:
            raise NotConnected from None
        try:
            for option in self._options:
                transport.get_extra_info("socket").setsockopt(*option)
            if self._context is None:
                return _Connection(transport, received)
            async with asyncio.timeout(connect_s):
                made = await loop.start_tls(
                    transport, received, self._context, server_hostname=self._host
                )
            if made is None:
                raise ConnectionResetError
        except BaseException as error:
            transport.abort()
            if isinstance(error, TimeoutError):
                raise NotConnected from None
            raise
        received.transport = made
        return _Connection(made, received)


class _Connection:
    """One connection, and what has arrived on it."""

    def __init__(self, transport: asyncio.Transport, received: Received) -> None:
        self.transport = transport
        self.received = received
        self.idle_since_s = 0.0

    @property
    def is_quiet(self) -> bool:
        """Whether it is open and nothing has arrived that nobody asked for."""
        return not (self.received.is_readable or self.transport.is_closing())

    async def write(self, content: bytes) -> None:
        """Send; raises OSError if the connection was broken before.

        A server may answer, and close, before it has read all: whether it has shows in the answer.
        """
        if self.transport.is_closing():
            raise self.received.error or ConnectionResetError
        self.transport.write(content)
        with suppress(OSError):
            await self.received.until_writable()

    async def read_head(self, head: h11.Connection, silent_s: float | None) -> h11.Response:
        """The head of the response; h11 holds what has arrived behind it."""
        informational = 0
        while informational <= INFORMATIONAL_MAX:
            event = head.next_event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                piece = await self.take(silent_s)
                if not piece:
                    raise BrokenConnection("it has closed the connection")
                head.receive_data(piece)
            elif isinstance(event, h11.InformationalResponse):
                informational += 1
            else:
                raise BrokenConnection("its answer is no response of HTTP/1.1")
        raise BrokenConnection("it announces responses and sends none")

    async def take(self, silent_s: float | None) -> bytes:
        """What has arrived; nothing at the end. Raises OSError, and Silence."""
        if self.received.is_readable:
            return await self.received.take()
        try:
            async with asyncio.timeout(silent_s):
                return await self.received.take()
        except TimeoutError:
            if self.received.error is not None:
                raise  # TCP has given the connection up
            raise Silence from None


class Response:
    """A response whose body arrives; `sent_s`: when its request was sent.

    Header names are in lower case; the values of one name are joined by commas. `store`: the object
    store that it is of, None if it is of the partner's server.
    """

    store: str | None = None

    def __init__(
        self, client: HttpClient, connection: _Connection, head: h11.Response, begun: bytes,
        sent_s: float, silent_s: float | None,
    ) -> None:  # fmt: skip
        self.status = head.status_code
        self.sent_s = sent_s
        self.headers: dict[str, str] = {}
        for name, value in head.headers:
            key, text = name.decode("ascii"), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self._client = client
        self._connection: _Connection | None = connection
        self._begun = begun
        self._silent_s = silent_s
        has_length = "transfer-encoding" not in self.headers
        length = self.headers.get("content-length", "")
        self._left = int(length) if has_length and length.isdecimal() else None
        if self.status == _NO_CONTENT:
            self._left = 0
        tokens = self.headers.get("connection", "").lower().replace(" ", "").split(",")
        self._is_kept = head.http_version == b"1.1" and "close" not in tokens

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives, which must have an announced length.

        Raises BrokenConnection where it ends early, and Silence where nothing more arrives.
        """
        begun, self._begun = self._begun, b""
        assert self._left is not None, "a body of no announced length is never read"
        while self._left:
            connection = self._connection
            assert connection is not None, "the response was closed"
            try:
                piece = begun or await connection.take(self._silent_s)
            except OSError as error:
                raise BrokenConnection(str(error)) from error
            begun = b""
            if not piece:
                raise BrokenConnection("it has closed the connection before the end of its answer")
            if len(piece) > self._left:
                self._is_kept = False  # it sends what nobody has asked for
                piece = piece[: self._left]
            self._left -= len(piece)
            yield piece
        if begun:
            self._is_kept = False

    async def aclose(self) -> None:
        """End it; the connection is used again if the body was read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            is_at_end = self._left == 0 and not self._begun
            self._client.give_back(connection, is_usable=is_at_end and self._is_kept)
