"""Two homes of one folder, in Postgres and with real files: alpha computes `sums`, beta reads it
and computes `big` from what it read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from medusa_core.commits import LeaseKey
from medusa_core.exchange import import_fragment
from medusa_core.names import Participant
from medusa_core.segments import Producer
from pipelines.catalog.records import Deployment
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.exchange.contents import FileContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.importer import Imported, Importer
from pipelines.exchange.nonblocking import NonBlockingExchange
from pipelines.homes.home import Home, open_home
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.home_session import open_session
from tests.catalog import building as a
from tests.changes.building import BIG, SUMS, Lines
from tests.exchange.served import introduce, served_home
from tests.home_pool import home_pool

BETA = Participant("beta")
READER = Producer(BETA)
IMPORT = import_fragment(SUMS)


@dataclass
class Pair:
    """Alpha, whose lines a test writes, and beta, who imports `sums`."""

    alpha: Lines
    beta: Home
    importer: Importer

    def poll(self) -> list[Imported]:
        """What beta's importer told of one poll."""
        told: list[Imported] = []
        self.importer.poll(told.append)
        return told

    def compute_big(self, from_: int, to: int) -> None:
        """Beta's next buckets of `big`, computed from its copy as it stands."""
        part = a.buckets(from_, to)
        lease = self.beta.catalog.acquire_lease(
            a.a_key(a.TAIL, producer=READER), a.FIRST, "reader", a.HOUR_MS
        )
        lineage = tuple(
            replace(a.a_read(BIG, SUMS, s.range.intersection(part), s.version), producer=a.ME)
            for s in self.beta.catalog.segments(SUMS, part)
        )
        segment = a.a_segment(from_, to, stream=BIG, rows={from_: 1})
        self.beta.catalog.commit(a.a_commit(segment, lease=lease, lineage=lineage))

    def current(self, stream: str) -> list[tuple[int, int, int]]:
        """Ranges in buckets and versions of what is live with beta."""
        found = self.beta.catalog.segments(SUMS if stream == SUMS else BIG)
        return [
            (s.range.from_us // a.WIDTH_US, s.range.to_us // a.WIDTH_US, s.version) for s in found
        ]


@contextmanager
def a_pair(server: EmbeddedServer, folder: Path) -> Iterator[Pair]:
    """Both homes in the suite's server."""
    with (
        home_pool(server, folder, a.ALPHA, BETA) as settings,
        open_home(settings, a.ALPHA) as home,
        open_home(settings, BETA) as beta,
    ):
        alpha = Lines(home, settings)
        _deploy_reader(alpha, beta)
        introduce(settings, a.ALPHA, BETA, SUMS)
        with served_home(settings, a.ALPHA), open_session(settings, BETA) as session:
            leases = LeaseRenewer(beta.catalog, "reader", lease_ms=a.HOUR_MS)
            leases.take([(LeaseKey(fragment=IMPORT, producer=READER), a.FIRST)])
            copies = FileCopies(beta.storage)
            yield Pair(
                alpha,
                beta,
                Importer(
                    beta.catalog,
                    copies,
                    NonBlockingExchange(session.exchange, moment_s=60),
                    leases,
                    contents=FileContents(beta.storage, beta.catalog),
                ),
            )


def _deploy_reader(alpha: Lines, beta: Home) -> None:
    deployment = a.a_deployment()
    beta.catalog.deploy(
        Deployment(
            network=deployment.network,
            document="{}",
            plan=a.PLAN,
            plan_document="{}",
            streams=tuple(dict.fromkeys(line.stream for line in alpha.catalog.lines())),
            fragments={**deployment.fragments, IMPORT: ((), ())},
            assignments=(
                a.an_assignment(a.MAIN, producer=a.ME),
                a.an_assignment(a.TAIL, producer=READER),
                a.an_assignment(IMPORT, producer=READER),
            ),
        )
    )
