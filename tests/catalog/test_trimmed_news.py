"""A reader whose hold ran out is told what it lost: a declared gap, and everything behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from medusa_core.errors import Conflict
from medusa_core.exchange import LineNews, import_fragment
from medusa_core.grid import FOREVER_US
from medusa_core.names import Participant, Version
from medusa_core.segments import Producer, Segment, Stability
from medusa_core.trims import TrimResult
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import StreamStatus
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog import building as a
from tests.catalog.homes_under_test import (
    HomeUnderTest,
    MemoryHome,
    PostgresHome,
    watcher_of,
    wipe,
)
from tests.home_pool import lent_homes
from tests.sweeps import examples

READER = Participant("beta")
IMPORT = import_fragment(a.SUMS)
STABLE, TENTATIVE, GAP = Stability.STABLE, Stability.TENTATIVE, Stability.GAP
LIMIT_MS = 20
Kind = tuple[int, int, Stability]


@dataclass
class Pair:
    """Alpha, who computes `sums`, and beta, who reads it."""

    producer: HomeUnderTest
    reader: Catalog
    segments_max: int = 1_000

    def __post_init__(self) -> None:
        self.producer.catalog.deploy(
            a.a_deployment(assignments=tuple(map(a.an_assignment, (a.LANDING, a.MAIN))))
        )
        self.producer.catalog.acquire_lease(a.a_key(), a.FIRST, "me", a.HOUR_MS)
        reading = Producer(READER)
        fragments = {**a.a_deployment().fragments, IMPORT: ((), ())}
        self.reader.deploy(
            a.a_deployment(
                fragments=fragments,
                assignments=(a.an_assignment(a.MAIN), a.an_assignment(IMPORT, producer=reading)),
            )
        )
        key = a.a_key(IMPORT, producer=reading)
        self.lease = self.reader.acquire_lease(key, a.FIRST, "them", a.HOUR_MS)

    def write(self, *segments: a.OutputSegment, ends: bool = False) -> None:
        self.producer.catalog.commit(a.a_commit(*segments, ends=ends))

    def trim(self, before: int) -> TrimResult:
        return self.producer.catalog.trim(
            a.SUMS, a.ME, before * a.WIDTH_US, needed={}, segments_max=1_000
        )

    def news(self) -> LineNews:
        return self.producer.catalog.line_news(
            a.SUMS, a.ME, self.copy().version, segments_max=self.segments_max
        )

    def read(self) -> LineNews:
        """Ask for news and bring one page in."""
        told = self.news()
        self.reader.import_line(self.lease, told, a.PLAN)
        return told

    def read_on(self) -> None:
        """Until there is no more."""
        while self.read().version < self.line().version:
            pass

    def acknowledge(self, limit_ms: int = a.HOUR_MS) -> None:
        boundary_us = self.copy().boundary_us
        if boundary_us > 0:
            self.producer.catalog.acknowledge(a.SUMS, READER, boundary_us, limit_ms)

    def die(self) -> None:
        """Nothing is heard of the reader until its hold has run out."""
        self.acknowledge(LIMIT_MS)
        self.producer.let_time_pass(self.producer.catalog.read_clock_ms() + LIMIT_MS)

    def line(self) -> StreamStatus:
        return next(
            s for s in self.producer.catalog.streams() if (s.stream.name, s.producer) == SUMS_LINE
        )

    def copy(self) -> StreamStatus:
        return next(s for s in self.reader.streams() if (s.stream.name, s.producer) == SUMS_LINE)

    def kinds(self) -> list[Kind]:
        """The copy's live segments, in buckets."""
        return [_kind(segment) for segment in self.reader.segments(a.SUMS)]


SUMS_LINE = (a.SUMS, a.ME)


def _kind(segment: Segment) -> Kind:
    return (
        segment.range.from_us // a.WIDTH_US,
        segment.range.to_us // a.WIDTH_US,
        segment.stability,
    )


@pytest.fixture
def reader() -> Catalog:
    return MemoryCatalog(READER, ManualClock(1_000))


@pytest.fixture(scope="module")
def reader_urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    with lent_homes(postgres_server, READER) as homes:
        yield homes[READER]


@pytest.fixture(scope="module")
def reader_watcher(postgres_server: EmbeddedServer, reader_urls: HomeUrls) -> Iterator[Engine]:
    with watcher_of(postgres_server.superuser_url(reader_urls.database)) as watcher:
        yield watcher


Pairs = Callable[[], Pair]


@pytest.fixture(params=["memory", "postgres"])
def new_pair(request: pytest.FixtureRequest) -> Iterator[Pairs]:
    """Makes pairs, one after the other: both homes in memory, or both in Postgres."""
    if request.param == "memory":
        yield lambda: Pair(MemoryHome(), MemoryCatalog(READER, ManualClock(1_000)))
        return
    yield from _pairs_in_postgres(request)


def _pairs_in_postgres(request: pytest.FixtureRequest) -> Iterator[Pairs]:
    watchers = [request.getfixturevalue("watcher"), request.getfixturevalue("reader_watcher")]
    homes: list[PostgresHome] = []

    def close() -> None:
        while homes:
            homes.pop().close()

    def make() -> Pair:
        close()
        wipe(watchers[0])
        wipe(watchers[1], READER)
        homes.append(PostgresHome(request.getfixturevalue("home_urls"), watchers[0]))
        urls = request.getfixturevalue("reader_urls")
        homes.append(PostgresHome(urls, watchers[1], READER))
        return Pair(homes[0], homes[1].catalog)

    yield make
    close()


@pytest.fixture
def pair(new_pair: Pairs) -> Pair:
    return new_pair()


def test_a_reader_that_was_dead_too_long_gets_a_gap_and_everything_behind_it(pair: Pair) -> None:
    pair.write(a.a_segment(0, 2, rows={0: 1}))
    pair.read()
    pair.die()
    for at in range(2, 8):
        pair.write(a.a_segment(at, at + 1, rows={at: at}))
    assert pair.trim(5).held_by is None
    pair.read()
    expected = [(0, 2, STABLE), (2, 5, GAP), (5, 6, STABLE), (6, 7, STABLE), (7, 8, STABLE)]
    assert pair.kinds() == expected
    (lost,) = [s for s in pair.reader.segments(a.SUMS) if s.stability is GAP]
    assert (lost.version, lost.plan, dict(lost.buckets)) == (7, a.PLAN, {})
    assert pair.copy().boundary_us == 8 * a.WIDTH_US, "a gap is final: downstream goes on"
    assert pair.copy().stable_through_us == 8 * a.WIDTH_US
    pair.write(a.a_segment(8, 9, rows={8: 1}), ends=True)
    pair.read()
    assert pair.kinds() == [*expected, (8, 9, STABLE)]
    assert pair.copy().has_ended


def test_a_reader_that_holds_loses_nothing(pair: Pair) -> None:
    pair.write(a.a_segment(0, 2, rows={0: 1}))
    pair.read()
    pair.acknowledge()
    for at in range(2, 6):
        pair.write(a.a_segment(at, at + 1, rows={at: at}))
    stopped = pair.trim(5).held_by
    assert stopped is not None
    assert (stopped.holder, stopped.from_us) == (READER, 2 * a.WIDTH_US)
    pair.read()
    assert [kind for _, _, kind in pair.kinds()] == [STABLE] * 5


def test_a_reader_that_comes_first_after_a_trim_is_told_of_it_from_the_origin_on(
    pair: Pair,
) -> None:
    pair.write(a.a_segment(2, 6, rows={2: 1}), ends=True)
    pair.trim(6)
    pair.read()
    assert pair.kinds() == [(2, 6, GAP)]
    assert pair.copy().has_ended


def test_a_reader_that_has_everything_is_told_of_no_gap(pair: Pair) -> None:
    pair.write(a.a_segment(0, 3, rows={0: 1}))
    pair.read()
    pair.acknowledge()
    pair.trim(3)
    pair.write(a.a_segment(3, 4, rows={3: 1}))
    assert pair.read().trimmed_us == 3 * a.WIDTH_US
    assert pair.kinds() == [(0, 3, STABLE), (3, 4, STABLE)]


def test_what_was_tentative_and_was_corrected_and_trimmed_meanwhile_is_a_gap(pair: Pair) -> None:
    pair.write(a.a_segment(0, 1, rows={0: 1}))
    pair.write(a.a_segment(1, 6, TENTATIVE, rows={2: 1}, missing=(a.SRC,)))
    pair.read()
    pair.die()
    pair.write(a.a_segment(1, 3, rows={2: 2}))
    pair.write(a.a_segment(3, 8, rows={3: 1, 7: 1}))
    pair.trim(4)
    pair.read()
    assert pair.kinds() == [(0, 1, STABLE), (1, 3, GAP), (3, 8, STABLE)]
    seen = pair.reader.segments(a.SUMS, as_of=Version(2))
    assert [_kind(s) for s in seen] == [(0, 1, STABLE), (1, 6, TENTATIVE)], "as it was known then"


def test_news_in_pages_lose_no_more_than_news_at_once(pair: Pair) -> None:
    pair.write(a.a_segment(0, 4, TENTATIVE, rows={0: 1}, missing=(a.SRC,)))
    pair.read()
    pair.die()
    pair.write(a.a_segment(4, 5, rows={4: 1}))
    pair.write(a.a_segment(0, 1, rows={0: 1}))
    pair.write(a.a_segment(5, 6, rows={5: 1}))
    pair.write(a.a_segment(1, 4, rows={3: 1}))
    pair.trim(2)
    pair.segments_max = 1
    boundaries = []
    while pair.copy().version < pair.line().version:
        pair.read()
        boundaries.append(pair.copy().boundary_us // a.WIDTH_US)
    assert pair.kinds() == [(0, 1, GAP), (1, 4, STABLE), (4, 5, STABLE), (5, 6, STABLE)]
    assert len(boundaries) > 1


def test_the_same_news_of_a_loss_is_brought_once(pair: Pair) -> None:
    pair.write(a.a_segment(0, 3, rows={0: 1}))
    pair.trim(2)
    told = pair.news()
    pair.write(a.a_segment(3, 4))
    assert pair.reader.import_line(pair.lease, told, a.PLAN)
    assert not pair.reader.import_line(pair.lease, told, a.PLAN)
    pair.read()
    assert pair.kinds() == [(0, 3, STABLE), (3, 4, STABLE)], "it reached over the place: kept whole"


# ------------------------------------------------------------ any order of events

writes = st.tuples(st.just("write"), st.integers(1, 4), st.sampled_from([TENTATIVE, STABLE]))
events = st.one_of(
    writes,
    writes,
    st.tuples(st.just("correct"), st.integers(1, 9), st.integers(1, 6)),
    st.tuples(st.just("correct"), st.integers(1, 9), st.integers(1, 6)),
    st.tuples(st.just("trim"), st.integers(0, 6)),
    st.tuples(st.just("read"), st.integers(1, 4)),
    st.just(("acknowledge",)),
    st.just(("die",)),
)
Event = tuple[object, ...]


@dataclass
class Watched:
    """A pair, and what a reader may count on: what was final, what its hold covers."""

    pair: Pair

    def __post_init__(self) -> None:
        self.end = 0
        self.final: dict[int, int] = {}
        self.held_from: int | None = None
        self.may_be_lost: set[int] = set()

    def do(self, event: Event) -> object:
        match event:
            case ("write", int(length), Stability() as stability):
                return self.write(self.end, self.end + length, stability)
            case ("correct", int(back), int(length)):
                begin = max(self.end - back, 0)
                return self.write(begin, begin + length, STABLE)
            case ("trim", int(back)):
                return self.trim(self.end - back)
            case ("read", int(segments_max)):
                self.pair.segments_max = segments_max
                return self.pair.read()
            case ("acknowledge",):
                return self.acknowledge()
            case ("die",):
                self.pair.die()
                self.held_from = None
        return None

    def write(self, begin: int, end: int, stability: Stability) -> bool:
        rows = {at: 1 + at % 3 for at in range(begin, end) if at % 2}
        missing = (a.SRC,) if stability is TENTATIVE else ()
        # A correction of what no other has corrected: the key tells commits apart by their ranges.
        segment = a.a_segment(begin, end, stability, rows=rows, missing=missing)
        if rows:
            named = a.a_file(sum(rows.values()), f"files/{begin}-{end}-{stability.value}")
            segment = a.a_segment(begin, end, stability, rows=rows, file=named, missing=missing)
        try:
            self.pair.write(segment)
        except Conflict:
            return False
        if stability is STABLE:
            self.final |= {at: rows.get(at, 0) for at in range(begin, end)}
        self.end = max(self.end, end)
        return True

    def trim(self, before: int) -> TrimResult:
        trimmed = self.pair.trim(before)
        if trimmed.trimmed_us != trimmed.from_us and trimmed.trimmed_us is not None:
            gone = trimmed.trimmed_us // a.WIDTH_US
            assert self.held_from is None or gone <= self.held_from, "S7"
            known = {at for b, e, kind in self.pair.kinds() if kind.is_final for at in range(b, e)}
            self.may_be_lost |= set(range(gone)) - known
        return trimmed

    def acknowledge(self) -> None:
        self.pair.acknowledge()
        boundary_us = self.pair.copy().boundary_us
        if boundary_us > 0:
            through = self.end if boundary_us == FOREVER_US else boundary_us // a.WIDTH_US
            self.held_from = max(through, self.held_from or 0)

    def check(self) -> None:
        """In the end the reader has every final row, but for what is declared lost."""
        self.pair.read_on()
        has: dict[int, tuple[Stability, int]] = {}
        for segment in self.pair.reader.segments(a.SUMS):
            begin, end, kind = _kind(segment)
            for at in range(begin, end):
                digest = segment.buckets.get(at * a.WIDTH_US)
                has[at] = (kind, digest.rows if digest else 0)
        live = self.pair.producer.catalog.segments(a.SUMS)
        there = {at for b, e, _ in map(_kind, live) for at in range(b, e)}
        for at, rows in self.final.items():
            is_lost = has[at] == (GAP, 0) and at in self.may_be_lost - there
            assert is_lost or has[at] == (STABLE, rows)
        for at in set(range(self.end)) - set(self.final):
            assert has[at][0] is TENTATIVE


def _play(pair: Pair, happened: Sequence[Event]) -> list[object]:
    watched = Watched(pair)
    answers: list[object] = []
    for event in happened:
        answers.append(watched.do(event))
        answers.append(pair.kinds())
    watched.check()
    return answers


@pytest.mark.sweep
@settings(max_examples=examples(15, 400), deadline=None)
@given(st.lists(events, max_size=30))
def test_no_order_of_trims_reads_and_deaths_loses_a_row_that_a_hold_covers(
    happened: list[Event],
) -> None:
    _play(Pair(MemoryHome(), MemoryCatalog(READER, ManualClock(1_000))), happened)


@pytest.mark.sweep
@pytest.mark.parametrize("new_pair", ["postgres"], indirect=True)
def test_postgres_and_memory_tell_and_take_the_same_news_of_trimmed_lines(new_pair: Pairs) -> None:
    @settings(
        max_examples=examples(2, 30),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(events, min_size=8, max_size=24))
    def alike(happened: list[Event]) -> None:
        memory = Pair(MemoryHome(), MemoryCatalog(READER, ManualClock(1_000)))
        expected = _without_times(_play(memory, happened))
        assert _without_times(_play(new_pair(), happened)) == expected

    alike()


def _without_times(answers: list[object]) -> list[object]:
    """The answers but for when a hold was placed, how old things are, and names of chains."""
    found: list[object] = []
    for answer in answers:
        if isinstance(answer, TrimResult):
            held = answer.held_by and (answer.held_by.purpose, answer.held_by.from_us)
            answer = (answer.trimmed_us, answer.segments, answer.rows, answer.files, held)
        if isinstance(answer, LineNews):
            chains = (answer.chain_after is None, answer.chain is None)
            segments = tuple(
                replace(p, segment=replace(p.segment, age_ms=0)) for p in answer.segments
            )
            answer = (replace(answer, chain_after=None, chain=None, segments=segments), chains)
        found.append(answer)
    return found
