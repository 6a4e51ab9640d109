"""The connections of an exchange server: few and short-lived until a token has been accepted.

Where a server has too many connections of programs that have not proved who they are, the oldest
of them is closed: a flood of them costs others like them, and no partner. Each partner has a number
of connections. On each the header of the next request must arrive in time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from medusa_core.names import Participant
from pipelines.exchange.server.partner_budgets import ServerLimits

_KEY = "medusa.connection"
_AMBIGUOUS = {b"content-length", b"transfer-encoding"}


def proves(scope: Scope, partner: Participant) -> bool:
    """Note that a request's connection is a partner's; False if the partner has too many.

    A request that came over no connection of ours, as in a test, is the partner's.
    """
    connection: Connection | None = scope.get(_KEY)
    return connection is None or connection.proves(partner)


class Connections:
    """The connections of one server, by partner; None stands for whoever has proved nothing."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._anonymous: dict[Connection, None] = {}
        self._counts: Counter[Participant] = Counter()

    def open(self, connection: Connection) -> None:
        """One more, of nobody yet."""
        self._anonymous[connection] = None
        if len(self._anonymous) > self.limits.anonymous_connections_max:
            next(iter(self._anonymous)).end()

    def proves(self, connection: Connection, partner: Participant) -> bool:
        """Whether the connection may be one more of a partner's."""
        if self._counts[partner] >= self.limits.connections_max:
            return False
        self._anonymous.pop(connection, None)
        self._counts[partner] += 1
        return True

    def close(self, connection: Connection, partner: Participant | None) -> None:
        """One fewer."""
        self._anonymous.pop(connection, None)
        if partner is not None:
            self._counts[partner] -= 1
            if not self._counts[partner]:
                del self._counts[partner]


class Connection(H11Protocol):
    """One connection; `connections` is set by `connection_class`."""

    connections_of_server: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._partner: Participant | None = None
        self._ends: asyncio.TimerHandle | None = None
        application = self.app

        async def with_connection(scope: Scope, receive: Receive, send: Send) -> None:
            self._wait(None)
            if {name for name, _ in scope["headers"]} >= _AMBIGUOUS:
                # A proxy may see another end of this request: what follows is not to be trusted.
                self.end()
                return
            scope[_KEY] = self
            await application(scope, receive, send)

        self.app = with_connection

    def proves(self, partner: Participant) -> bool:
        """Note whose connection this is; False if that partner has too many.

        Behind a proxy several partners share one: it is the first one's.
        """
        if self._partner is None and self.connections_of_server.proves(self, partner):
            self._partner = partner
        return self._partner is not None

    def end(self) -> None:
        """Close it at once."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._wait(self.connections_of_server.limits.header_s_max)
        self.connections_of_server.open(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._wait(None)
        self.connections_of_server.close(self, self._partner)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        is_idle = self.timeout_keep_alive_task is not None
        if is_idle:
            self._wait(self.connections_of_server.limits.header_s_max)
        super().data_received(data)

    def _wait(self, seconds: float | None) -> None:
        """The header of the next request arrives in so many seconds; None: it is there."""
        if self._ends is not None:
            self._ends.cancel()
        self._ends = None if seconds is None else self.loop.call_later(seconds, self.end)


def connection_class(connections: Connections) -> type[Connection]:
    """The class that uvicorn makes the connections of one server of."""
    return type("ServerConnection", (Connection,), {"connections_of_server": connections})
