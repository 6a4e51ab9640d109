"""Views in the catalog: they move on with the stream, and a trim never takes what they keep."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from sqlalchemy import Engine

from medusa_core.errors import Expired, MedusaError, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer, Stability, reading_order
from medusa_core.views import StreamView
from pipelines.catalog.interface import Catalog
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest, PostgresHome
from tests.sweeps import long_but
from tests.waiting import until

WIDTH = a.WIDTH_US


@pytest.fixture
def home(postgres_home: PostgresHome) -> HomeUnderTest:
    return postgres_home


def write(catalog: Catalog, begin: int, end: int, stability: Stability = Stability.STABLE,
          rows: int = 2) -> None:  # fmt: skip
    counts = dict.fromkeys(range(begin, end), rows)
    catalog.commit(a.a_commit(a.a_segment(begin, end, stability, rows=counts)))


def trim(catalog: Catalog, before: int, *, explain: bool = False) -> int | None:
    needed = dict.fromkeys((a.MAIN, a.TAIL), FOREVER_US)
    answer = catalog.trim(
        a.SUMS, a.ME, before * WIDTH, needed=needed, segments_max=100, explain=explain
    )
    return None if answer.trimmed_us is None else answer.trimmed_us // WIDTH


def make(catalog: Catalog, name: str = "recent", *, grows: bool = False,
         limit_ms: int = a.HOUR_MS, stream: StreamName = a.SUMS,
         **extent: int) -> None:  # fmt: skip
    view = StreamView(name=name, stream=stream, **extent)
    catalog.make_view(view, limit_ms=limit_ms, grows=grows)


def begins(catalog: Catalog, name: str = "recent") -> int | None:
    (view,) = (view for view in catalog.views() if view.name == name)
    return None if view.begins_us is None else view.begins_us // WIDTH


@pytest.mark.parametrize(
    ("extent", "at_first", "later"),
    long_but(
        3,
        [
            ({"records": 1}, 9, 11),
            ({"records": 5}, 7, 9),
            ({"records": 6}, 7, 9),
            ({"records": 1_000}, 0, 0),
            ({"duration_us": 3 * WIDTH}, 7, 9),
            ({"duration_us": 3 * WIDTH - 1}, 7, 9),
            ({"duration_us": 2**62}, 0, 0),
            ({"from_us": 4 * WIDTH}, 4, 4),
            ({"from_us": 4 * WIDTH + 1, "to_us": 6 * WIDTH}, 4, 4),
        ],
        quick=True,
    ),
)
def test_a_view_of_the_last_moves_on_with_the_stream_and_a_range_stays(
    catalog: Catalog, extent: dict[str, int], at_first: int, later: int
) -> None:
    write(catalog, 0, 4)
    write(catalog, 4, 10)
    make(catalog, **extent)
    assert begins(catalog) == at_first
    assert trim(catalog, 10, explain=True) == (at_first or None)
    assert trim(catalog, 10) == (at_first or None)
    write(catalog, 10, 12)
    assert begins(catalog) == later
    write(catalog, 12, 14, Stability.TENTATIVE)
    assert begins(catalog) == later, "only final records count"
    assert trim(catalog, 12) == (later or None)


def test_to_explain_a_trim_moves_no_view(catalog: Catalog) -> None:
    write(catalog, 0, 4)
    make(catalog, records=2)
    write(catalog, 4, 8)
    trim(catalog, 8, explain=True)
    assert [h.from_us // WIDTH for h in catalog.holds(a.SUMS) if h.purpose == "view"] == [3]


def test_a_view_that_would_begin_before_what_is_kept_is_refused_or_grows(catalog: Catalog) -> None:
    write(catalog, 0, 10)
    trim(catalog, 8)
    for extent in ({"records": 5}, {"duration_us": 3 * WIDTH}, {"from_us": 7 * WIDTH}):
        with pytest.raises(Expired, match=r"sums is trimmed before 19.*, and view recent would"):
            make(catalog, **extent)
    assert catalog.views() == ()
    assert [h for h in catalog.holds(a.SUMS) if h.purpose == "view"] == []
    make(catalog, grows=True, records=10)
    assert begins(catalog) == 8
    write(catalog, 10, 13)
    assert (trim(catalog, 13), begins(catalog)) == (8, 8)
    write(catalog, 13, 16)
    assert (trim(catalog, 16), begins(catalog)) == (11, 11)


def test_a_view_has_a_name_of_its_own_a_stream_and_one_extent(catalog: Catalog) -> None:
    write(catalog, 0, 2)
    make(catalog, records=1)
    with pytest.raises(Refused, match="there is a view recent"):
        make(catalog, records=1)
    with pytest.raises(Refused, match="nobody writes stream other here"):
        make(catalog, "second", stream=StreamName("other"), records=1)
    for name in ("", "Recent", "a/b", "a" * 64):
        with pytest.raises(Refused, match="a view is named by"):
            make(catalog, name, records=1)
    for extent in ({}, {"records": 0}, {"records": 1, "from_us": 0}, {"from_us": 2, "to_us": 2},
                   {"records": 1, "to_us": 2}):  # fmt: skip
        with pytest.raises(Refused, match="give one of them"):
            make(catalog, "second", **extent)
    for limit_ms in (0, 367 * 86_400_000):
        with pytest.raises(Refused, match="is kept for 1 ms to 366 days"):
            make(catalog, "second", limit_ms=limit_ms, records=1)
    assert [view.name for view in catalog.views()] == ["recent"]


def test_a_view_that_nobody_uses_expires_and_is_not_opened(catalog: Catalog) -> None:
    write(catalog, 0, 4)
    make(catalog, records=8, limit_ms=1)
    until(lambda: catalog.views()[0].is_expired, "the limit passes")
    assert trim(catalog, 2) == 2
    with pytest.raises(Expired, match="view recent has expired or is not there"):
        catalog.open_view("recent", "me", a.HOUR_MS)
    with pytest.raises(Expired, match="view other has expired or is not there"):
        catalog.open_view("other", "me", a.HOUR_MS)


def test_what_a_reader_of_a_view_reads_stays_though_the_view_moves_on(catalog: Catalog) -> None:
    write(catalog, 0, 4)
    make(catalog, records=4)
    assert catalog.open_view("recent", "me", a.HOUR_MS) == 2 * WIDTH
    write(catalog, 4, 8)
    assert (trim(catalog, 8), begins(catalog)) == (2, 6)
    catalog.close_view("recent", "me")
    catalog.close_view("recent", "me")
    assert trim(catalog, 8) == 6
    assert catalog.remove_view("recent")
    assert not catalog.remove_view("recent")
    assert trim(catalog, 8) == 8


def test_a_view_is_of_the_line_that_the_home_reads(catalog: Catalog, watcher: Engine) -> None:
    lines = [
        Producer(Participant(name), replica)
        for name in (a.ALPHA, "beta", "aaa")
        for replica in (-1, 0, 1)
    ]
    with watcher.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns) "
            "SELECT 'other', kind, width_us, columns, key_columns FROM medusa.stream "
            "WHERE name = 'sums'"
        )
        # From the last to the first, so that each is the one to read when it is new.
        for line in sorted(lines, key=lambda one: reading_order(one, catalog.participant))[::-1]:
            connection.exec_driver_sql(
                "INSERT INTO medusa.participant (name) VALUES (%s) ON CONFLICT DO NOTHING",
                (line.participant,),
            )
            connection.exec_driver_sql(
                "INSERT INTO medusa.stream_producer (stream, participant, replica) "
                "VALUES ('other', %s, %s)",
                (line.participant, line.replica),
            )
            found = connection.exec_driver_sql(
                "SELECT participant, replica FROM medusa.read_line('other')"
            ).one()
            assert tuple(found) == (line.participant, line.replica)


def test_no_trim_takes_what_a_view_keeps_whatever_happens_at_the_same_time(
    catalog: Catalog, home_urls: HomeUrls
) -> None:
    """A writer, a loop that trims all that it may, and a reader that opens the view repeatedly."""
    write(catalog, 0, 10)
    make(catalog, records=8)
    done, errors, opened = threading.Event(), list[BaseException](), 0

    def trims() -> None:
        with closing(PostgresCatalog(home_urls.job, a.ALPHA)) as own:
            try:
                while not done.is_set():
                    trim(own, 1_000)
            except MedusaError as error:
                errors.append(error)

    trimming = threading.Thread(target=trims)
    trimming.start()
    try:
        for at in range(10, 60):
            write(catalog, at, at + 1)
            begin_us = catalog.open_view("recent", "me", a.HOUR_MS)
            kept = [s for s in catalog.segments(a.SUMS) if s.range.to_us > begin_us]
            rows = sum(d.rows for s in kept for at_us, d in s.buckets.items() if at_us >= begin_us)
            assert rows >= 8
            (line,) = catalog.lines(a.SUMS)
            assert (line.kept_from_us or BEGINNING_US) <= begin_us
            catalog.close_view("recent", "me")
            opened += 1
    finally:
        done.set()
        trimming.join()
    assert errors == []
    (line,) = catalog.lines(a.SUMS)
    assert (opened, (line.trimmed_us or 0) > 40 * WIDTH) == (50, True)
