"""Serve the exchange of one home: a process of its own, with a login of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from medusa_core.errors import Conflict, MedusaError, Refused, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.files import FileLock
from pipelines.base.garbage_collection import exempt_loaded_objects
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.shared_home import SharedHome
from pipelines.exchange.link_recorder import LinkRecorder, reported_links
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.exchange.server.application import ExchangeServer
from pipelines.exchange.server.home_progress import HomeProgress
from pipelines.exchange.server.https_server import HttpsServer, ListenAddress
from pipelines.exchange.server.partner_budgets import ServerLimits
from pipelines.exchange.server_certificates import ServerCertificate, make_certificate
from pipelines.homes.exchange_addresses import (
    ServerAddress,
    is_loopback,
    read_address,
    remove_address,
    server_lock,
    write_address,
)
from pipelines.homes.home import checked_storage, chosen_participant, exchange_login
from pipelines.homes.signing_keys import key_path, make_key
from pipelines.sharing.recipient_limits import SharingLimits
from pipelines.sharing.sharing_calls import SharingCalls

CERTIFICATE = "server.pem"
LOOPBACK, LOCALHOST, ANY = "127.0.0.1", "localhost", "0.0.0.0"
SHARED = "sharing"
"""The folder of the files that are made for Delta Sharing, below MEDUSA_DIR."""

LOOK_AGAIN_S = 0.5
"""How often a standby looks whether it is to serve, and how long an answer may take."""

SILENT_LOOKS_MAX, START_LOOKS_MAX = 4, 60
"""How often in a row a standby looks in vain before it serves beside the server of the home: one
that has an address, and one that is starting."""

REPEAT_S = 1.0
"""How often an embedded catalog server is started again if it has ended, and the address of the
exchange is written again if it is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """Where to serve the exchange of `participant` (None: the only one of the folder).

    `host` None: with the name of the settings by which partners reach it, all addresses of the
    machine, or loopback if that is its name; without a name, loopback. On loopback it is served
    without TLS unless a name or a certificate is given; elsewhere with the given certificate, or
    with one that the home makes. Port 0 is that of the settings, else a free one.
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
    make_key(settings.directory, participant)
    name = settings.exchange_name
    default_host = LOOPBACK if name is None or _is_this_machine(name) else ANY
    host = request.host or default_host
    is_named = name is not None and (request.host is None or not is_loopback(host))
    certificate = request.certificate
    if certificate is None and (is_named or not is_loopback(host)):
        own_path = certificate_path(settings.directory, participant)
        # Recipients of Delta Sharing know no pin: their clients compare the name of the host.
        certificate = make_certificate(own_path, participant, name)
    tls = None if certificate is None else ServerCertificate(certificate, request.key)
    port = request.port or settings.exchange_port or 0
    listen = ListenAddress(host=host, port=port, tls=None if tls is None else tls.context)
    limits, of_recipients = ServerLimits(), SharingLimits()
    storage = checked_storage(settings.directory, participant)
    lock = _lock_of_server(settings.directory, participant, is_standby=request.is_standby)
    with (
        nullcontext() if lock is None else lock,
        exchange_login(settings, participant) as (login_url, revive),
        closing(
            ExchangeHome(login_url, participant, connections_max=limits.catalog_connections_max)
        ) as home,
        closing(
            SharedHome(
                login_url, participant, connections_max=of_recipients.server.catalog_connections_max
            )
        ) as shared,
        closing(
            SharingCalls(shared, storage, settings.directory / SHARED / participant, of_recipients)
        ) as sharing,
    ):
        progress = HomeProgress(login_url)
        identity = OwnIdentity(settings.directory, participant)
        links = LinkRecorder()
        exchange = ExchangeServer(
            home, storage, identity, version("medusa"), progress, limits, links, (sharing.mount,)
        )
        server = HttpsServer(exchange.application, listen, limits)
        url = server.url
        if name is not None and is_named:
            url = server.url_at(name)
        listing = _Listing(settings.directory, participant, url, tls, lock)

        def ready() -> None:
            exempt_loaded_objects()
            write_address(settings.directory, participant, listing.address)
            observer(ServerStarted(participant=participant, address=listing.address))

        def revive_lost() -> None:
            # A look at a server that runs costs more than everything else while nothing happens.
            if not progress.is_connected:
                revive()

        with (
            progress.listening(),
            _repeated(revive_lost),
            _repeated(listing.keep),
            reported_links(links, home.report_links),
        ):
            server.serve_until_ended(ready, listing.end)


@dataclass(slots=True)
class _Listing:
    """The address of a server in the folder of homes, while it serves.

    `certificate` None: it serves without TLS. `lock` None: another process, which is frozen, holds
    the lock.
    """

    directory: Path
    participant: Participant
    url: str
    certificate: ServerCertificate | None
    lock: FileLock | None
    is_ended: bool = False
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def address(self) -> ServerAddress:
        """The address, with the pin of the present certificate."""
        pin = None if self.certificate is None else self.certificate.pin
        return ServerAddress(url=self.url, pin=pin)

    def keep(self) -> None:
        """Take the lock if it is free; its holder has its address in the folder.

        A certificate that was replaced is presented from now on.
        """
        with self.guard:
            if self.is_ended:
                return
            if self.certificate is not None:
                self.certificate.refresh()
            if self.lock is None:
                with suppress(Conflict):
                    self.lock = server_lock(self.directory, self.participant)
            if self.lock is not None:
                write_address(self.directory, self.participant, self.address)

    def end(self) -> None:
        """Remove the address, unless another server has written its own."""
        with self.guard:
            self.is_ended = True
            remove_address(self.directory, self.participant, self.address)


def _lock_of_server(
    directory: Path, participant: Participant, *, is_standby: bool
) -> FileLock | None:
    """Taken by the process that serves a home; a standby waits until no other one answers.

    None if one holds it that does not answer. Raises Conflict if another process serves the home
    and this one is no standby.
    """
    silent_looks = 0
    while True:
        try:
            return server_lock(directory, participant)
        except Conflict:
            if not is_standby:
                raise
        # Here, so that a server that need not wait starts without the client.
        from pipelines.exchange.client.partner_link import is_answering

        try:
            url = read_address(directory, participant).url
            is_silent, looks_max = not is_answering(url, LOOK_AGAIN_S), SILENT_LOOKS_MAX
        except Unavailable:  # it may be starting
            is_silent, looks_max = True, START_LOOKS_MAX
        silent_looks = silent_looks + 1 if is_silent else 0
        if silent_looks > looks_max:
            return None
        clock.sleep_s(LOOK_AGAIN_S)


def _is_this_machine(name: str) -> bool:
    """Whether a name is reached from this machine alone."""
    return name == LOCALHOST or is_loopback(name)


def certificate_path(directory: Path, participant: Participant) -> Path:
    """The file of the certificate that a home makes; `directory` is the folder of homes."""
    return key_path(directory, participant).parent / CERTIFICATE


@contextmanager
def _repeated(action: Callable[[], None]) -> Iterator[None]:
    """Call an action again and again, in a thread, as long as the block runs."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(REPEAT_S):
            # An embedded server that does not come back: partners receive that it is unavailable.
            with suppress(MedusaError):
                action()

    thread = threading.Thread(target=repeat, name="medusa-repeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
