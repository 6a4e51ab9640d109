"""Certificates and the history of a line in the catalog."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest

from medusa_core.certificates import Certificate, LineEvent, Suite
from medusa_core.errors import Refused
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer, Stability
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a
from tests.catalog.conftest import catalog as catalog
from tests.catalog.conftest import home_urls as home_urls
from tests.catalog.conftest import postgres_home as postgres_home
from tests.catalog.conftest import suite_catalog as suite_catalog
from tests.catalog.conftest import watcher as watcher
from tests.catalog.homes_under_test import HomeUnderTest, PostgresHome


@pytest.fixture
def home(postgres_home: PostgresHome) -> HomeUnderTest:
    return postgres_home


def a_certificate(**given: Any) -> Certificate:
    fields = {
        "stream": a.SUMS,
        "producer": a.ME,
        "version": Version(3),
        "suite": Suite.CONVERGED,
        "range": a.buckets(0, 4),
        "passed": True,
        "figures": {"final_rows": 7, "failed_in_box": {"split": 2}, "bound_ms": None},
        "engines": {"sums": "DuckDB"},
        "quarantined": 2,
    }
    return Certificate(**{**fields, **given})


@pytest.mark.long
def test_a_certificate_is_read_as_it_was_written_the_newest_first(catalog: Catalog) -> None:
    first = catalog.record_certificate(a_certificate())
    failed = a_certificate(suite=Suite.AVAILABILITY, passed=False, engines={}, quarantined=0)
    second = catalog.record_certificate(failed)
    other = catalog.record_certificate(a_certificate(stream=a.BIG))
    assert first < second < other
    found = catalog.certificates(a.SUMS)
    assert [(c.number, c.law, c.passed) for c in found] == [(second, "S6", False),
                                                            (first, "L2", True)]  # fmt: skip
    assert found[1].certified_at_ms is not None
    assert found[1].figures == a_certificate().figures
    assert found[1].engines == {"sums": "DuckDB"}
    assert [c.number for c in catalog.certificates(limit=1)] == [other]


def test_a_certificate_of_no_line_is_refused(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="no line"):
        catalog.record_certificate(a_certificate(producer=Producer(a.ALPHA, 7)))


def test_a_certificate_is_never_changed(watcher: Any, home_urls: Any) -> None:
    url = home_urls.owner.replace("+psycopg2", "")
    connection = psycopg2.connect(url)
    try:
        for statement in (
            "UPDATE medusa.certificate SET passed = true",
            "DELETE FROM medusa.certificate",
            "TRUNCATE medusa.certificate",
        ):
            with pytest.raises(psycopg2.Error, match="insert-only"), connection.cursor() as cursor:
                cursor.execute(statement)
            connection.rollback()
    finally:
        connection.close()


def test_the_history_of_a_line_tells_what_was_replaced_and_when_inputs_had_come(
    catalog: Catalog,
) -> None:
    source = a.a_segment(0, 4, stream=a.SRC, rows={0: 2, 2: 1})
    landing = a.a_lease(a.LANDING)
    landed = catalog.commit(a.a_commit(source, lease=landing))
    read = (a.a_read(part=a.buckets(0, 4)),)
    early = a.a_segment(2, 4, Stability.TENTATIVE, rows={2: 1}, missing=(StreamName("other"),))
    first = catalog.commit(a.a_commit(a.a_segment(0, 2, rows={0: 2}), early, lineage=read))
    late = catalog.commit(a.a_commit(a.a_segment(2, 4, rows={2: 3}), lineage=read))
    events = catalog.history(a.SUMS, a.ME, a.buckets(0, 4))
    assert [told(event) for event in events] == [
        (a.buckets(0, 2), "stable", 1, None, first.committed_at_ms, 2),
        (a.buckets(2, 4), "tentative", 1, 2, first.committed_at_ms, 1),
        (a.buckets(2, 4), "stable", 2, None, late.committed_at_ms, 3),
    ]
    assert [e.inputs_at_ms for e in events] == [landed.committed_at_ms] * 3
    assert events[1].missing == ("other",)
    assert catalog.history(a.SUMS, a.ME, a.buckets(0, 1)) == events[:1]
    (of_source,) = catalog.history(a.SRC, a.ME, a.buckets(0, 4))
    assert of_source.inputs_at_ms is None


def test_what_was_there_of_an_input_that_is_missing_does_not_count_as_its_coming(
    catalog: Catalog, home: HomeUnderTest
) -> None:
    source = catalog.commit(
        a.a_commit(a.a_segment(0, 1, stream=a.SRC, rows={0: 2}), lease=a.a_lease(a.LANDING))
    )
    home.let_time_pass(source.committed_at_ms)
    other = catalog.commit(
        a.a_commit(a.a_segment(0, 2, rows={0: 2}), lineage=(a.a_read(part=a.buckets(0, 1)),))
    )
    # A window over two buckets: of `src` there is the first only, of `sums` there are both.
    reads = (
        a.a_read(a.BIG, a.SRC, a.buckets(0, 1)),
        a.a_read(a.BIG, a.SUMS, a.buckets(0, 2)),
    )
    late = a.a_segment(1, 2, Stability.TENTATIVE, stream=a.BIG, rows={1: 1}, missing=(a.SRC,))
    catalog.commit(a.a_commit(late, lease=a.a_lease(a.TAIL), lineage=reads))
    (event,) = catalog.history(a.BIG, a.ME, a.buckets(0, 2))
    assert source.committed_at_ms < other.committed_at_ms
    assert event.inputs_at_ms == other.committed_at_ms


def told(event: LineEvent) -> tuple[object, ...]:
    return (event.range, event.stability.value, event.begin_version, event.end_version,
            event.committed_at_ms, event.rows)  # fmt: skip


def test_no_bound_is_declared_by_default(catalog: Catalog) -> None:
    assert catalog.bounds() == {}
