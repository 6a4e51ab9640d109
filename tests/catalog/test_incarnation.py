"""A home that was set back to an old backup is noticed by its readers, however far it has come.

The partner's home is really set back: in Postgres to a copy of its database, in memory to a copy of
its tables. Its reader keeps what it has read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest
from sqlalchemy import Engine, text

from medusa_core.errors import Diverged, Refused
from medusa_core.exchange import ImportStatus, LineNews, import_fragment
from medusa_core.grid import FOREVER_US
from medusa_core.names import Participant, Version
from medusa_core.segments import Producer, Stability
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock, Store
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest, MemoryHome, watcher_of, wipe

BETA = Participant("beta")
THEIRS = Producer(BETA)
IMPORT = import_fragment(a.SUMS)
DATABASE, BACKUP = "medusa_set_back", "medusa_set_back_backup"


class Partner(Protocol):
    """The home of beta, who computes `sums`."""

    catalog: Catalog

    def back_up(self) -> None:
        """Take a copy of all that the home knows."""

    def set_back(self) -> None:
        """Bring the copy back."""


class MemoryPartner:
    """In memory."""

    def __init__(self) -> None:
        clock = ManualClock(1_000)
        self.store = Store(clock)
        self.catalog: Catalog = MemoryCatalog(BETA, clock, self.store)

    def back_up(self) -> None:
        self.copy = self.store.committed

    def set_back(self) -> None:
        self.store.committed = self.copy


class PostgresPartner:
    """In a database that is copied whole, as a backup does."""

    def __init__(self, admin: Engine, job_url: str) -> None:
        self.admin = admin
        self.job_url = job_url
        self.catalog: Catalog = PostgresCatalog(job_url, BETA)

    def back_up(self) -> None:
        self._copy(DATABASE, BACKUP)

    def set_back(self) -> None:
        self._copy(BACKUP, DATABASE)

    def _copy(self, source: str, target: str) -> None:
        self.catalog.close()
        with self.admin.connect() as connection:
            for statement in (
                f"DROP DATABASE IF EXISTS {target} WITH (FORCE)",
                f"CREATE DATABASE {target} TEMPLATE {source}",
            ):
                connection.execute(text(statement))
        self.catalog = PostgresCatalog(self.job_url, BETA)


@pytest.fixture(scope="module")
def partner_urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    admin_url = postgres_server.superuser_url()
    yield create_home(admin_url, BETA, DATABASE)
    for database in (BACKUP, DATABASE):
        drop_home(admin_url, database)


@pytest.fixture
def partner(home: HomeUnderTest, request: pytest.FixtureRequest) -> Iterator[Partner]:
    """In memory beside a home in memory, in Postgres beside one in Postgres."""
    if isinstance(home, MemoryHome):
        in_memory = MemoryPartner()
        deploy_and_lease(in_memory.catalog)
        yield in_memory
        return
    server: EmbeddedServer = request.getfixturevalue("postgres_server")
    urls: HomeUrls = request.getfixturevalue("partner_urls")
    with watcher_of(server.superuser_url(DATABASE)) as watcher:
        wipe(watcher, BETA)
    with watcher_of(server.superuser_url()) as admin:
        found = PostgresPartner(admin, urls.job)
        deploy_and_lease(found.catalog)
        yield found
        found.catalog.close()


def deploy_and_lease(catalog: Catalog) -> None:
    mine = [a.an_assignment(name, producer=THEIRS) for name in (a.LANDING, a.MAIN)]
    catalog.deploy(a.a_deployment(assignments=tuple(mine)))
    catalog.acquire_lease(a.a_key(producer=THEIRS), a.FIRST, "them", a.HOUR_MS)


@pytest.fixture
def reader(home: HomeUnderTest) -> Catalog:
    """A home of alpha that reads `sums` of beta, in memory and in Postgres."""
    fragments = {**a.a_deployment().fragments, IMPORT: ((), ())}
    assigned = (
        a.an_assignment(a.MAIN, producer=THEIRS),
        a.an_assignment(a.TAIL),
        a.an_assignment(IMPORT),
    )
    home.catalog.deploy(a.a_deployment(fragments=fragments, assignments=assigned))
    home.catalog.acquire_lease(a.a_key(IMPORT), a.FIRST, "me", a.HOUR_MS)
    return home.catalog


def write(partner: Partner, *segments: a.OutputSegment) -> None:
    lease = a.Lease(key=a.a_key(producer=THEIRS), epoch=a.FIRST, holder="them", expires_at_ms=0)
    partner.catalog.commit(a.a_commit(*segments, lease=lease))


def status(reader: Catalog) -> ImportStatus:
    (found,) = reader.imports()
    return found


def news(partner: Partner, reader: Catalog, segments_max: int = 1_000) -> LineNews:
    """What an import asks for."""
    after = status(reader).version
    told = partner.catalog.line_news(a.SUMS, THEIRS, after, segments_max=segments_max)
    status(reader).check_goes_on(told)
    return told


def bring(reader: Catalog, told: LineNews) -> None:
    reader.import_line(a.a_lease(IMPORT), told, a.PLAN)


def read(partner: Partner, reader: Catalog, segments_max: int = 1_000) -> None:
    bring(reader, news(partner, reader, segments_max))


def test_a_home_that_continues_from_an_old_backup_is_detected(
    partner: Partner, reader: Catalog
) -> None:
    write(partner, a.a_segment(0, 1, rows={0: 1}))
    partner.back_up()
    write(partner, a.a_segment(1, 2, rows={1: 5}))
    read(partner, reader)
    before = reader.segments(a.SUMS)
    partner.set_back()
    write(partner, a.a_segment(1, 2, rows={1: 6}))
    with pytest.raises(Diverged, match="restored from a backup"):
        news(partner, reader)
    write(partner, a.a_segment(2, 3, rows={2: 1}))
    told = partner.catalog.line_news(a.SUMS, THEIRS, Version(2), segments_max=9)
    with pytest.raises(Diverged):
        bring(reader, told)
    assert (reader.segments(a.SUMS), status(reader).version) == (before, 2)


def test_a_home_that_cut_its_steps_otherwise_is_another(partner: Partner, reader: Catalog) -> None:
    partner.back_up()
    write(partner, a.a_segment(0, 1, rows={0: 1}))
    write(partner, a.a_segment(1, 2, rows={1: 1}))
    write(partner, a.a_segment(2, 3, rows={2: 1}))
    read(partner, reader)
    partner.set_back()
    write(partner, a.a_segment(0, 2, rows={0: 1, 1: 1}))
    with pytest.raises(Diverged, match="is at 1"):
        news(partner, reader)
    write(partner, a.a_segment(2, 3, rows={2: 1}))
    write(partner, a.a_segment(3, 4, rows={3: 1}))
    with pytest.raises(Diverged, match="not the one that was read up to 3"):
        news(partner, reader)


def test_a_home_that_did_the_very_same_again_is_the_same(partner: Partner, reader: Catalog) -> None:
    partner.back_up()
    same = {"rows": {0: 3}}
    write(partner, a.a_segment(0, 1, **same))
    read(partner, reader)
    partner.set_back()
    write(partner, a.a_segment(0, 1, **same))
    write(partner, a.a_segment(1, 2, rows={1: 1}))
    read(partner, reader)
    assert [s.version for s in reader.segments(a.SUMS)] == [1, 2]


def test_a_reader_that_was_not_ahead_notices_nothing_and_misses_nothing(
    partner: Partner, reader: Catalog
) -> None:
    write(partner, a.a_segment(0, 1, rows={0: 1}))
    read(partner, reader)
    partner.back_up()
    write(partner, a.a_segment(1, 2, rows={1: 5}))
    partner.set_back()
    write(partner, a.a_segment(1, 2, rows={1: 6}))
    read(partner, reader)
    assert reader.segments(a.SUMS) == partner.catalog.segments(a.SUMS)


def test_neither_trim_nor_compaction_nor_pages_make_a_line_another(
    partner: Partner, reader: Catalog
) -> None:
    tentative = Stability.TENTATIVE
    for at in range(4):
        write(partner, a.a_segment(at, at + 1, tentative if at == 3 else Stability.STABLE,
                                   rows={at: 1}))  # fmt: skip
    read(partner, reader, segments_max=1)
    read(partner, reader, segments_max=1)
    told = status(reader).chain
    assert told is not None
    partner.catalog.compact(a.SUMS, THEIRS, partner.catalog.segments(a.SUMS)[:2], a.a_file(2))
    assert news(partner, reader).chain_after == told
    partner.catalog.trim(a.SUMS, THEIRS, 3 * a.WIDTH_US, needed={}, segments_max=9)
    write(partner, a.a_segment(3, 5, rows={3: 2}))
    while status(reader).version < 5:
        read(partner, reader, segments_max=1)
    assert status(reader).boundary_us == 5 * a.WIDTH_US


def test_a_home_that_sends_no_chain_is_read_without_one(partner: Partner, reader: Catalog) -> None:
    for chain in (None, "ab" * 32, None):
        after = status(reader).version
        told = LineNews(stream=a.SUMS, producer=THEIRS, after=after, version=Version(after + 1),
                        origin_us=0, end_us=None, chain=chain)  # fmt: skip
        status(reader).check_goes_on(told)
        bring(reader, told)
        assert status(reader).chain == chain


@pytest.mark.parametrize("chain", ["", "ab", "AB" * 32, "x" * 64, "ab" * 32 + "\n"])
def test_a_chain_is_64_hexadecimal_digits(chain: str) -> None:
    with pytest.raises(Refused, match="chain"):
        LineNews(stream=a.SUMS, producer=THEIRS, after=Version(0), version=Version(1), origin_us=0,
                 end_us=FOREVER_US, chain=chain)  # fmt: skip
