"""A running participant trims by the declared retentions, in pieces that no step waits for."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from sqlalchemy import create_engine, text

from medusa_core.commits import Hold
from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.homes.home import known_homes
from pipelines.participant.housekeeper import EVERY_S, Housekeeper, TrimmedLine
from pipelines.storage.orphans import find_orphans
from tests.catalog.building import ALPHA
from tests.trimming.building import BIG, SRC, SUMS, WIDTH_US, Store

NEVER = 1e18


@dataclass
class Clock:
    """A clock that a test sets."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Kept:
    """A housekeeper with its clock, and what it told."""

    store: Store
    clock: Clock = field(default_factory=Clock)
    told: list[Exception] = field(default_factory=list)
    gone: list[TrimmedLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.housekeeper = Housekeeper(
            self.store.home.catalog,
            self.store.root,
            self.told.append,
            self.gone.append,
            now_s=self.clock,
        )

    def round(self) -> int:
        """Turns with nothing else to do until the round is over; how many pieces it had."""
        pieces = 0
        while self.housekeeper.tick(is_idle=True):
            pieces += 1
        return pieces

    def trimmed(self, stream: str) -> int | None:
        trimmed_us = next(
            s.trimmed_us for s in self.store.home.catalog.streams() if s.stream.name == stream
        )
        return None if trimmed_us is None else trimmed_us // WIDTH_US


def written(store: Store, count: int = 12) -> None:
    """Buckets of `src`, landed and closed, all of them computed, and read in the end."""
    for at in range(count):
        store.land(at, at + 1, at)
    store.promise(count)
    for at in range(count):
        store.write(SRC, at, at + 1)
        store.write(SUMS, at, at + 1)
    store.write(BIG, 0, count)


def test_data_past_its_retention_is_trimmed_and_data_without_one_remains(store: Store) -> None:
    written(store)
    kept = Kept(store)
    assert kept.round() == 0
    assert (kept.trimmed(SRC), kept.trimmed(SUMS)) == (None, None)
    store.home.catalog.declare_retention(SRC, 40_000)
    kept.clock.now_s += EVERY_S
    kept.round()
    assert (kept.trimmed(SRC), kept.trimmed(SUMS)) == (8, None), "40 s of 12 buckets stay"
    assert len(store.rows(SRC)) == 4 * 3
    assert find_orphans(store.root, store.home.catalog.named_files, NEVER, 0) == ()
    assert kept.told == []


@pytest.mark.long(quick=True)
def test_what_a_round_let_go_is_told_once_for_each_line_and_nothing_where_nothing_went(
    store: Store,
) -> None:
    written(store)
    store.home.catalog.declare_retention(SRC, 40_000)
    store.home.catalog.declare_retention(BIG, 10**9)
    landed = {f.path for f in store.home.catalog.landed_files(SRC, Range(0, 8 * WIDTH_US))}
    closed = {f for s in store.segments(SRC)[:8] for f in s.files}
    sizes = [(store.root / path).stat().st_size for path in (*landed, *(f.path for f in closed))]
    kept = Kept(store)
    kept.round()
    (gone,) = kept.gone
    assert (gone.stream, gone.before_us, gone.segments) == (SRC, 8 * WIDTH_US, 8)
    assert gone.rows == sum(file.rows for file in closed)
    assert (gone.files, gone.bytes) == (len(sizes), sum(sizes))
    kept.clock.now_s += EVERY_S
    kept.round()
    assert kept.gone == [gone]


@pytest.mark.long(quick=True)
def test_what_a_round_let_go_before_it_met_an_error_is_told_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(store)
    store.home.catalog.declare_retention(SRC, 20_000)
    monkeypatch.setattr("pipelines.participant.housekeeper.SEGMENTS_PER_PIECE", 2)
    kept = Kept(store)
    kept.housekeeper.tick(is_idle=True)
    assert kept.gone == [], "the round goes on"
    kept.clock.now_s += EVERY_S
    kept.housekeeper.tick(is_idle=True)
    (gone,) = kept.gone
    assert 2 <= gone.segments < 10, "the round was cut short"


@pytest.mark.long(quick=True)
def test_held_buckets_remain_however_old_they_are(store: Store) -> None:
    written(store)
    store.home.catalog.declare_retention(SUMS, 1_000)
    hold = Hold(stream=SUMS, holder="beta", purpose="import", from_us=5 * WIDTH_US)
    store.home.catalog.place_hold(hold)
    kept = Kept(store)
    kept.round()
    assert kept.trimmed(SUMS) == 5
    store.home.catalog.release_hold(SUMS, "beta", "import")
    kept.clock.now_s += EVERY_S
    kept.round()
    assert kept.trimmed(SUMS) == 11


@pytest.mark.long(quick=True)
def test_a_round_is_cut_into_pieces_and_waits_for_its_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(store)
    store.home.catalog.declare_retention(SRC, 20_000)
    monkeypatch.setattr("pipelines.participant.housekeeper.SEGMENTS_PER_PIECE", 2)
    kept = Kept(store)
    assert kept.housekeeper.tick(is_idle=True)
    assert len(store.segments(SRC)) == 10, "two segments at a turn"
    kept.round()
    assert len(store.segments(SRC)) == 2
    store.home.catalog.declare_retention(SUMS, 20_000)
    kept.clock.now_s += EVERY_S - 1
    assert not kept.housekeeper.tick(is_idle=True)
    assert kept.trimmed(SUMS) is None
    kept.clock.now_s += 1
    kept.round()
    assert kept.trimmed(SUMS) == 10


def test_a_busy_loop_does_its_housekeeping_too(store: Store) -> None:
    written(store)
    store.home.catalog.declare_retention(SRC, 20_000)
    kept = Kept(store)
    assert not kept.housekeeper.tick(is_idle=False)
    assert kept.trimmed(SRC) is None, "steps come first"
    kept.clock.now_s += EVERY_S
    while kept.housekeeper.tick(is_idle=False):
        pass
    assert kept.trimmed(SRC) == 10


@pytest.mark.long(quick=True)
def test_a_round_that_takes_too_long_is_restarted_and_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(store)
    store.home.catalog.declare_retention(SRC, 20_000)
    monkeypatch.setattr("pipelines.participant.housekeeper.SEGMENTS_PER_PIECE", 2)
    kept = Kept(store)
    ticks = 0
    while len(store.segments(SRC)) > 2:
        kept.housekeeper.tick(is_idle=True)
        kept.clock.now_s += EVERY_S
        ticks += 1
        assert ticks < 50
    assert kept.trimmed(SRC) == 10


@pytest.mark.long(quick=True)
def test_an_unavailable_catalog_is_reported_and_the_next_round_continues(store: Store) -> None:
    written(store)
    store.home.catalog.declare_retention(SRC, 20_000)
    kept = Kept(store)
    url = store.settings.catalog_url_of("postgres")
    assert url is not None
    server = create_engine(catalog_url(url), isolation_level="AUTOCOMMIT")
    database = known_homes(store.settings.directory)[ALPHA]
    allow = f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS {{}}'
    end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = :name"
    with server.connect() as connection:
        connection.execute(text(allow.format("false")))
        try:
            connection.execute(text(end), {"name": database})
            assert not kept.housekeeper.tick(is_idle=True)
        finally:
            connection.execute(text(allow.format("true")))
    server.dispose()
    assert [type(error) for error in kept.told] == [Unavailable]
    kept.clock.now_s += EVERY_S
    kept.round()
    assert kept.trimmed(SRC) == 10
