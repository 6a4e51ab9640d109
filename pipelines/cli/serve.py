"""`medusa serve`: answer partners of one home over HTTPS, until interrupted."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.cli import arguments

if TYPE_CHECKING:
    from pipelines.operations.exchange_service import ServerStarted

HELP = "serve the exchange of a home to its partners, until interrupted"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa serve`."""
    arguments.add_home(parser)
    standby = "wait, ready to serve, while another process serves this home"
    parser.add_argument("--standby", action="store_true", help=standby)
    host = "address to listen on (default: 127.0.0.1, without TLS; see MEDUSA_EXCHANGE_NAME)"
    parser.add_argument("--host", metavar="ADDRESS", help=host)
    port = "port to listen on (default: a free one)"
    parser.add_argument("--port", type=arguments.port, metavar="N", default=0, help=port)
    certificate = "PEM file of the server's certificate (default: one that the home makes)"
    parser.add_argument("--certificate", type=Path, metavar="FILE", help=certificate)
    key = "PEM file of its key (default: in the certificate's file)"
    parser.add_argument("--key", type=Path, metavar="FILE", help=key)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Serve; a line says where, and by which key partners know the server."""
    from pipelines.operations.exchange_service import ServeRequest, serve_exchange

    request = ServeRequest(
        participant=options.participant,
        is_standby=options.standby,
        host=options.host,
        port=options.port,
        certificate=options.certificate,
        key=options.key,
    )
    # A fault is logged with its trace, which no partner receives.
    logging.getLogger("pipelines").addHandler(logging.StreamHandler())
    serve_exchange(settings, request, _print)
    return 0


def _print(started: ServerStarted) -> None:
    print(render(started), flush=True)


def render(started: ServerStarted) -> str:
    """Where the exchange is served."""
    address = started.address
    pin = "" if address.pin is None else f"; the SHA-256 of its key is {address.pin}"
    return f"{started.participant} serves its exchange at {address.url}{pin}"
