"""Serve the exchange of one home: a process of its own, with a login of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import (
    AbstractContextManager,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import httpx

from medusa_core.errors import Conflict, MedusaError, Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol.assertions import audience_of
from pipelines.base import clock
from pipelines.base.files import FileLock
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.exchange.server.application import ExchangeServer
from pipelines.exchange.server.home_progress import HomeProgress
from pipelines.exchange.server.https_server import HttpsServer, ListenAddress
from pipelines.exchange.server.partner_budgets import ServerLimits
from pipelines.exchange.server_certificates import make_certificate, pin_of_file, server_context
from pipelines.homes.exchange_addresses import (
    ServerAddress,
    is_loopback,
    read_address,
    remove_address,
    server_lock,
    write_address,
)
from pipelines.homes.home import chosen_participant, exchange_login, storage_of
from pipelines.homes.signing_keys import key_path, make_key

CERTIFICATE = "server.pem"
LOOPBACK, ANY = "127.0.0.1", "0.0.0.0"
LOOK_AGAIN_S = 0.5
"""How often a standby looks whether it is to serve, and how long an answer may take."""

SILENT_S_MAX = 3.0
"""How long the server of a home may not answer before its standby serves beside it."""

REVIVAL_PAUSE_S = 1.0
"""How often an embedded catalog server is started again if it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """Where to serve the exchange of `participant` (None: the only one of the folder).

    `host` None: all addresses of the machine if the settings have the name by which partners reach
    it, else loopback. On loopback it is served without TLS unless a certificate is given;
    elsewhere with the given certificate, or with one that the home makes. Port 0 is a free one.
    `key`: a PEM file; None if the certificate's file holds the key. `is_standby`: wait while
    another process serves it, but not for one that is frozen.
    """

    participant: str | None = None
    is_standby: bool = False
    host: str | None = None
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStarted:
    """A home's exchange is served at an address."""

    participant: Participant
    address: ServerAddress


def serve_exchange(
    settings: Settings, request: ServeRequest, observer: Callable[[ServerStarted], None]
) -> None:
    """Serve until the process is interrupted; `observer` is called when requests are answered.

    Raises Refused for a home that is not there and a certificate that cannot be used, Unavailable
    if the home cannot be reached or the address is taken, Conflict if another process serves it.
    """
    if request.key is not None and request.certificate is None:
        raise Refused("a key is given without its certificate: give both")
    participant = chosen_participant(settings, request.participant)
    audience = audience_of(participant, make_key(settings.directory, participant).public_key)
    name = settings.exchange_name
    host = request.host or (LOOPBACK if name is None else ANY)
    certificate = _certificate(settings, participant, request, host)
    tls = None if certificate is None else server_context(certificate, request.key)
    pin = None if certificate is None else pin_of_file(certificate)
    listen = ListenAddress(host=host, port=request.port, tls=tls)
    limits = ServerLimits()
    with (
        _lock_of_server(settings.directory, participant, is_standby=request.is_standby),
        exchange_login(settings, participant) as (login_url, revive),
        closing(ExchangeHome(login_url, participant)) as home,
    ):
        progress = HomeProgress(login_url)
        storage = storage_of(settings.directory, participant)
        exchange = ExchangeServer(home, storage, audience, version("medusa"), progress, limits)
        server = HttpsServer(exchange.application, listen, limits)
        url = server.url if name is None or is_loopback(host) else server.url_at(name)
        address = ServerAddress(url=url, pin=pin)

        def ready() -> None:
            write_address(settings.directory, participant, address)
            observer(ServerStarted(participant=participant, address=address))

        def end() -> None:
            remove_address(settings.directory, participant, address)

        with progress.listening(), _revived(revive):
            server.serve_until_ended(ready, end)


def _lock_of_server(
    directory: Path, participant: Participant, *, is_standby: bool
) -> AbstractContextManager[object]:
    """Held while this process serves the home; a standby waits until no other one answers.

    Raises Conflict if another process serves it and this one is no standby.
    """
    answered_s = clock.monotonic_s()
    while True:
        try:
            return server_lock(directory, participant)
        except Conflict:
            if not is_standby:
                raise
        looked_s = clock.monotonic_s()
        if _may_answer(directory, participant):
            answered_s = clock.monotonic_s()
        elif looked_s - answered_s > SILENT_S_MAX:
            # It is frozen: partners find the address of this server instead.
            return _held_when_free(directory, participant)
        clock.sleep_s(LOOK_AGAIN_S)


def _may_answer(directory: Path, participant: Participant) -> bool:
    """Whether the server that serves a home answers, or has no address yet."""
    try:
        url = read_address(directory, participant).url
    except Unavailable:
        return True
    try:
        # Nothing secret is sent, and any answer will do: the certificate is not looked at.
        httpx.get(f"{url}/v1/health", verify=False, trust_env=False, timeout=LOOK_AGAIN_S)
    except httpx.HTTPError:
        return False
    return True


def _held_when_free(directory: Path, participant: Participant) -> AbstractContextManager[object]:
    """Take a home's lock in the background as soon as it is free, until this process ends."""
    locks: list[FileLock] = []

    def take() -> None:
        with suppress(MedusaError):
            locks.append(server_lock(directory, participant, waits=True))

    threading.Thread(target=take, name="medusa-serve-lock", daemon=True).start()
    return nullcontext(locks)


def _certificate(
    settings: Settings, participant: Participant, request: ServeRequest, host: str
) -> Path | None:
    if request.certificate is not None or is_loopback(host):
        return request.certificate
    folder = key_path(settings.directory, participant).parent
    return make_certificate(folder / CERTIFICATE, participant)


@contextmanager
def _revived(revive: Callable[[], None]) -> Iterator[None]:
    """Start an embedded catalog server again whenever it has ended meanwhile."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(REVIVAL_PAUSE_S):
            # Until it is back partners receive that the home is unavailable.
            with suppress(MedusaError):
                revive()

    thread = threading.Thread(target=look, name="medusa-revive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
