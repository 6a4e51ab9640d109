"""A home keeps a partner's line row by row and version by version, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.errors import Conflict, Diverged, Refused
from medusa_core.exchange import LineNews, import_fragment
from medusa_core.grid import FOREVER_US
from medusa_core.knowledge import Limits
from medusa_core.names import Participant, Version
from medusa_core.segments import Producer, Segment, Stability
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import Deployment
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest

BETA = Participant("beta")
THEIRS = Producer(BETA)
IMPORT = import_fragment(a.SUMS)
ALL = 1_000


@pytest.fixture
def partner() -> Catalog:
    """The home of beta, who computes `sums`."""
    catalog = MemoryCatalog(BETA, ManualClock(1_000))
    mine = [a.an_assignment(name, producer=THEIRS) for name in (a.LANDING, a.MAIN)]
    catalog.deploy(a.a_deployment(assignments=tuple(mine)))
    catalog.acquire_lease(a.a_key(producer=THEIRS), a.FIRST, "them", a.HOUR_MS)
    return catalog


@pytest.fixture
def reader(home: HomeUnderTest) -> Catalog:
    """A home of alpha that reads `sums` of beta, in memory and in Postgres."""
    deployment = a.a_deployment()
    home.catalog.deploy(
        Deployment(
            network=deployment.network,
            document="{}",
            plan=a.PLAN,
            plan_document="{}",
            streams=deployment.streams,
            fragments={**deployment.fragments, IMPORT: ((), ())},
            assignments=(
                a.an_assignment(a.MAIN, producer=THEIRS),
                a.an_assignment(a.TAIL),
                a.an_assignment(IMPORT),
            ),
        )
    )
    home.catalog.acquire_lease(a.a_key(IMPORT), a.FIRST, "me", a.HOUR_MS)
    return home.catalog


def lease_of_partner() -> a.Lease:
    return a.Lease(key=a.a_key(producer=THEIRS), epoch=a.FIRST, holder="them", expires_at_ms=0)


def write(partner: Catalog, *segments: a.OutputSegment, ends: bool = False) -> None:
    partner.commit(a.a_commit(*segments, lease=lease_of_partner(), ends=ends))


def news(partner: Catalog, after: int = 0, segments_max: int = ALL) -> LineNews:
    return partner.line_news(a.SUMS, THEIRS, Version(after), segments_max=segments_max)


def bring(reader: Catalog, told: LineNews) -> bool:
    return reader.import_line(a.a_lease(IMPORT), told, a.PLAN)


def as_known(catalog: Catalog, as_of: int | None = None) -> object:
    return catalog.segments(a.SUMS, as_of=None if as_of is None else Version(as_of))


def test_a_copy_of_a_line_is_the_line_at_every_version(partner: Catalog, reader: Catalog) -> None:
    tentative, stable = Stability.TENTATIVE, Stability.STABLE
    write(partner, a.a_segment(0, 2, stable, rows={0: 3}))
    write(partner, a.a_segment(2, 6, tentative, rows={2: 1, 5: 2}, missing=(a.SRC,)))
    assert bring(reader, news(partner))
    write(partner, a.a_segment(3, 4, stable, rows={3: 7}))
    write(partner, a.a_segment(6, 8, stable), ends=True)
    assert bring(reader, news(partner, after=2))
    assert as_known(reader) == as_known(partner)
    for version in (1, 2, 4):
        assert as_known(reader, as_of=version) == as_known(partner, as_of=version)
    (status,) = [s for s in reader.streams() if s.stream.name == a.SUMS and s.producer == THEIRS]
    assert (status.version, status.boundary_us) == (4, FOREVER_US)
    assert status.end_us == 8 * a.WIDTH_US


def test_news_in_pages_give_the_same_copy_as_news_at_once(
    partner: Catalog, reader: Catalog
) -> None:
    for at in range(7):
        stability = Stability.TENTATIVE if at % 3 else Stability.STABLE
        write(partner, a.a_segment(at, at + 1, stability, rows={at: at + 1}))
    write(partner, a.a_segment(1, 3, rows={2: 5}))
    pages = 0
    while bring(reader, news(partner, after=pages_end(reader), segments_max=2)):
        pages += 1
    assert pages > 2
    assert as_known(reader) == as_known(partner)


@pytest.mark.parametrize("segments_max", [1, 2, ALL])
def test_news_after_a_version_hold_what_changed_after_it_and_nothing_else(
    catalog: Catalog, segments_max: int
) -> None:
    for at in range(4):
        tentative = a.a_segment(2 * at, 2 * at + 2, Stability.TENTATIVE, rows={2 * at: 1})
        catalog.commit(a.a_commit(tentative))
    catalog.commit(a.a_commit(a.a_segment(1, 5, rows={1: 4, 3: 2})))
    catalog.commit(a.a_commit(a.a_segment(8, 9, rows={8: 1})))
    last = catalog.line_news(a.SUMS, a.ME, Version(0), segments_max=ALL).version
    assert last == 6
    for after in range(last + 1):
        told = catalog.line_news(a.SUMS, a.ME, Version(after), segments_max=segments_max)
        assert min(after + 1, last) <= told.version <= last
        begun = [row for row in told.segments if row.end_version is None]
        ended = [row for row in told.segments if row.end_version is not None]
        assert all(after < row.begin_version <= told.version for row in begun)
        assert all(
            row.begin_version <= after < (row.end_version or 0) <= told.version for row in ended
        )
        before, then = rows_as_of(catalog, after), rows_as_of(catalog, told.version)
        assert {a_row(row.segment) for row in ended} == before - then
        assert {a_row(row.segment) for row in begun} == then - before
        assert len(told.segments) == len(before ^ then), "each is told once"
        assert bool(told.plans) == bool(begun)


def a_row(segment: Segment) -> tuple[object, ...]:
    return segment.range, segment.version, segment.stability


def rows_as_of(catalog: Catalog, version: int) -> set[tuple[object, ...]]:
    found = catalog.segments(a.SUMS, as_of=Version(version)) if version else ()
    return {a_row(segment) for segment in found}


def pages_end(reader: Catalog) -> int:
    return next(s.version for s in reader.streams() if s.producer == THEIRS)


def test_the_same_news_is_brought_once(partner: Catalog, reader: Catalog) -> None:
    write(partner, a.a_segment(0, 1, rows={0: 1}))
    told = news(partner)
    assert bring(reader, told)
    assert not bring(reader, told)
    assert as_known(reader) == as_known(partner)


def test_news_that_do_not_begin_at_the_copys_version_are_refused(
    partner: Catalog, reader: Catalog
) -> None:
    write(partner, a.a_segment(0, 1, rows={0: 1}))
    write(partner, a.a_segment(1, 2, rows={1: 1}))
    with pytest.raises(Conflict):
        bring(reader, news(partner, after=1))
    assert as_known(reader) == ()


def test_a_fragment_reads_a_copy_as_it_would_read_its_own(
    partner: Catalog, reader: Catalog
) -> None:
    write(partner, a.a_segment(0, 2, rows={0: 3}))
    bring(reader, news(partner))
    knowledge = reader.read_knowledge(a.some_fragments(), Limits())
    (tail,) = knowledge.fragments
    assert tail.inputs[a.SUMS].boundary_us == 2 * a.WIDTH_US
    assert tail.inputs[a.SUMS].segments == as_known(partner)


def test_an_import_requires_its_lease(partner: Catalog, reader: Catalog) -> None:
    write(partner, a.a_segment(0, 1, rows={0: 1}))
    reader.acquire_lease(a.a_key(a.TAIL), a.FIRST, "me", a.HOUR_MS)
    with pytest.raises(Refused):
        reader.import_line(a.a_lease(a.TAIL), news(partner), a.PLAN)
    with pytest.raises(Conflict):
        reader.import_line(a.a_lease(IMPORT, holder="another"), news(partner), a.PLAN)


def test_news_of_a_plan_with_another_document_is_refused(partner: Catalog, reader: Catalog) -> None:
    """By medusa.import_line."""
    write(partner, a.a_segment(0, 1, rows={0: 1}))
    told = news(partner)
    (plan,) = told.plans
    other = replace(plan, document='{"another": "document"}')
    with pytest.raises(Refused, match=f"plan {a.PLAN} exists here with another document"):
        bring(reader, replace(told, plans=(other,)))
    assert bring(reader, told)


def test_nobody_imports_a_line_of_its_own(home: HomeUnderTest) -> None:
    own = import_fragment(a.BIG)
    deployment = a.a_deployment()
    fragments = {**deployment.fragments, own: ((), ())}
    assigned = (*deployment.assignments, a.an_assignment(own))
    home.catalog.deploy(a.a_deployment(fragments=fragments, assignments=assigned))
    home.catalog.acquire_lease(a.a_key(own), a.FIRST, "me", a.HOUR_MS)
    told = LineNews(
        stream=a.BIG, producer=a.ME, after=Version(0), version=Version(0), origin_us=0, end_us=None
    )
    with pytest.raises(Refused):
        home.catalog.import_line(a.a_lease(own), told, a.PLAN)


def test_a_home_that_was_set_back_is_noticed(partner: Catalog, home: HomeUnderTest) -> None:
    write(partner, a.a_segment(0, 1, rows={0: 1}))
    with pytest.raises(Diverged, match="is at 1"):
        news(partner, after=5)
    home.catalog.deploy(a.a_deployment())
    with pytest.raises(Diverged, match="is at 0"):
        home.catalog.line_news(a.SUMS, a.ME, Version(3), segments_max=ALL)


def test_a_reader_moves_its_hold_up_and_never_back(catalog: Catalog) -> None:
    catalog.commit(a.a_commit(a.a_segment(0, 4)))
    catalog.acknowledge(a.SUMS, BETA, 3 * a.WIDTH_US, limit_ms=1_000)
    catalog.acknowledge(a.SUMS, BETA, 2 * a.WIDTH_US, limit_ms=2_000)
    (hold,) = catalog.holds(a.SUMS)
    assert (hold.holder, hold.purpose) == ("beta", "import")
    assert (hold.from_us, hold.limit_ms) == (3 * a.WIDTH_US, 2_000)


@pytest.mark.parametrize(
    ("through_us", "limit_ms"),
    [(5 * a.WIDTH_US, 1_000), (FOREVER_US, 1_000), (0, 0), (0, -1), (0, 32 * 86_400_000)],
)
def test_a_reader_can_neither_give_up_what_is_not_there_nor_hold_for_ever(
    catalog: Catalog, through_us: int, limit_ms: int
) -> None:
    catalog.commit(a.a_commit(a.a_segment(0, 4)))
    with pytest.raises(Refused):
        catalog.acknowledge(a.SUMS, BETA, through_us, limit_ms=limit_ms)
    assert catalog.holds(a.SUMS) == ()


def test_the_state_of_a_source_is_that_of_its_last_batch(catalog: Catalog) -> None:
    assert catalog.landed_state(a.SRC, "query") is None
    for batch_id, state in ((0, '{"max": 1}'), (2, '{"max": 3}'), (1, '{"max": 2}')):
        batch = a.a_batch(batch_id, {batch_id: 1})
        catalog.land(a.a_lease(a.LANDING), a.with_state(batch, state))
    assert catalog.landed_state(a.SRC, "query") == (2, '{"max": 3}')


def test_a_source_is_declared_once_and_again(catalog: Catalog) -> None:
    catalog.declare_source(a.SRC, '{"kind": "replay"}')
    catalog.declare_source(a.SRC, '{"kind": "directory"}')
    assert catalog.sources() == {a.SRC: '{"kind": "directory"}'}
    with pytest.raises(Refused):
        catalog.declare_source(a.SUMS, "{}")
