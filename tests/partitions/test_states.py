"""The states of a partition that moves are recorded by whoever has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from medusa_core.knowledge import Limits
from medusa_core.plans import Plan
from medusa_core.segments import Stability
from medusa_core.states import State
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.language.check import CheckedNetwork
from pipelines.participant.assigned_plans import AssignedPlan
from pipelines.participant.driver import Driver
from tests.catalog import building as a

NETWORK = a.a_network()
PLAN = Plan(
    network=NETWORK,
    widths_us=dict.fromkeys((a.SRC, a.SUMS, a.BIG), a.WIDTH_US),
    function_sources={},
    engine={"engine": "none"},
)


@dataclass
class Workers:
    """Drivers of one home in memory; the one that is named by `has` has the fragment."""

    has: str = "one"
    drivers: dict[str, Driver] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.catalog = MemoryCatalog(a.ALPHA, ManualClock(1_000_000))
        names = (a.LANDING, a.MAIN, a.TAIL)
        self.catalog.deploy(
            a.a_deployment(
                plan=PLAN.id,
                plan_document=PLAN.document,
                assignments=tuple(a.an_assignment(name, plan=PLAN.id) for name in names),
            )
        )
        self.catalog.acquire_leases(((a.a_key(), a.FIRST),), "me", a.HOUR_MS)
        for name in ("one", "two"):
            self.drivers[name] = self._driver(name)

    def _driver(self, name: str) -> Driver:
        def engine() -> None:
            raise AssertionError("nothing is computed here")

        return Driver(
            catalog=self.catalog,
            assigned_plan=AssignedPlan(
                plan=PLAN,
                checked=CheckedNetwork(network=NETWORK, columns={}, boxes={}),
                fragments=tuple(a.some_fragments().values()),
            ),
            closer=engine,  # type: ignore[arg-type]
            leases=LeaseRenewer(self.catalog, name),
            engine=engine,  # type: ignore[arg-type]
            limits=Limits(),
            is_here=lambda fragment: fragment == a.MAIN and self.has == name,
        )

    def look(self, has: str) -> State:
        """Both decide while one has the fragment; the state that is recorded then."""
        self.has = has
        for driver in self.drivers.values():
            driver.decide()
        known = [t.state for t in self.catalog.states() if t.fragment == a.MAIN]
        return known[0] if known else State.STABLE

    def write(self, stability: Stability) -> None:
        missing = (a.SRC,) if stability is Stability.TENTATIVE else ()
        lineage = () if missing else (a.a_read(),)
        segment = a.a_segment(0, 1, stability, missing=missing)
        commit = a.a_commit(segment, lineage=lineage, plan=PLAN.id)
        self.catalog.commit(commit)


def test_a_partition_that_comes_back_is_recorded_as_stable_again() -> None:
    workers = Workers()
    assert workers.look("one") is State.STABLE
    workers.write(Stability.TENTATIVE)
    assert workers.look("two") is State.UP_FAILURE
    workers.write(Stability.STABLE)
    assert workers.look("one") is State.STABLE
