"""The exchange server on a port: uvicorn with TLS 1.3, or without TLS on loopback."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ssl import SSLContext

import uvicorn
from starlette.types import ASGIApp

from medusa_core.errors import Refused, Unavailable
from pipelines.exchange.server.connections import Connections, Handshake, connection_class
from pipelines.exchange.server.partner_budgets import ServerLimits
from pipelines.homes.exchange_addresses import is_loopback

BACKLOG = 512
TICK_S = 1.0
"""How often the date of the answers' headers is renewed."""

SHUTDOWN_S_MAX = 2
"""Time limit for open requests when the server ends: a partner repeats them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Where a server listens; port 0 is a free one. Without TLS only on loopback."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: SSLContext | None = None

    def __post_init__(self) -> None:
        if self.tls is None and not is_loopback(self.host):
            raise Refused(
                f"the exchange is served without TLS on loopback only, not on {self.host}: give a "
                "certificate"
            )


class HttpsServer(uvicorn.Server):
    """An application at an address.

    `run()` serves until `should_exit` is set, or until SIGTERM or SIGINT if it runs in the main
    thread.
    """

    def __init__(self, application: ASGIApp, address: ListenAddress, limits: ServerLimits) -> None:
        self._wakes: Callable[[], object] | None = None
        self._address = address
        self.connections = Connections(limits)
        self._connection = connection_class(self.connections)
        # Its warnings are of wrong requests, as many as are sent; the application logs faults.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        super().__init__(
            uvicorn.Config(
                application,
                loop="asyncio",
                http=self._connection,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=int(limits.idle_s_max),
                timeout_graceful_shutdown=SHUTDOWN_S_MAX,
                h11_max_incomplete_event_size=limits.header_bytes_max,
            )
        )
        self._socket = _listening(address)

    @property
    def should_exit(self) -> bool:
        """Whether the server is to end; it is set from any thread."""
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        wakes = self._wakes
        if wakes is not None:
            with suppress(RuntimeError):  # the event loop is closed
                wakes()

    async def main_loop(self) -> None:
        """As uvicorn does it, but it wakes once a second and not ten times."""
        wakes = asyncio.Event()
        self._wakes = partial(asyncio.get_running_loop().call_soon_threadsafe, wakes.set)
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(wakes.wait(), TICK_S)

    @property
    def url(self) -> str:
        """Where it is reached from this machine."""
        host, port = self._socket.getsockname()[:2]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return self._url(f"[{host}]" if ":" in host else host, port)

    def url_at(self, name: str) -> str:
        """Where it is reached from machines that know this one by a name."""
        return self._url(name, self._socket.getsockname()[1])

    def _url(self, host: str, port: int) -> str:
        scheme = "http" if self._address.tls is None else "https"
        return f"{scheme}://{host}:{port}"

    def serve_until_ended(
        self, on_ready: Callable[[], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        """Serve; `on_ready` is called when connections are accepted, `on_end` before none are."""
        _raise_limit_of_files()
        self._on_ready, self._on_end = on_ready, on_end
        self.run()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it; `on_end` is called while the port is still this server's."""
        self._on_end()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, but handshakes count as connections."""
        await self.lifespan.startup()
        made: Callable[[], asyncio.Protocol] = partial(
            self._connection,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        tls = self._address.tls
        protocol = made if tls is None else partial(Handshake, tls, self.connections, made)
        server = await asyncio.get_running_loop().create_server(protocol, sock=self._socket)
        self.servers = [server]
        self.started = True
        self._on_ready()


def _listening(address: ListenAddress) -> socket.socket:
    """A socket that listens there; raises Unavailable, naming the address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With its protocol: asyncio sends small packets at once only where it reads TCP there, and each
    # answer would wait 40 ms for the client's delayed acknowledgement.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((address.host, address.port))
        opened.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        opened.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise Unavailable(
            f"the exchange cannot be served at {address.host} port {address.port} ({reason}): give "
            "another --host or --port"
        ) from error
    return opened


def _raise_limit_of_files() -> None:
    """As many open files as the system allows: each connection is one."""
    with suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
