"""Contender (c): Medusa as it ships, with a Postgres catalog, one home, one driver.

Records land and windows are closed through the product's own functions before the clock starts; the
files of those segments are what all contenders read. A step is a tick of the driver: knowledge read
in one snapshot, decided, input hashes checked, one Spark job, files written and synced, digests,
one commit that Postgres has synced.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contender import Milliseconds
from bench.timed import TimedCatalog
from bench.workload import Workload, start_us, window_records
from medusa_core.commits import LeaseKey
from medusa_core.decide import ComputeStep
from medusa_core.fragments import Fragment, landing_fragment
from medusa_core.knowledge import Limits
from medusa_core.names import FIRST_EPOCH, Participant, StreamName
from medusa_core.network import Port
from medusa_core.segments import Producer
from pipelines.base.cpu_meter import NO_METER, Meter
from pipelines.base.settings import Settings
from pipelines.catalog.interface import Catalog
from pipelines.homes.home import make_home
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.language.check import CheckedNetwork, check_network, fragments_for
from pipelines.participant.assigned_plans import AssignedPlan
from pipelines.participant.driver import Driver
from pipelines.sources.closing import BucketCloser
from pipelines.sources.landing import landed_batch
from pipelines.spark.deployment import deployment_of, plan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTICIPANT = Participant("bench")
STREAM = StreamName("connections")
WIDTH_US = 60_000_000
ONE_WINDOW = Limits(buckets_per_step_max=1)
"""All windows are closed already; a driver without this limit would take many in one step."""


class Site:
    """A home with a deployed network, its leases, and drivers over it."""

    def __init__(
        self,
        catalog: Catalog,
        root: Path,
        checked: CheckedNetwork,
        engine: Any,
        width_us: int = WIDTH_US,
    ) -> None:
        self.catalog, self.root = TimedCatalog(catalog), root
        self.checked, self._width_us = checked, width_us
        self.plan = plan_of(checked.network, checked, width_us, root)
        self.producer = Producer(PARTICIPANT)
        self.fragments = fragments_for(self.checked)
        self._engine = engine
        catalog.deploy(deployment_of(self.plan, self.checked, self.fragments, self.producer))
        self.leases = LeaseRenewer(catalog, "bench")

    def __enter__(self) -> Site:
        self.leases.__enter__()
        names = [landing_fragment(STREAM), *(f.id for f in self.fragments)]
        keys = [LeaseKey(fragment=name, producer=self.producer) for name in names]
        self.leases.take((key, FIRST_EPOCH) for key in keys)
        return self

    def __exit__(self, *error: Any) -> None:
        self.leases.__exit__(None, None, None)

    def driver(
        self, fragments: Sequence[Fragment], limits: Limits, meter: Meter = NO_METER
    ) -> Driver:
        """A driver of these fragments (none: it only closes what has landed)."""
        return Driver(
            catalog=self.catalog,
            assigned_plan=AssignedPlan(
                plan=self.plan, checked=self.checked, fragments=tuple(fragments)
            ),
            closer=BucketCloser(self.catalog, self.root),
            leases=self.leases,
            engine=self._engine,
            limits=limits,
            meter=meter,
        )

    def land(self, workload: Workload, windows: Sequence[int], origin_us: int) -> None:
        """Land windows, each as a batch of its own, and promise that no more comes before them."""
        lease_key = LeaseKey(fragment=landing_fragment(STREAM), producer=self.producer)
        for window in windows:
            records = window_records(workload, window)
            columns = self.checked.columns[Port(STREAM)]
            batch = landed_batch(
                self.root, STREAM, "bench", window, records, columns, self._width_us
            )
            self.catalog.land(self.leases.lease(lease_key), batch)
        self.catalog.promise(
            self.leases.lease(lease_key),
            STREAM,
            origin_us=origin_us,
            boundary_us=start_us(windows[-1] + 1),
            end_us=None,
        )

    def close_windows(self, limits: Limits = ONE_WINDOW) -> None:
        """Make segments of what has landed, a window in each."""
        driver = self.driver((), limits)
        while driver.tick():
            pass


class Product:
    """The product in a home of its own."""

    def __init__(self, session: SparkSession, folder: Path, workload: Workload) -> None:
        from pipelines.spark.step import StepEngine

        self._workload = workload
        self._stack = ExitStack()
        settings = Settings(catalog_url=None, directory=folder / "home", test_data=folder)
        home = self._stack.enter_context(make_home(settings, PARTICIPANT, keep=False))
        self.root = home.storage
        checked = check_network(workload.network)
        engine = StepEngine(session, home.storage, checked)
        site = Site(home.catalog, home.storage, checked, lambda: engine)
        self.site = self._stack.enter_context(site)
        self._driver = site.driver(site.fragments, ONE_WINDOW)

    def prepare(self, files: Sequence[Path]) -> Sequence[Path]:
        """Make, land and close all windows; their files are what the others read."""
        assert not files, "Medusa lands the records itself"
        self.site.land(self._workload, range(self._workload.windows), start_us(0))
        self.site.close_windows()
        segments = self.site.catalog.segments(STREAM)
        assert len(segments) == self._workload.windows
        return [self.root / file.path for segment in segments for file in segment.files]

    def step(self, window: int) -> Milliseconds:
        """One tick: exactly this window is computed and committed."""
        spent = self.site.catalog.spent_ms
        spent.clear()
        start = time.perf_counter()
        (applied,) = self._driver.tick()
        total_ms = (time.perf_counter() - start) * 1000
        assert isinstance(applied.decision, ComputeStep)
        assert applied.decision.range.from_us == start_us(window)
        phases = applied.commit.metrics.phases_ms
        return {
            "total": total_ms,
            "knowledge": spent["read_knowledge"],
            **phases,
            "commit": spent["commit"],
            "rest": total_ms - sum(spent.values()) - sum(phases.values()),
        }

    def finish(self) -> Mapping[str, Sequence[Path]]:
        """The files of the live segments of each output."""
        return {
            output.name: [
                self.root / file.path
                for segment in self.site.catalog.segments(StreamName(output.name))
                for file in segment.files
            ]
            for output in self._workload.network.outputs
        }

    def close(self) -> None:
        """Give the leases back, stop the server, remove the home."""
        self._stack.close()
