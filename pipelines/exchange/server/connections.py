"""The connections of an exchange server: few and short-lived until a token has been accepted.

If a server has too many connections of unauthenticated clients, the oldest one of the address that
has most of them is closed: a flood from some addresses costs clients there, and no partner. Each
partner has a number of connections. On each the header of the next request must arrive in time, and
an answer must be taken in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from ssl import SSLContext
from typing import Any, Protocol

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from medusa_core.names import Participant
from medusa_core.protocol.problems import MEDIA_TYPE, ProblemKind, write_problem
from pipelines.exchange.server.client_admission import Admission
from pipelines.exchange.server.partner_budgets import ServerLimits

HANDSHAKE_S, SHUTDOWN_S = 5.0, 1.0
_KEY = "medusa.connection"
_VERSIONS = ("1.0", "1.1")
_AMBIGUOUS = {b"content-length", b"transfer-encoding"}
NOT_VALID = "this is no valid request of HTTP/1.1: send another"

log = logging.getLogger(__name__)


def claim(scope: Scope, partner: Participant) -> bool:
    """Count a request's connection as a partner's; False if the partner has too many.

    A request that came over no connection of ours, as in a test, is the partner's.
    """
    connection: Connection | None = scope.get(_KEY)
    return connection is None or connection.claim(partner)


def claimed_by(scope: Scope) -> Participant | None:
    """The partner whose connection a request came over; None if no token was accepted on it."""
    connection: Connection | None = scope.get(_KEY)
    return None if connection is None else connection.partner


class Closable(Protocol):
    """A connection that may be closed at once."""

    def end(self) -> None: ...


class Connections:
    """The connections of one server: of unauthenticated clients by address, and of partners."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.admission = Admission(limits.anonymous_per_s, limits.anonymous_burst)
        self._anonymous: dict[str, dict[Closable, None]] = {}
        self._addresses: dict[Closable, str] = {}
        self._counts: Counter[Participant] = Counter()

    @property
    def anonymous(self) -> int:
        """How many there are of unauthenticated clients."""
        return len(self._addresses)

    def open(self, connection: Closable, address: str) -> None:
        """Count one more of an unauthenticated client."""
        self._anonymous.setdefault(address, {})[connection] = None
        self._addresses[connection] = address
        if len(self._addresses) > self.limits.anonymous_connections_max:
            crowded = max(self._anonymous.values(), key=len)
            oldest = next(iter(crowded))
            # At once: it is closed later, and another may come before.
            self.close(oldest, None)
            oldest.end()

    def claim(self, connection: Closable, partner: Participant) -> bool:
        """Count the connection as one more of a partner's; False if that has too many."""
        if self._counts[partner] >= self.limits.connections_max:
            return False
        self.close(connection, None)
        self._counts[partner] += 1
        return True

    def close(self, connection: Closable, partner: Participant | None) -> None:
        """Count one fewer."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            del self._anonymous[address][connection]
            if not self._anonymous[address]:
                del self._anonymous[address]
        if partner is not None:
            self._counts[partner] -= 1
            if not self._counts[partner]:
                del self._counts[partner]


class Connection(H11Protocol):
    """One connection of HTTP; `connections_of_server` is set by `connection_class`."""

    connections_of_server: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.partner: Participant | None = None
        self._address = ""
        self._unseen: list[bytes] = []
        self._is_admitted = False
        self._ends: asyncio.TimerHandle | None = None
        self._application = self.app
        self.app = self._answered

    def claim(self, partner: Participant) -> bool:
        """Count this connection as a partner's; False if that has too many.

        Behind a proxy several partners share one: it is the first one's.
        """
        is_open = not self.transport.is_closing()  # else nothing would count it down
        if self.partner is None and is_open and self.connections_of_server.claim(self, partner):
            self.partner = partner
        return self.partner is not None

    def end(self) -> None:
        """Close it at once."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._expect_header_in(self.connections_of_server.limits.header_s_max)
        self._address = self.client[0] if self.client else ""
        self.connections_of_server.open(self, self._address)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._expect_header_in(None)
        self.connections_of_server.close(self, self.partner)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        is_idle = self.timeout_keep_alive_task is not None
        if is_idle:
            self._expect_header_in(self.connections_of_server.limits.header_s_max)
        if self.partner is not None and not self._unseen:
            super().data_received(data)
            return
        self._unseen.append(data)
        self.flow.pause_reading()
        if len(self._unseen) == 1:
            self.connections_of_server.admission.enter(self._address, self._look)

    def _look(self) -> None:
        """Look at what an unauthenticated client has sent; it was not read on meanwhile."""
        unseen, self._unseen = self._unseen, []
        if not self.transport.is_closing():
            self._is_admitted = True
            self.flow.resume_reading()
            super().data_received(b"".join(unseen))

    def handle_events(self) -> None:
        """See `H11Protocol`; requests that were sent together take a turn each."""
        is_next_request = bool(self.conn.trailing_data[0])
        if self.partner is None and not self._is_admitted and is_next_request:
            self.connections_of_server.admission.enter(self._address, self._handle_next)
            return
        self._is_admitted = False
        super().handle_events()

    def _handle_next(self) -> None:
        if not self.transport.is_closing():
            self._is_admitted = True
            self.handle_events()

    def send_400_response(self, msg: str) -> None:
        """See `H11Protocol`; in the middle of a request nothing more can be sent."""
        if self.conn.our_state is not h11.IDLE:
            self.end()
            return
        content = write_problem(ProblemKind.REFUSED, NOT_VALID)
        headers = [
            ("Content-Type", MEDIA_TYPE),
            ("Content-Length", str(len(content))),
            ("Connection", "close"),
        ]
        response = h11.Response(status_code=ProblemKind.REFUSED.status, headers=headers)
        for event in (response, h11.Data(data=content), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """See `H11Protocol`; a client that does not read would be waited for otherwise."""
        self.end()

    def _expect_header_in(self, seconds: float | None) -> None:
        """Close the connection unless the next header is complete in time; None: it is."""
        if self._ends is not None:
            self._ends.cancel()
        self._ends = None if seconds is None else self.loop.call_later(seconds, self.end)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, in a limited time; what is not answered whole ends the connection."""
        self._expect_header_in(None)
        is_ambiguous = {name for name, _ in scope["headers"]} >= _AMBIGUOUS
        if is_ambiguous or scope["http_version"] not in _VERSIONS:
            # A proxy may see another end of this request: what follows is not to be trusted.
            self.end()
            return
        if _header_bytes(scope) > self.connections_of_server.limits.header_bytes_max:
            # h11 limits a header that arrives in parts; this one arrived at once.
            self.end()
            return
        scope[_KEY] = self
        cycle = self.cycle
        try:
            async with asyncio.timeout(self.connections_of_server.limits.request_s_max):
                await self._application(scope, receive, send)
        except TimeoutError:
            self.end()
        except Exception:
            log.exception("a connection ended with a fault")
            self.end()
        if not cycle.response_complete:
            self.end()


class Handshake(asyncio.Protocol):
    """A connection until its TLS handshake is made; then `made` is its protocol."""

    def __init__(
        self, tls: SSLContext, connections: Connections, made: Callable[[], asyncio.Protocol]
    ) -> None:
        self._tls = tls
        self._connections = connections
        self._made = made
        self._task: asyncio.Task[None] | None = None
        self._early: list[bytes] = []

    def end(self) -> None:
        """Close it at once."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.pause_reading()
        address = str((transport.get_extra_info("peername") or ("",))[0])
        self._connections.open(self, address)
        self._connections.admission.enter(address, self._begin)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._connections.close(self, None)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`; called with what arrives right behind the handshake."""
        self._early.append(data)

    def _begin(self) -> None:
        if not self._transport.is_closing():
            self._task = asyncio.get_running_loop().create_task(self._shake())

    async def _shake(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(
                self._transport, self, self._tls, server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S, ssl_shutdown_timeout=SHUTDOWN_S,
            )  # fmt: skip
        except OSError:
            transport = None  # the client broke off, was too slow, or speaks something else
        self._connections.close(self, None)
        if transport is None or transport.is_closing():
            self._transport.abort()
            return
        protocol = self._made()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(b"".join(self._early))


def _header_bytes(scope: Scope) -> int:
    """The length of a request's target and of its headers, which h11 has parsed."""
    target = len(scope["raw_path"]) + len(scope["query_string"])
    return target + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def connection_class(connections: Connections) -> type[Connection]:
    """The class of the connections of one server."""
    return type("ServerConnection", (Connection,), {"connections_of_server": connections})
