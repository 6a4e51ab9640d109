"""Metrics over HTTP, to this machine alone: 127.0.0.1, ended with the process."""

from __future__ import annotations

from prometheus_client import start_http_server

from medusa_core.errors import Unavailable
from pipelines.watching.metrics import Metrics

HOST = "127.0.0.1"


class MetricsServer:
    """Answers scrapes from a thread that does not keep the process alive.

    Port 0 takes a free one; `url` says which. Raises Unavailable if the port is taken or may not
    be used.
    """

    def __init__(self, metrics: Metrics, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(
                port, addr=HOST, registry=metrics.registry
            )
        except OSError as error:
            raise Unavailable(
                f"metrics cannot be served on port {port} ({error.strerror}): give each driver "
                "a MEDUSA_METRICS_PORT of its own, or 0 for a free one"
            ) from error
        self.port = int(self._server.server_port)

    @property
    def url(self) -> str:
        """Where a scraper finds them."""
        return f"http://{HOST}:{self.port}/metrics"

    def close(self) -> None:
        """Stop answering and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
