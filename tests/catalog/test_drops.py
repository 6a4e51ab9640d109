"""What was dropped, in both catalogs: declared, committed, read again, and no cost of a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import Cause, StepMetrics
from medusa_core.drops.utility import Qos, UtilityGraph, loss_graph
from medusa_core.errors import Refused
from medusa_core.names import StreamName
from medusa_core.segments import Stability
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest
from tests.catalog.test_knowledge import close, fragment, known

QOS = Qos(
    delay=UtilityGraph(((0, 1), (10_000, 1), (20_000, 0.25))), loss=loss_graph(((0, 1), (1, 0)))
)


def drop(catalog: Catalog, from_bucket: int, to_bucket: int, rate: float = 1.0,
         stability: Stability = Stability.TENTATIVE) -> None:  # fmt: skip
    read = replace(a.a_read(part=a.buckets(from_bucket, to_bucket)), drop_rate=rate)
    commit = a.a_commit(a.a_segment(from_bucket, to_bucket, stability), lineage=(read,))
    catalog.commit(replace(commit, cause=Cause.TENTATIVE))


@pytest.fixture
def catalog(home: HomeUnderTest) -> Catalog:
    """With four closed buckets of a source, and leases."""
    home.catalog.deploy(a.a_deployment())
    for name in (a.LANDING, a.MAIN, a.TAIL):
        home.catalog.acquire_lease(a.a_key(name), a.FIRST, "me", a.HOUR_MS)
    close(home.catalog, 0, 4, {0: 3, 1: 3, 2: 3, 3: 3})
    return home.catalog


def test_a_qos_is_declared_changed_and_withdrawn(catalog: Catalog) -> None:
    catalog.declare_qos(a.SUMS, QOS)
    assert catalog.qos() == {a.SUMS: QOS}
    assert fragment(known(catalog)).outputs[a.SUMS].qos == QOS
    catalog.declare_qos(a.SUMS, None)
    assert catalog.qos() == {}
    assert fragment(known(catalog)).outputs[a.SUMS].qos is None


def test_a_stream_that_is_not_deployed_has_no_qos(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="deploy its network first"):
        catalog.declare_qos(StreamName("nowhere"), QOS)


def test_a_reader_in_the_home_knows_what_was_dropped_and_at_which_rate(catalog: Catalog) -> None:
    drop(catalog, 0, 1)
    drop(catalog, 1, 2, rate=0.25)
    read = fragment(known(catalog), a.TAIL).inputs[a.SUMS].segments
    assert [segment.drop_rate for segment in read] == [1.0, 0.25]


def test_what_was_dropped_is_owed_with_its_rate(catalog: Catalog) -> None:
    drop(catalog, 0, 2)
    (tentative,) = fragment(known(catalog)).tentative
    assert [read.drop_rate for read in tentative.reads] == [1.0]


def test_what_is_to_be_corrected_is_counted_by_line_and_rate(catalog: Catalog) -> None:
    assert catalog.dropped() == ()
    drop(catalog, 0, 2)
    drop(catalog, 2, 3, rate=0.25)
    (found,) = catalog.dropped()
    assert (found.stream, found.producer, found.range) == (a.SUMS, a.ME, a.buckets(0, 3))
    assert (found.buckets, found.dropped) == (3, 2.25)


def test_a_gap_has_the_rate_of_its_drop(catalog: Catalog) -> None:
    drop(catalog, 0, 1, stability=Stability.GAP)
    (segment,) = fragment(known(catalog), a.TAIL).inputs[a.SUMS].segments
    assert (segment.stability, segment.drop_rate) == (Stability.GAP, 1.0)


def test_buckets_that_were_dropped_say_nothing_about_the_cost_of_steps(catalog: Catalog) -> None:
    commit = a.a_commit(a.a_segment(0, 1, rows={0: 3}))
    metrics = StepMetrics(records_in=3, phases_ms={"spark": 400.0})
    catalog.commit(replace(commit, metrics=metrics))
    before = catalog.step_costs()[a.MAIN]
    drop(catalog, 1, 4)
    assert catalog.step_costs()[a.MAIN] == before
