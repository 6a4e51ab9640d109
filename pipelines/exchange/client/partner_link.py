"""The link to one partner's exchange server: its certificate, an access token, bounded answers.

Nothing that the partner sends is trusted: a response has a largest size and a time limit, is never
decompressed, sets no cookie and redirects nowhere. The token is sent only to the holder of the key
that is pinned, or of a certificate for the host.
"""

from __future__ import annotations

import asyncio
import errno
import http.client
import math
import os
import re
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.assertions import (
    ASSERTION_TYPE,
    GRANT_TYPE,
    audience_of,
    claims_of,
)
from medusa_core.protocol.introductions import INTRODUCTION, Introduction
from medusa_core.protocol.invitations import Joining, write_joining
from medusa_core.protocol.problems import read_problem
from pipelines.base import clock
from pipelines.exchange.client.http_client import (
    BrokenConnection,
    HttpClient,
    NotConnected,
    Response,
    Silence,
)
from pipelines.exchange.client.object_requests import PAUSE_S, object_response
from pipelines.exchange.server_certificates import pin_of, pinned_context, public_context
from pipelines.exchange.signed_introductions import verified_introduction
from pipelines.homes.exchange_addresses import is_loopback

RESPONSE_S = 10.0
"""Time limit for the start of a response whose body is streamed."""

SILENT_S = 10.0
"""Time after which a connection that sends no more of a body is given up."""

BYTES_PER_S_MIN = 10_000
"""The rate below which a connection is given up, once it has had `SILENT_S` to begin."""

CONNECT_S = 3.0
DEAD_S = 5
"""Time without a packet from the partner, though some are due, after which a connection is lost.

A firewall that forgets a connection, or a machine that loses power, ends it without a word.
"""

CONNECTIONS_MAX = 24
DOWNLOADS_MAX = 16
"""So that files leave connections for news and tokens."""

RENEWAL_PART = 0.9
"""The part of a token's lifetime after which another one is requested."""

PIN_LOOKS = 3
"""How often a certificate with another key than the pinned one is looked at: it may be replaced
between its receipt and the introduction that announces it."""


def _tcp_options() -> list[tuple[int, int, int]]:
    """Those by which this system notices after `DEAD_S` that nobody is at the other end."""
    values = {
        "TCP_USER_TIMEOUT": DEAD_S * 1_000,
        "TCP_KEEPIDLE": 2,
        "TCP_KEEPINTVL": 1,
        "TCP_KEEPCNT": DEAD_S,
    }
    known = {getattr(socket, name): of for name, of in values.items() if hasattr(socket, name)}
    options = [(socket.IPPROTO_TCP, number, of) for number, of in known.items()]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *options]


class ClientIdentity(Protocol):
    """This participant's own key, which may be rotated while links are open."""

    def mark(self) -> object:
        """What changes with the key."""

    def sign(self, claims: Mapping[str, Any]) -> str:
        """The token with these claims."""

    def introduction(self) -> str:
        """What this participant says of itself, signed."""

    def public_key(self) -> bytes:
        """By which others know this participant."""


JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
READ_TIMING = re.compile(r"(?:^|,) *read;dur=([0-9]{1,9})(?=$|[,;. ])")

Learn = Callable[[bytes, Introduction], object]
"""Stores what a partner has signed with its known key; called in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerAddress:
    """Where a partner's exchange server is, and by what it is known.

    `public_key` is the participant's; `pin` is that of the server's certificate (see `pin_of`),
    None for a public authority's, or without TLS, which is for loopback alone. `objects` is the
    server to which it may redirect requests for files.
    """

    url: str
    public_key: bytes
    pin: str | None = None
    objects: str | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            scheme, host, _ = parts.scheme, parts.hostname or "", parts.port
        except ValueError:  # a port that is no number, a bracket without another one
            scheme, host = "", ""
        is_plain = scheme == "http" and self.pin is None and is_loopback(host)
        if not host or not (is_plain or scheme == "https"):
            raise Refused(
                f"{self.url} is no address of an exchange server: give one that begins with "
                "https://"
            )


@dataclass(frozen=True, slots=True)
class Received:
    """An answer: its content, its headers, and when the partner read its home for it.

    `read_s`: by this machine's monotonic clock; the partner read its home then, or later.
    """

    content: bytes
    headers: Mapping[str, str]
    read_s: float


class PartnerLink:
    """Requests to one partner, in one event loop."""

    def __init__(
        self, reader: Participant, partner: Participant, address: PartnerAddress,
        identity: ClientIdentity, learn: Learn,
    ) -> None:  # fmt: skip
        self.address = address
        self.downloads = asyncio.Semaphore(DOWNLOADS_MAX)
        self._reader = reader
        self._partner = partner
        self._identity = identity
        self._learn = learn
        self._client: HttpClient | None = None
        self._old: list[HttpClient] = []
        self._token: str | None = None
        self._token_renews_s = self._token_ends_s = 0.0
        self._token_mark: object = None
        self._client_lock = asyncio.Lock()
        self._token_lock = asyncio.Lock()
        self._open = 0
        self._is_retired = False
        self._received = self._sent = 0
        self._redirects_from_s = -math.inf
        self.is_refused = False
        """Whether the partner's server has refused to issue the last token."""

    @property
    def token_left_s(self) -> float | None:
        """For how long the access token is valid; None if there is none."""
        return None if self._token is None else self._token_ends_s - clock.monotonic_s()

    def take_bytes(self) -> tuple[int, int]:
        """How many bytes of bodies were received and sent since this was last asked."""
        taken = self._received, self._sent
        self._received = self._sent = 0
        return taken

    async def retire(self) -> None:
        """Close the connections as soon as no request is open."""
        self._is_retired = True
        if not self._open:
            await self.close()

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            self._old.append(client)
        await self._close_old()

    async def _close_old(self) -> None:
        old, self._old = self._old, []
        for client in old:
            with suppress(Exception):  # whatever it is, the connections are given up
                await client.aclose()

    async def request(
        self, method: str, path: str, *, bytes_max: int, seconds_max: float,
        begins_s_max: float | None = None, query: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
    ) -> Received:  # fmt: skip
        """The answer to a request of this partner.

        Raises what the partner's answer stands for, and Unavailable if none comes in time: begins
        within `begins_s_max`, if that is given, and ends within `seconds_max`.
        """
        async with (
            self.in_time(seconds_max),
            self.streamed(
                method, path, query=query, body=body, seconds_max=begins_s_max or seconds_max
            ) as response,
        ):
            content = await self._content(response, bytes_max)
        return Received(content, response.headers, _read_s(response, clock.monotonic_s()))

    async def join(self, secret: str, seconds_max: float) -> None:
        """Join this participant at the partner, with the secret of an invitation.

        Raises what the partner's answer stands for; repeated, it changes nothing.
        """
        async with self.in_time(seconds_max):
            with self._errors():
                client = await self._connected()
                # Before the secret: it is for the holder of the key that the invitation names.
                await self._hear(client)
                joining = Joining(
                    public_key=self._identity.public_key(),
                    assertion=self._assertion(),
                    introduction=self._identity.introduction(),
                    secret=secret,
                )
                body = write_joining(joining)
                async with _answered(client, "POST", "/v1/partners", JSON, body) as response:
                    await self._check(response)

    async def introduction(self, seconds_max: float) -> str:
        """The introduction that the partner's server presents, signed and not verified."""
        async with self.in_time(seconds_max):
            with self._errors():
                return await self._introduction(await self._connected())

    @asynccontextmanager
    async def file(self, digest: str, first: int) -> AsyncIterator[Response]:
        """A file from its byte `first` on, from the partner or the object store that it names.

        Raises as `streamed` does.
        """
        part = {"Range": f"bytes={first}-"} if first else {}
        origin = self.address.objects
        if clock.monotonic_s() < self._redirects_from_s:
            origin = None
        headers = part if origin is None else {**part, calls.OBJECTS_HEADER: origin}
        path, location = f"/v1/files/{digest}", ""
        async with self.streamed(
            "GET", path, headers=headers, silent_s=SILENT_S, may_redirect=origin is not None
        ) as response:
            if response.status != HTTPStatus.TEMPORARY_REDIRECT:
                yield response
                return
            location = response.headers.get("location", "")
        assert origin is not None, "no other response is a redirect"
        try:
            async with AsyncExitStack() as stack:
                async with self.in_time(RESPONSE_S, origin):
                    with self._errors(origin):
                        found = object_response(
                            origin, location, part, _tcp_options(),
                            connect_s=CONNECT_S, silent_s=SILENT_S,
                        )  # fmt: skip
                        response = await stack.enter_async_context(found)
                response.store = origin
                yield response
        except Unavailable:
            self.pause_redirects()
            raise

    def pause_redirects(self) -> None:
        """Read files from the partner's server for a while: an object could not be read."""
        self._redirects_from_s = clock.monotonic_s() + PAUSE_S

    @asynccontextmanager
    async def streamed(
        self, method: str, path: str, *, query: Mapping[str, str | int] | None = None,
        body: bytes | None = None, headers: Mapping[str, str] | None = None,
        seconds_max: float = RESPONSE_S, silent_s: float | None = None, may_redirect: bool = False,
    ) -> AsyncIterator[Response]:  # fmt: skip
        """A successful response, or a redirect if there may be one.

        Its body is still to come, see `pieces`.
        Raises as `request` does if the response does not begin in time. `silent_s`: time
        without a byte of the body after which the connection is given up.
        """
        sent = dict(headers or {})
        if body is not None:
            sent["Content-Type"] = JSON
            self._sent += len(body)

        async def send(client: HttpClient, token: str) -> Response:
            return await client.send(
                method, path, query=query, content=body,
                headers={**sent, "Authorization": f"Bearer {token}"},
                connect_s=CONNECT_S, silent_s=silent_s,
            )  # fmt: skip

        self._open += 1
        response: Response | None = None
        try:
            async with self.in_time(seconds_max):
                with self._errors():
                    response = await self._response(send, may_redirect=may_redirect)
            yield response
        finally:
            self._open -= 1
            try:
                if response is not None:
                    with suppress(Exception):  # whatever it is, the connection is given up
                        await response.aclose()
            finally:
                if not self._open:
                    await self._close_old()
                    if self._is_retired:
                        await self.close()

    async def pieces(self, response: Response, bytes_max: int) -> AsyncIterator[bytes]:
        """The body as it arrives; Unavailable where it ends early or is not as requested.

        Its length must be announced: a body in chunks would cost for each of them, and they may be
        of one byte.
        """
        if response.status == HTTPStatus.NO_CONTENT:
            return
        length = response.headers.get("content-length", "")
        is_coded = {"content-encoding", "transfer-encoding"} & response.headers.keys()
        if is_coded or not length.isdecimal():
            raise self.unavailable(
                "its response is encoded, or announces no length", response.store
            )
        if len(length) > len(str(bytes_max)) or int(length) > bytes_max:
            raise self.unavailable(f"its response has more than {bytes_max} bytes", response.store)
        parts = response.pieces()
        while True:
            with self._errors(response.store):
                part = await anext(parts, None)
            if part is None:
                return
            self._received += len(part)
            yield part

    @asynccontextmanager
    async def in_time(self, seconds_max: float, store: str | None = None) -> AsyncIterator[None]:
        """Raise Unavailable if the block takes longer."""
        try:
            async with asyncio.timeout(seconds_max):
                yield
        except TimeoutError:
            raise self.unavailable(f"it has not answered in {seconds_max:g} s", store) from None

    def unavailable(self, problem: str, store: str | None = None) -> Unavailable:
        """The error that names the partner, its address and a problem with it.

        With `store`, the problem is with the object store to which it redirects.
        """
        where = f"partner {self._partner} at {self.address.url}"
        if store is not None:
            where = f"the object store {store} of partner {self._partner}"
        return Unavailable(f"{where} is not available: {problem}")

    # Inside

    async def _response(
        self, send: Callable[[HttpClient, str], Awaitable[Response]], *, may_redirect: bool
    ) -> Response:
        if self._token is None:
            self.is_refused = False  # another one is requested, if the server is reached
        for attempts_left in (2, 1, 0):
            client = await self._connected()
            token = None
            try:
                token = await self._access_token(client)
                response = await send(client, token)
            except BrokenConnection as error:
                # The server may have closed an idle connection, or renewed its certificate with
                # the same key. Every call may be repeated.
                if not attempts_left:
                    raise
                # A server that refuses a token may close before it has read a large body.
                self._drop(token)
                cause = _cause(error)
                is_dead = isinstance(cause, OSError) and cause.errno == errno.ETIMEDOUT
                if is_dead or isinstance(cause, ssl.SSLCertVerificationError):
                    self._forget(client)
                continue
            try:
                if may_redirect and response.status == HTTPStatus.TEMPORARY_REDIRECT:
                    return response
                if response.status != HTTPStatus.UNAUTHORIZED or not attempts_left:
                    await self._check(response)
                    return response
            except BaseException:
                await response.aclose()
                raise
            # Its connection is needed for the request of another token.
            await response.aclose()
            self._drop(token)
        raise AssertionError

    def _drop(self, token: str | None) -> None:
        """Request another token next, unless another request has done so."""
        if self._token == token:
            self._token = None

    async def _access_token(self, client: HttpClient) -> str:
        async with self._token_lock:
            mark = self._identity.mark()
            is_of_present_key = mark == self._token_mark
            is_in_time = clock.monotonic_s() < self._token_renews_s
            if self._token is not None and is_of_present_key and is_in_time:
                return self._token
            self._token = None
            await self._hear(client)
            try:
                issued = await self._request_token(client)
            except Refused:
                self.is_refused = True
                raise
            self.is_refused = False
            self._token, self._token_mark = issued.token, mark
            now_s = clock.monotonic_s()
            self._token_renews_s = now_s + RENEWAL_PART * issued.lifetime_s
            self._token_ends_s = now_s + issued.lifetime_s
            return issued.token

    async def _request_token(self, client: HttpClient) -> calls.AccessToken:
        form = {
            "grant_type": GRANT_TYPE,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": self._assertion(),
            "introduction": self._identity.introduction(),
        }
        body = urlencode(form).encode()
        async with _answered(client, "POST", "/v1/token", FORM, body) as response:
            await self._check(response)
            return calls.read_token(await self._content(response, calls.SMALL_BYTES_MAX))

    def _assertion(self) -> str:
        audience = audience_of(self._partner, self.address.public_key)
        nonce = secrets.token_urlsafe(24)
        now_ms = int(clock.wall_s() * 1_000)
        return self._identity.sign(claims_of(self._reader, audience, nonce, now_ms))

    async def _hear(self, client: HttpClient) -> Introduction:
        """What the partner says of itself; what is new of it is stored."""
        signed = await self._introduction(client)
        known = self.address.public_key
        now_ms = int(clock.wall_s() * 1_000)
        _, found = verified_introduction(signed, self._partner, [known], now_ms)
        address = (found.url or self.address.url, found.pin if found.url else self.address.pin)
        if (found.public_key, *address) != (known, self.address.url, self.address.pin):
            with suppress(MedusaError):  # it is heard, and stored, with the next token
                await asyncio.to_thread(self._learn, known, found)
        return found

    async def _introduction(self, client: HttpClient) -> str:
        async with _answered(client, "GET", "/v1/introduction") as response:
            await self._check(response)
            content = await self._content(response, INTRODUCTION.bytes_max)
        signed: str = INTRODUCTION.read(content)["introduction"]
        return signed

    async def _connected(self) -> HttpClient:
        async with self._client_lock:
            if self._client is None:
                self._client = self._client_with(await self._tls())
            return self._client

    def _client_with(self, context: ssl.SSLContext) -> HttpClient:
        return HttpClient(self.address.url, context, CONNECTIONS_MAX, _tcp_options())

    def _forget(self, client: HttpClient) -> None:
        """Make new connections from now on; those of the client that are open end by themselves."""
        if self._client is client:
            self._client = None
            self._old.append(client)

    async def _tls(self) -> ssl.SSLContext:
        """What the server's certificate is checked with."""
        if self.address.url.startswith("http:"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.address.pin is None:
            return await asyncio.to_thread(public_context)
        for _ in range(PIN_LOOKS):
            # Received first over a connection on which nothing is sent.
            found = await self._certificate()
            context = pinned_context(found)
            pin = pin_of(found)
            if pin == self.address.pin or await self._is_announced(context, pin):
                return context
        raise Unavailable(
            f"the server at {self.address.url} is not partner {self._partner}'s: its key is "
            "not the one that is pinned; call the partner's operator"
        )

    async def _is_announced(self, context: ssl.SSLContext, pin: str) -> bool:
        """Whether the partner has signed that its certificate has this key."""
        # Nothing secret is sent: not even who this is.
        client = self._client_with(context)
        try:
            with suppress(MedusaError, BrokenConnection, NotConnected):
                return (await self._hear(client)).pin == pin
        finally:
            await client.aclose()
        return False

    async def _certificate(self) -> bytes:
        parts = urlsplit(self.address.url)
        look = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        look.minimum_version = ssl.TLSVersion.TLSv1_3
        look.check_hostname = False
        look.verify_mode = ssl.CERT_NONE
        _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=look)
        try:
            found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()
        return found or b""

    async def _check(self, response: Response) -> None:
        """Raise the error that an unsuccessful response reports."""
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            content = b""
            with suppress(Unavailable):
                content = await self._content(response, calls.SMALL_BYTES_MAX)
            raise read_problem(content, response.status, self._partner)

    async def _content(self, response: Response, bytes_max: int) -> bytes:
        content, parts = bytearray(), self.pieces(response, bytes_max)
        rate = MinimumRate(self)
        while True:
            async with self.in_time(SILENT_S):
                part = await anext(parts, None)
            if part is None:
                return bytes(content)
            content += part
            rate.check(len(content))

    @contextmanager
    def _errors(self, store: str | None = None) -> Iterator[None]:
        """Errors of the network and its libraries as Unavailable.

        What is not known is Unavailable as well: it comes from another program.
        """
        try:
            yield
        except (MedusaError, TimeoutError):
            raise
        except Exception as error:
            raise self.unavailable(_reason(_cause(error)), store) from error


@asynccontextmanager
async def _answered(
    client: HttpClient, method: str, path: str, form: str | None = None, body: bytes | None = None
) -> AsyncIterator[Response]:
    """The response to a request without a token; `form`: the media type of the body."""
    headers = {} if form is None else {"Content-Type": form}
    response = await client.send(method, path, headers=headers, content=body, connect_s=CONNECT_S)
    try:
        yield response
    finally:
        await response.aclose()


def _read_s(response: Response, received_s: float) -> float:
    """When the partner read its home for a response, or earlier: what `Server-Timing` says.

    A partner that claims more than has passed counts as one that has read at the end.
    """
    sent_s = response.sent_s
    found = READ_TIMING.search(response.headers.get("server-timing", ""))
    return sent_s if found is None else min(sent_s + int(found[1]) / 1_000, received_s)


class MinimumRate:
    """Of a body whose first byte is awaited now; Unavailable where it arrives too slowly."""

    def __init__(self, link: PartnerLink, store: str | None = None) -> None:
        self._link = link
        self._store = store
        self._since_s = clock.monotonic_s() + SILENT_S

    def check(self, received: int) -> None:
        """Raise Unavailable if so many bytes are too few by now."""
        if received < (clock.monotonic_s() - self._since_s) * BYTES_PER_S_MIN:
            raise self._link.unavailable(
                f"it sends fewer than {BYTES_PER_S_MIN} bytes a second", self._store
            )


def is_answering(url: str, seconds_max: float) -> bool:
    """Whether a server answers at all, from outside of an event loop.

    Nothing secret is sent, and any answer will do: the certificate is not looked at.
    """
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=seconds_max, context=context
        )
    else:
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=seconds_max
        )
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/v1/health")
        connection.getresponse()
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return True


def _cause(error: BaseException) -> BaseException:
    """The innermost error of a chain."""
    context = None if error.__suppress_context__ else error.__context__
    deeper = error.__cause__ or context
    return error if deeper is None else _cause(deeper)


def _reason(cause: BaseException) -> str:
    """What was the matter, in a few words."""
    match cause:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not valid ({cause.verify_message})"
        case ssl.SSLError():
            return "TLS failed"
        case socket.gaierror():
            return "its host is not known"
        case OSError(errno=int(number)):
            return os.strerror(number)
        case NotConnected() | TimeoutError():
            return f"it cannot be connected to in {CONNECT_S:g} s"
        case Silence():
            return "it sends nothing any more"
    return str(cause) or type(cause).__name__
