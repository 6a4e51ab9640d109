"""Metrics over HTTP, to this machine alone unless an address is given; ended with the process."""

from __future__ import annotations

from ipaddress import ip_address

from prometheus_client import start_http_server

from medusa_core.errors import Unavailable
from pipelines.base.settings import LOOPBACK
from pipelines.watching.metrics import Metrics


class MetricsServer:
    """Answers scrapes from a thread that does not keep the process alive.

    Port 0 takes a free one; `url` says which. Raises Unavailable if the port is taken or may not
    be used.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(
                port, addr=host, registry=metrics.registry
            )
        except OSError as error:
            raise Unavailable(
                f"metrics cannot be served on port {port} of {host} ({error.strerror}): give each "
                "driver a MEDUSA_METRICS_PORT of its own, or 0 for a free one"
            ) from error
        self.port = int(self._server.server_port)
        self._host = LOOPBACK if ip_address(host).is_unspecified else host

    @property
    def url(self) -> str:
        """Where a scraper of this machine finds them."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """Stop answering and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
