"""The homes of two machines: alpha lands a stream, beta imports it over the cable between them.

Both are run by the test, as the loops of participants run them: what beta keeps is compared with
what alpha has, and every poll is timed.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import make_url

from medusa_core.names import Participant, StreamName
from medusa_core.segments import Segment
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.exchange.contents import FileContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.importer import Imported, Importer
from pipelines.exchange.nonblocking import NonBlockingExchange
from pipelines.exchange.server.https_server import ListenAddress
from pipelines.exchange.server_certificates import ServerCertificate, make_certificate
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from tests.exchange.served import served_home
from tests.federation.building import Running, no_spark, seated
from tests.federation.relay import relay_to
from tests.home_pool import home_pool
from tests.networks.namespaces import Machine, Network, inside, network

ALPHA, BETA = Participant("alpha"), Participant("beta")
GIVEN = StreamName("given")
PORT = 8443
START_US, BUCKET_US = 1_700_000_000_000_000, 1_000_000
POLL_S = 0.05
POLL_S_MAX = 5.0
"""The bound of a poll: a partner is waited for a moment, and a file for two seconds."""
DONE_S_MAX = 240

NETWORK = """
from medusa_core.network import Filter, Network, Output, Source

network = Network(
    name="carried",
    sources=(Source(name="given", columns={"ts_us": "bigint", "text": "string"}, time="ts_us"),),
    boxes=(Filter(name="short", input="given", cases={"yes": "text < 'b'"}, fragment="of_given"),),
    outputs=(Output(name="out", input="short"),),
    bucket="1s",
)
"""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What alpha lands: so many buckets of so many bytes each, a second of event time a bucket."""

    buckets: int = 40
    bytes_each: int = 60_000
    speed: float = 4


def write_contracts(folder: Path, load: Load) -> Path:
    for kind in ("participants", "streams"):
        (folder / kind).mkdir(parents=True)
    (folder / "carried.py").write_text(NETWORK)
    for name, what in (("alpha", "sources: [given]"), ("beta", "fragments: [of_given]")):
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n  - network: carried.py\n    {what}\n"
        )
    # Texts that cannot be compressed, so that files are as large as said.
    drawn, rows = random.Random(1), 20
    lines = [
        f"{START_US + at * BUCKET_US // rows},{drawn.randbytes(load.bytes_each // rows // 2).hex()}"
        for at in range(load.buckets * rows)
    ]
    (folder / "given.csv").write_text("\n".join(["ts_us,text", *lines, ""]))
    (folder / "streams" / "given.yaml").write_text(
        f"stream: given\nsource:\n  kind: replay\n  speed: {load.speed}\n  disorder: 100ms\n"
        f"  paths: ['{folder / 'given.csv'}']\n"
    )
    return folder


@dataclass
class LinkedHomes:
    """Alpha and beta at work."""

    network: Network
    settings: Settings
    certificate: ServerCertificate
    certificate_file: Path
    alpha: Running
    beta: Running
    importer: Importer
    served: ExitStack
    told: list[Imported] = field(default_factory=list)
    polls_s: list[float] = field(default_factory=list)

    def serve(self) -> None:
        """Serve alpha's exchange again, until `served` is closed."""
        serve(self.served, self.network, self.settings, self.certificate)

    def poll(self) -> None:
        began_s = time.monotonic()
        self.importer.poll(self.told.append)
        self.polls_s.append(time.monotonic() - began_s)

    def work(
        self, is_done: Callable[[], object], what: str, seconds_max: float = DONE_S_MAX
    ) -> None:
        """Let alpha land and beta poll until something holds."""
        gives_up_s = time.monotonic() + seconds_max
        while not is_done():
            problem = next((i.problem for i in reversed(self.told)), None)
            assert time.monotonic() < gives_up_s, f"not: {what}; told last: {problem}"
            self.alpha.loop.tick()
            self.poll()
            time.sleep(POLL_S)

    def segments(self, running: Running) -> tuple[Segment, ...]:
        return running.home_session.home.catalog.segments(GIVEN)

    def reached_us(self, running: Running) -> int:
        """How far a home has the stream."""
        return max((s.range.to_us for s in self.segments(running)), default=0)

    def land(self, buckets: int) -> None:
        """Let alpha land more, while beta polls."""
        more_us = self.reached_us(self.alpha) + buckets * BUCKET_US
        self.work(lambda: self.reached_us(self.alpha) >= more_us or self.has_landed(), "it lands")

    def has_landed(self) -> bool:
        return has_ended(self.alpha.home_session)

    def until_problem(self, words: str) -> str:
        """Until beta reports something with these words; the sentence."""
        since = len(self.told)
        self.work(
            lambda: any(words in (one.problem or "") for one in self.told[since:]),
            f"{words!r} is reported",
        )
        return next(one.problem for one in self.told[since:] if words in (one.problem or ""))  # type: ignore[return-value]

    def import_more(self) -> None:
        """Until beta has more than it has now."""
        reached_us = self.reached_us(self.beta)
        self.work(lambda: self.reached_us(self.beta) > reached_us, "beta imports more")

    def finish(self) -> None:
        """Until beta has all; nothing is lost or doubled, and no poll broke its bound."""
        self.work(lambda: self.has_landed() and self.is_copied(), "beta has what alpha has")
        self.work(lambda: not self.told[-1].problem, "the last problem is over")
        assert max(self.polls_s) < POLL_S_MAX, sorted(self.polls_s)[-5:]

    def is_copied(self) -> bool:
        """Whether both homes have the same rows in the same versions; each file was checked."""
        mine, theirs = (
            [(s.range, s.version, s.stability, dict(s.buckets)) for s in self.segments(one)]
            for one in (self.alpha, self.beta)
        )
        return mine == theirs and bool(mine)


@contextmanager
def linked_homes(
    server: EmbeddedServer, folder: Path, load: Load | None = None
) -> Iterator[LinkedHomes]:
    """Alpha, served on its machine, and beta, whose client is on the other one."""
    with ExitStack() as stack:
        made = stack.enter_context(network(folder / "machines", "alpha", "beta"))
        settings = stack.enter_context(home_pool(server, folder / "homes", ALPHA, BETA))
        contracts = write_contracts(folder / "contracts", load or Load())
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        alpha = stack.enter_context(seated(settings, "alpha", no_spark, is_served=False))
        certificate_file = make_certificate(folder / "alpha.pem", ALPHA)
        certificate = ServerCertificate(certificate_file)
        stack.enter_context(database_on(made.machines["beta"], server))
        beta = stack.enter_context(seated(settings, "beta", no_spark, is_served=False))
        exchange = beta.home_session.exchange
        served = stack.enter_context(ExitStack())
        serve(served, made, settings, certificate)
        with inside(made.machines["beta"]):
            exchange.health(ALPHA)  # starts the client's threads there
        polled = NonBlockingExchange(exchange)
        stack.callback(polled.close)
        home = beta.home_session.home
        importer = Importer(
            home.catalog, FileCopies(home.storage), polled, beta.leases,
            contents=FileContents(home.storage, home.catalog),
        )  # fmt: skip
        yield LinkedHomes(
            made, settings, certificate, certificate_file, alpha, beta, importer, served
        )


def serve(
    served: ExitStack, network: Network, settings: Settings, certificate: ServerCertificate
) -> None:
    """Serve alpha's exchange on its machine, until the stack is closed."""
    machine = network.machines["alpha"]
    address = ListenAddress(host=machine.address, port=PORT, tls=certificate.context)
    served.enter_context(served_home(settings, ALPHA, address, certificate.pin, inside(machine)))


def database_on(machine: Machine, server: EmbeddedServer) -> AbstractContextManager[object]:
    """The suite's database server, at its own port of a machine's loopback."""
    port = make_url(server.superuser_url()).port
    assert port is not None
    with inside(machine):
        listener = socket.create_server(("127.0.0.1", port))
    return relay_to(port, listener)
