"""An exchange server on a port of this machine, in a thread, and servers that misbehave."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path

import httpx
from sqlalchemy import text
from starlette.routing import BaseRoute

from medusa_core.errors import Conflict, MedusaError
from medusa_core.names import Participant
from medusa_core.protocol.introductions import INTRODUCTION
from medusa_core.segments import SegmentFile
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.client.partner_link import ClientIdentity, PartnerAddress
from pipelines.exchange.link_recorder import LinkRecorder
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.exchange.server.application import ExchangeServer, ServerIdentity
from pipelines.exchange.server.home_progress import HomeProgress
from pipelines.exchange.server.https_server import HttpsServer, ListenAddress
from pipelines.exchange.server.partner_budgets import ServerLimits
from pipelines.homes.exchange_addresses import (
    ServerAddress,
    remove_address,
    server_lock,
    write_address,
)
from pipelines.homes.home import exchange_login, open_home, storage_of
from pipelines.homes.signing_keys import make_key
from tests.exchange.published_home import ALPHA, BETA, KEYS, ROWS, KeyIdentity, form_for


@contextmanager
def served(
    home: ExchangeHome, storage: Path, url: str, address: ListenAddress | None = None,
    limits: ServerLimits | None = None, identity: ServerIdentity | None = None,
    links: LinkRecorder | None = None,
    listening: AbstractContextManager[object] | None = None,
    mounts: Sequence[BaseRoute] = (),
) -> Iterator[HttpsServer]:  # fmt: skip
    """The server of a home, of alpha's unless another identity is given.

    `listening`: the block in which its socket is made.
    """
    limits = limits or ServerLimits()
    progress = HomeProgress(url)
    exchange = ExchangeServer(
        home, storage, identity or KeyIdentity(ALPHA), "0.1.0", progress, limits, links, mounts
    )
    with listening or nullcontext():
        server = HttpsServer(exchange.application, address or ListenAddress(), limits)
    is_ready = threading.Event()
    thread = threading.Thread(target=server.serve_until_ended, args=(is_ready.set,))
    with progress.listening():
        thread.start()
        try:
            assert is_ready.wait(30)
            yield server
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextmanager
def served_home(
    settings: Settings, participant: Participant, listens: ListenAddress | None = None,
    pin: str | None = None, listening: AbstractContextManager[object] | None = None,
) -> Iterator[HttpsServer | None]:  # fmt: skip
    """The server of a home in a folder, which partners in the same folder find.

    None, and nothing is served, while another one serves the home. `pin`: that of its certificate.
    """
    directory = settings.directory
    try:
        lock = server_lock(directory, participant)
    except Conflict:
        yield None
        return
    make_key(directory, participant)
    identity = OwnIdentity(directory, participant)
    with (
        lock,
        exchange_login(settings, participant) as (url, _),
        closing(ExchangeHome(url, participant)) as home,
        served(
            home, storage_of(directory, participant), url, listens, identity=identity,
            listening=listening,
        ) as server,
    ):  # fmt: skip
        address = ServerAddress(url=server.url, pin=pin)
        write_address(directory, participant, address)
        try:
            yield server
        finally:
            remove_address(directory, participant, address)


def introduce(settings: Settings, owner: Participant, reader: Participant, *streams: str) -> None:
    """Let homes of a folder know each other's keys, and the reader read streams of the owner."""
    keys = {name: make_key(settings.directory, name).public_key.hex() for name in (owner, reader)}
    for name in (owner, reader):
        with open_home(settings, name, as_owner=True) as home, home.catalog.engine.connect() as sql:
            for known, key in keys.items():
                sql.execute(LEARN, {"name": known, "key": key})
            for stream in streams if name == owner else ():
                sql.execute(GRANT, {"stream": stream, "reader": reader})


def address_of(url: str, pin: str | None = None, of: Participant = ALPHA) -> PartnerAddress:
    """An address of alpha's server, or of one that says so."""
    return PartnerAddress(url=url, public_key=KEYS[of].public_key().public_bytes_raw(), pin=pin)


@contextmanager
def asking(
    address: PartnerAddress | Callable[[], PartnerAddress], who: Participant = BETA,
    answer_s: float = 60,
) -> Iterator[HttpsExchange]:  # fmt: skip
    """A partner's exchange, with its own key."""
    find = address if callable(address) else lambda: address
    exchange = HttpsExchange(who, lambda _: find(), KeyIdentity(who), answer_s=answer_s)
    try:
        yield exchange
    finally:
        exchange.close()


@contextmanager
def scripted(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does with each connection what is written, and its URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                open_ones.append(connection)
                threading.Thread(target=converse, args=(connection,), daemon=True).start()

    def converse(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            answer(connection)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        # close() alone does not wake who accepts or reads.
        for one in (listening, *open_ones):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


LEARN = text("SELECT medusa_api.learn_key(:name, :key)")
GRANT = text("SELECT medusa_api.grant_stream(:stream, :reader)")

SUMS_FILE = SegmentFile(
    path="sums/x.parquet", size_bytes=len(ROWS), sha256=sha256(ROWS).hexdigest(), rows=2
)
LIMITS = ServerLimits(
    token_s_max=30,
    anonymous_connections_max=8,
    connections_max=4,
    header_s_max=30,
    idle_s_max=60,
)
"""Few connections, and times that no pause of the machine uses up."""


def request_on(connection: socket.socket) -> bytes:
    """The header of the next request; a body is read over."""
    found = b""
    while b"\r\n\r\n" not in found:
        if not (more := connection.recv(65_536)):
            raise OSError
        found += more
    return found


TOKEN = b'{"access_token":"' + b"x" * 43 + b'","token_type":"Bearer","expires_in":900}'


def send(connection: socket.socket, content: bytes, headers: str = "") -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
    connection.sendall(head.encode() + content)


def request_with_token(
    connection: socket.socket, headers: str = "", identity: ClientIdentity | None = None
) -> bytes:
    """The next request behind those with which a client introduces itself and requests a token.

    `identity`: whose server it is; None: alpha's.
    """
    while True:
        head = request_on(connection)
        if b"/v1/introduction" in head:
            signed = (identity or KeyIdentity(ALPHA)).introduction()
            send(connection, INTRODUCTION.write({"introduction": signed}), headers)
        elif b"/v1/token" in head:
            send(connection, TOKEN, headers)
        else:
            return head


def silent(connection: socket.socket) -> None:
    while connection.recv(1 << 20):
        pass


def connected(server: HttpsServer) -> socket.socket:
    host, _, port = server.url.partition("//")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def until_closed(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection, in 30 s of silence at most."""
    sent = bytearray()
    with suppress(ConnectionResetError):
        while more := connection.recv(65_536):
            sent += more
    return bytes(sent)


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it, sending nothing but that it is invalid."""
    sent = until_closed(connection)
    assert sent[9:12] in (b"", b"400"), sent
    return True


START = b"GET /v1/health HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /v1/token HTTP/1.1\r\nHost: a\r\n"


def token_of(server: HttpsServer, home: ExchangeHome) -> str:
    form = form_for(home, BETA)
    answer = httpx.post(f"{server.url}/v1/token", data=form, trust_env=False, timeout=60)
    return str(answer.json()["access_token"])


def is_answered(exchange: HttpsExchange) -> bool:
    try:
        exchange.health(ALPHA)
    except MedusaError:
        return False
    return True
