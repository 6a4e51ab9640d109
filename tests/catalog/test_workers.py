"""Workers are there for a while, and one decision about placements at a time is made."""

from __future__ import annotations

import pytest

from medusa_core.decisions import DecisionReason
from medusa_core.errors import Conflict
from medusa_core.partitions.placing import PlacePartition
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a


def reports(catalog: Catalog, name: str, holder: str, ttl_ms: int = a.HOUR_MS) -> None:
    catalog.report_worker(name, holder, busy=0.25, pace=1.5, ttl_ms=ttl_ms)


def placing(worker: str, reason: str = "it has no worker yet") -> PlacePartition:
    because = DecisionReason(reason, {"load": 0.5})
    return PlacePartition(fragment=a.MAIN, from_worker=None, to_worker=worker, because=because)


def test_a_worker_is_there_until_its_time_has_passed_or_it_ends(catalog: Catalog) -> None:
    reports(catalog, "one", "p1")
    reports(catalog, "two", "p2", ttl_ms=0)
    one, two = catalog.workers()
    assert (one.name, one.holder, one.is_alive, one.busy, one.pace) == (
        "one",
        "p1",
        True,
        0.25,
        1.5,
    )
    assert not two.is_alive
    catalog.end_worker("one", "another process")
    assert catalog.workers()[0].is_alive
    catalog.end_worker("one", "p1")
    assert not catalog.workers()[0].is_alive


def test_a_name_is_that_of_one_process_at_a_time(catalog: Catalog) -> None:
    reports(catalog, "one", "p1")
    with pytest.raises(Conflict, match="worker one runs already as p1"):
        reports(catalog, "one", "p2")
    reports(catalog, "one", "p1", ttl_ms=0)
    reports(catalog, "one", "p2")
    assert catalog.workers()[0].holder == "p2"


def test_a_decision_on_placements_that_have_changed_is_not_carried_out(catalog: Catalog) -> None:
    lease = a.a_lease()
    assert catalog.place([placing("one")], 0)
    assert not catalog.place([placing("two")], 0)
    (placed,) = catalog.placements()
    assert (placed.fragment, placed.worker, placed.number) == (a.MAIN, "one", 1)
    assert placed.because == "it has no worker yet (load 0.5)"
    assert placed.holder == lease.holder
    assert catalog.place([placing("two")], 1)
    assert catalog.placements()[0].worker == "two"
    catalog.release_lease(lease)
    assert catalog.placements()[0].holder is None
