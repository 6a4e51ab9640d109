"""The link to one partner's exchange server: its certificate, an access token, bounded answers.

Nothing that the partner sends is trusted: an answer has a largest size and a time within which all
of it must have come, is never decompressed, and leads nowhere else. The token is sent only to the
holder of the key that is pinned, or of a certificate for the host.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.assertions import (
    ASSERTION_TYPE,
    GRANT_TYPE,
    audience_of,
    claims_of,
)
from medusa_core.protocol.problems import read_problem
from pipelines.base import clock
from pipelines.exchange.server_certificates import pin_of, pinned_context, public_context

BEGINS_S = 10.0
"""In which an answer must begin whose end is waited for otherwise."""

CONNECT_S = 3.0
CONNECTIONS_MAX = 32
RENEWS_BEFORE = 0.9
"""After which part of its lifetime a token is requested anew."""

Sign = Callable[[Mapping[str, Any]], str]
"""Signs the claims of an assertion with this participant's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerAddress:
    """Where a partner's exchange server is, and by what it is known.

    `public_key` is the participant's; `pin` is that of the server's certificate (see `pin_of`),
    None for a public authority's, or without TLS.
    """

    url: str
    public_key: bytes
    pin: str | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """An answer: its content, and its headers."""

    content: bytes
    headers: httpx.Headers


class PartnerLink:
    """Requests to one partner, in one event loop."""

    def __init__(
        self, reader: Participant, partner: Participant, address: PartnerAddress, sign: Sign
    ) -> None:
        self._reader = reader
        self._partner = partner
        self.address = address
        self._sign = sign
        self._client: httpx.AsyncClient | None = None
        self._token: str | None = None
        self._token_ends_s = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def request(
        self, method: str, path: str, *, bytes_max: int, seconds_max: float,
        query: Mapping[str, str | int] | None = None, body: bytes | None = None,
    ) -> Received:  # fmt: skip
        """The answer to a request of this partner.

        Raises what the partner's answer stands for, and Unavailable if none comes in time.
        """
        async with (
            self.in_time(seconds_max),
            self.streamed(
                method, path, query=query, body=body, seconds_max=seconds_max
            ) as response,
        ):
            content = await self._content(response, bytes_max)
        return Received(content, response.headers)

    @asynccontextmanager
    async def streamed(
        self, method: str, path: str, *, query: Mapping[str, str | int] | None = None,
        body: bytes | None = None, headers: Mapping[str, str] | None = None,
        seconds_max: float = BEGINS_S,
    ) -> AsyncIterator[httpx.Response]:  # fmt: skip
        """The response to a request, never a problem; its body is still to come, see `pieces`.

        Raises as `request` does if the response does not begin in time.
        """
        async with AsyncExitStack() as stack:
            async with self.in_time(seconds_max):
                with self._errors():
                    response = await self._opened(stack, method, path, query, body, headers or {})
            yield response

    async def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """The body as it comes; Unavailable where it breaks off or is not as it was sent."""
        if "content-encoding" in response.headers:
            raise self._unavailable("it sends a content encoding that was not requested")
        parts = response.aiter_raw()
        while True:
            with self._errors():
                part = await anext(parts, None)
            if part is None:
                return
            yield part

    @asynccontextmanager
    async def in_time(self, seconds_max: float) -> AsyncIterator[None]:
        """Raise Unavailable if the block takes longer."""
        try:
            async with asyncio.timeout(seconds_max):
                yield
        except TimeoutError:
            raise self._unavailable(f"it has not answered in {seconds_max:g} s") from None

    # Inside

    async def _opened(
        self, stack: AsyncExitStack, method: str, path: str, query: Mapping[str, str | int] | None,
        body: bytes | None, headers: Mapping[str, str],
    ) -> httpx.Response:  # fmt: skip
        sent = dict(headers)
        if body is not None:
            sent["Content-Type"] = "application/json"
        for is_last in (False, True):
            try:
                sent["Authorization"] = f"Bearer {await self._access_token()}"
                client = await self._connected()
                response = await stack.enter_async_context(
                    client.stream(method, path, params=query, content=body, headers=sent)
                )
            except httpx.ConnectError as error:
                if is_last or not isinstance(_cause(error), ssl.SSLCertVerificationError):
                    raise
                # It may have been renewed with the same key: it is looked at again.
                await self.close()
                continue
            if response.status_code != httpx.codes.UNAUTHORIZED or is_last:
                break
            # The token may have been revoked, or be forgotten: a new one is tried once.
            self._token = None
        await self._check(response)
        return response

    async def _access_token(self) -> str:
        async with self._one_at_a_time:
            if self._token is None or clock.monotonic_s() >= self._token_ends_s:
                self._token = None
                issued = await self._request_token()
                self._token = issued.token
                self._token_ends_s = clock.monotonic_s() + RENEWS_BEFORE * issued.lifetime_s
            return self._token

    async def _request_token(self) -> calls.AccessToken:
        audience = audience_of(self._partner, self.address.public_key)
        nonce = secrets.token_urlsafe(24)
        claims = claims_of(self._reader, audience, nonce, int(clock.wall_s() * 1_000))
        form = {
            "grant_type": GRANT_TYPE,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": self._sign(claims),
        }
        client = await self._connected()
        async with client.stream("POST", "/v1/token", data=form) as response:
            await self._check(response)
            return calls.read_token(await self._content(response, calls.SMALL_BYTES_MAX))

    async def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                base_url=self.address.url,
                verify=await self._tls(),
                headers={"Accept-Encoding": "identity", "User-Agent": "medusa"},
                timeout=httpx.Timeout(None, connect=CONNECT_S),
                limits=httpx.Limits(
                    max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
                ),
                trust_env=False,
                follow_redirects=False,
            )
        return self._client

    async def _tls(self) -> ssl.SSLContext:
        """What the server's certificate is checked with."""
        if self.address.pin is None:
            return await asyncio.to_thread(public_context)
        # Looked at first, over a connection on which nothing is sent.
        found = await self._certificate()
        if pin_of(found) != self.address.pin:
            raise Unavailable(
                f"the server at {self.address.url} is not partner {self._partner}'s: its key is "
                "not the one that is pinned; call the partner's operator"
            )
        return pinned_context(found)

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

    async def _check(self, response: httpx.Response) -> None:
        """Raise what an answer stands for that is no success."""
        if response.status_code >= httpx.codes.MULTIPLE_CHOICES:
            content = await self._content(response, calls.SMALL_BYTES_MAX)
            raise read_problem(content, response.status_code, self._partner)

    async def _content(self, response: httpx.Response, bytes_max: int) -> bytes:
        parts, length = [], 0
        async for part in self.pieces(response):
            length += len(part)
            if length > bytes_max:
                raise self._unavailable(f"its answer has more than {bytes_max} bytes")
            parts.append(part)
        return b"".join(parts)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of the network and its libraries as Unavailable.

        What is not known is Unavailable as well: it comes from another program.
        """
        try:
            yield
        except (MedusaError, TimeoutError):
            raise
        except Exception as error:
            raise self._unavailable(_reason(_cause(error))) from error

    def _unavailable(self, problem: str) -> Unavailable:
        return Unavailable(
            f"partner {self._partner} at {self.address.url} is not available: {problem}"
        )


def _cause(error: BaseException) -> BaseException:
    """The innermost error of a chain."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return error


def _reason(cause: BaseException) -> str:
    """What was the matter, in a few words."""
    match cause:
        case ssl.SSLCertVerificationError():
            return f"its certificate does not count ({cause.verify_message})"
        case ssl.SSLError():
            return "the TLS handshake failed"
        case socket.gaierror():
            return "its host is not known"
        case OSError(errno=int(number)):
            return os.strerror(number)
        case httpx.ConnectTimeout() | TimeoutError():
            return f"it cannot be connected to in {CONNECT_S:g} s"
    return str(cause) or type(cause).__name__
