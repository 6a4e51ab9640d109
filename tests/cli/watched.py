"""Two homes on one server, as they stand in the middle of their work: made without Spark.

`alpha` has landed four buckets of live records, closed three, computed two stable sums and a
tentative one; its landing has promised more, so that there is work. `beta` has only been deployed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import create_engine, text

from medusa_core.commits import Lease, StepMetrics
from medusa_core.grid import floor_us
from medusa_core.names import Participant, StreamName
from medusa_core.plans import Plan
from medusa_core.segments import Producer, Stability
from pipelines.base.settings import Settings
from pipelines.catalog.interface import Catalog
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes, make_home, open_home
from pipelines.language.check import check_network, fragments_for
from pipelines.spark.deployment import deployment_of
from tests.catalog import building as a
from tests.federation.building import federation_of
from tests.home_pool import home_pool

BETA = Participant("beta")
RED = "\x1b[31mred\u202e"


@dataclass(frozen=True)
class Watched:
    """The homes' folder and server; `origin_us` is the first bucket of alpha's streams."""

    settings: Settings
    origin_us: int

    def environment(self) -> dict[str, str]:
        """What the environment has to say."""
        assert self.settings.catalog_url is not None
        return {
            "MEDUSA_DIR": str(self.settings.directory),
            "MEDUSA_CATALOG_URL": self.settings.catalog_url,
        }

    def change(self, statement: str, participant: Participant = a.ALPHA) -> None:
        """Send a statement to a home's database, as the administrator."""
        database = known_homes(self.settings.directory)[participant]
        url = catalog_url(self.settings.catalog_url or "").set(database=database)
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                connection.execute(text(statement))
        finally:
            engine.dispose()


@contextmanager
def watched_homes(server: EmbeddedServer, directory: Path) -> Iterator[Watched]:
    """Both homes, lent: a test may change their rows."""
    with home_pool(server, directory, a.ALPHA, BETA) as settings:
        yield filled(settings)


@contextmanager
def own_watched_homes(server: EmbeddedServer, directory: Path) -> Iterator[Watched]:
    """Both homes, for a test that changes what a home is made of; dropped at the end."""
    with federation_of(server, directory) as settings:
        for participant in (a.ALPHA, BETA):
            with make_home(settings, participant, keep=True):
                pass
        yield filled(settings)


def filled(settings: Settings) -> Watched:
    """Deploy the network in both homes, and do alpha's part."""
    origin_us = floor_us(int(time.time()) * 1_000_000 - 10 * a.WIDTH_US, a.WIDTH_US)
    for participant in (a.ALPHA, BETA):
        with open_home(settings, participant) as home:
            deploy(home.catalog)
            if participant == a.ALPHA:
                part(home.catalog, origin_us // a.WIDTH_US)
    return Watched(replace(settings, test_data=settings.directory), origin_us)


def deploy(catalog: Catalog) -> None:
    """The example network, assigned to whose home it is."""
    checked = check_network(a.a_network())
    streams = (a.SRC, a.SUMS, a.BIG)
    plan = Plan(
        network=checked.network,
        widths_us=dict.fromkeys(streams, a.WIDTH_US),
        function_sources={},
        engine={"engine": "none"},
    )
    producer = Producer(catalog.participant)
    catalog.deploy(deployment_of(plan, checked, fragments_for(checked), producer))


def part(catalog: Catalog, first: int) -> None:
    """What alpha has done; `first` is the number of its first bucket."""
    leases = {
        name: catalog.acquire_lease(a.a_key(name), a.FIRST, f"driver {RED}", a.HOUR_MS)
        for name in (a.LANDING, a.MAIN)
    }
    (plan,) = catalog.plans()
    bad = tuple(a.a_bad_record(f"no number: {RED}") for _ in range(3))
    rows = {first + at: 5 for at in range(4)}
    catalog.land(leases[a.LANDING], a.a_batch(0, rows, quarantine=(*bad, a.a_bad_record("late"))))
    promise(catalog, leases[a.LANDING], first, 4)
    closed = a.a_segment(
        first, first + 3, stream=a.SRC, rows={k: n for k, n in rows.items() if k < first + 3}
    )
    catalog.commit(a.a_commit(closed, lease=leases[a.LANDING], plan=plan.id))
    stable = a.a_segment(first, first + 2, rows={first: 2})
    tentative = a.a_segment(first + 2, first + 3, Stability.TENTATIVE, missing=(a.SRC,))
    step = a.a_commit(stable, tentative, lease=leases[a.MAIN], plan=plan.id)
    cost = StepMetrics(records_in=15, records_out=2, spark_jobs=1, phases_ms={"run": 12.5})
    catalog.commit(a.replace(step, metrics=cost))


def promise(catalog: Catalog, lease: Lease, first: int, buckets: int) -> None:
    """The source has no later record before so many buckets."""
    origin_us = first * a.WIDTH_US
    stream = StreamName(a.SRC)
    boundary_us = origin_us + buckets * a.WIDTH_US
    catalog.promise(lease, stream, origin_us=origin_us, boundary_us=boundary_us, end_us=None)
