"""The backlog lane corrects partitions as well, whichever workers share them in the live lane."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from bench.drops.modelled import SOLO, ModelledHome
from medusa_core.commits import Lane, LeaseKey
from medusa_core.errors import MedusaError
from medusa_core.segments import Producer
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.assembly import wait_for_leases
from pipelines.participant.assigned_plans import shared_fragments
from pipelines.participant.home_session import HomeSession
from pipelines.participant.loop import LoopObserver
from tests.partitions.shop import partitioned

LEASE_MS = 2_000


class _Errors:
    def error(self, error: MedusaError) -> None:
        raise error


def leases_of(home: ModelledHome, lane: Lane) -> LeaseRenewer:
    """What a process without `--worker` has before its first step."""
    session = SimpleNamespace(home=SimpleNamespace(catalog=home.catalog, participant=SOLO))
    leases = LeaseRenewer(home.catalog, "driver", lease_ms=LEASE_MS, lane=lane)
    wait_for_leases(
        cast(HomeSession, session), leases, LEASE_MS, cast(LoopObserver, _Errors()),
    )  # fmt: skip
    return leases


def test_the_backlog_lane_has_the_leases_of_partitions_from_its_beginning() -> None:
    home = ModelledHome(network=partitioned(), width_us=10_000_000, qos={}, records=lambda at_us: 1)
    partitions = shared_fragments(home.catalog)
    assert partitions
    for lane in Lane:
        leases = leases_of(home, lane)
        keys = [LeaseKey(fragment=f, producer=Producer(SOLO), lane=lane) for f in partitions]
        assert {leases.holds(key) for key in keys} == {lane is Lane.BACKLOG}
