"""Serve the exchange of one home: a process of its own, with a login of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from medusa_core.protocol.assertions import audience_of
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.exchange.server.application import ExchangeServer
from pipelines.exchange.server.home_progress import HomeProgress
from pipelines.exchange.server.https_server import Address, HttpsServer, is_loopback
from pipelines.exchange.server.partner_budgets import ServerLimits
from pipelines.exchange.server_certificates import make_certificate, pin_of_file, server_context
from pipelines.homes.exchange_addresses import write_address
from pipelines.homes.home import chosen_participant, exchange_login, storage_of
from pipelines.homes.signing_keys import key_path, make_key

CERTIFICATE = "server.pem"
LOOKS_S = 1.0
"""How often it is seen whether an embedded catalog server has to be started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """Where to serve the exchange of `participant` (None: the only one of the folder).

    On loopback it is served without TLS unless a certificate is given; elsewhere with the given
    certificate, or with one that the home makes. Port 0 is a free one. `key`: a PEM file; None if
    the certificate's file holds the key.
    """

    participant: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Serves:
    """A home's exchange is served at `url`; `pin` is what partners know its certificate by."""

    participant: Participant
    url: str
    pin: str | None


def serve_exchange(
    settings: Settings, request: ServeRequest, observer: Callable[[Serves], None]
) -> None:
    """Serve until the process is interrupted; `observer` hears when partners are answered.

    Raises Refused for a home that is not there and a certificate that cannot be used, Unavailable
    if the home cannot be reached or the address is taken.
    """
    participant = chosen_participant(settings, request.participant)
    certificate = _certificate(settings, participant, request)
    tls = None if certificate is None else server_context(certificate, request.key)
    address = Address(host=request.host, port=request.port, tls=tls)
    audience = audience_of(participant, make_key(settings.directory, participant).public_key)
    limits = ServerLimits()
    with (
        exchange_login(settings, participant) as (url, revive),
        closing(ExchangeHome(url, participant)) as home,
    ):
        home.read_clock_ms()  # a home that lacks a migration is an error now, not later
        progress = HomeProgress(url)
        storage = storage_of(settings.directory, participant)
        exchange = ExchangeServer(home, storage, audience, version("medusa"), progress, limits)
        server = HttpsServer(exchange.application, address, limits)
        serves = Serves(
            participant=participant,
            url=server.url,
            pin=None if certificate is None else pin_of_file(certificate),
        )

        def ready() -> None:
            write_address(settings.directory, participant, server.url)
            observer(serves)

        with progress.listening(), _revived(revive):
            server.serve_until_ended(ready)


def _certificate(
    settings: Settings, participant: Participant, request: ServeRequest
) -> Path | None:
    if request.certificate is not None or is_loopback(request.host):
        return request.certificate
    make_key(settings.directory, participant)
    folder = key_path(settings.directory, participant).parent
    return make_certificate(folder / CERTIFICATE, participant)


@contextmanager
def _revived(revive: Callable[[], None]) -> Iterator[None]:
    """Start an embedded catalog server again whenever it has ended meanwhile."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOKS_S):
            # Partners are answered that the home is unavailable until it is back.
            with suppress(Unavailable):
                revive()

    thread = threading.Thread(target=look, name="medusa-revive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
