"""Cursors, versions and differences in the catalog, which are in Postgres alone."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from medusa_core.cursors import HOLD_PURPOSE, Cursor, holder_of
from medusa_core.errors import Conflict, Expired, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer, Stability
from medusa_core.states import State, Transition
from pipelines.catalog.interface import Catalog
from tests.agreements.backups import in_time
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest, PostgresHome

LIMIT_MS = a.HOUR_MS
TENTATIVE = Stability.TENTATIVE
EVERYTHING = Range(BEGINNING_US, FOREVER_US)


@pytest.fixture
def home(postgres_home: PostgresHome) -> HomeUnderTest:
    return postgres_home


def write(catalog: Catalog, begin: int, end: int, stability: Stability = Stability.STABLE,
          rows: int = 2) -> Version:  # fmt: skip
    counts = dict.fromkeys(range(begin, end), rows)
    made = catalog.commit(a.a_commit(a.a_segment(begin, end, stability, rows=counts)))
    return made.versions[a.SUMS]


def place(catalog: Catalog, name: str = "mart", from_us: int = BEGINNING_US) -> Cursor:
    catalog.place_cursor(a.SUMS, name, a.ME, from_us=from_us, limit_ms=LIMIT_MS)
    return next(c for c in catalog.cursors() if c.name == name)


def held_from(catalog: Catalog, name: str = "mart") -> int | None:
    found = [h for h in catalog.holds(a.SUMS) if (h.holder, h.purpose) == (
        holder_of(name), HOLD_PURPOSE
    )]  # fmt: skip
    return found[0].from_us if found else None


def trim(catalog: Catalog, before: int) -> int | None:
    needed = dict.fromkeys((a.MAIN, a.TAIL), FOREVER_US)
    answer = catalog.trim(a.SUMS, a.ME, before * a.WIDTH_US, needed=needed, segments_max=100)
    return answer.trimmed_us


def test_a_cursor_begins_before_all_changes_and_holds_everything(catalog: Catalog) -> None:
    write(catalog, 0, 4)
    cursor = place(catalog)
    assert (cursor.version, cursor.last_version, cursor.chain) == (0, 1, None)
    assert held_from(catalog) == BEGINNING_US
    assert trim(catalog, 4) is None


def test_a_moved_cursor_holds_from_where_the_stable_prefix_ended_then(catalog: Catalog) -> None:
    write(catalog, 0, 2)
    place(catalog)
    write(catalog, 2, 6, TENTATIVE)
    catalog.move_cursor(a.SUMS, "mart", Version(2), LIMIT_MS)
    write(catalog, 2, 6)
    (cursor,) = catalog.cursors()
    assert (cursor.version, cursor.last_version, cursor.stable_us) == (2, 3, 2 * a.WIDTH_US)
    assert cursor.chain is not None
    assert cursor.chain == cursor.chain_here
    assert held_from(catalog) == 2 * a.WIDTH_US
    assert trim(catalog, 6) == 2 * a.WIDTH_US
    catalog.move_cursor(a.SUMS, "mart", Version(3), LIMIT_MS)
    assert held_from(catalog) == 6 * a.WIDTH_US
    assert trim(catalog, 6) == 6 * a.WIDTH_US


def test_a_cursor_moves_to_versions_that_were_there_and_never_back(catalog: Catalog) -> None:
    place(catalog)
    catalog.move_cursor(a.SUMS, "mart", Version(0), LIMIT_MS)
    write(catalog, 0, 1)
    write(catalog, 1, 2)
    catalog.move_cursor(a.SUMS, "mart", Version(2), LIMIT_MS)
    catalog.move_cursor(a.SUMS, "mart", Version(2), LIMIT_MS)
    for version, why in ((1, "is at version 2"), (3, "not there yet")):
        with pytest.raises(Refused, match=why):
            catalog.move_cursor(a.SUMS, "mart", Version(version), LIMIT_MS)
    with pytest.raises(Refused, match="no cursor"):
        catalog.move_cursor(a.SUMS, "other", Version(1), LIMIT_MS)
    assert [c.version for c in catalog.cursors()] == [2]


def test_a_cursor_moves_to_no_version_that_came_together_with_a_later_one(
    catalog: Catalog, watcher: Engine
) -> None:
    """As medusa.import_line takes what a partner has written since; by medusa.move_cursor."""
    place(catalog)
    for at in range(3):
        write(catalog, at, at + 1)
    in_time(watcher, "DELETE FROM medusa.line_version WHERE version = 2")
    with pytest.raises(Refused, match="version 2 of sums was never read here"):
        catalog.move_cursor(a.SUMS, "mart", Version(2), LIMIT_MS)
    catalog.move_cursor(a.SUMS, "mart", Version(3), LIMIT_MS)
    assert [c.version for c in catalog.cursors()] == [3]


def test_a_cursor_is_there_once_and_dropped_with_its_hold(catalog: Catalog) -> None:
    place(catalog)
    with pytest.raises(Conflict, match="already"):
        place(catalog)
    place(catalog, "other", from_us=3 * a.WIDTH_US)
    assert [c.name for c in catalog.cursors()] == ["mart", "other"]
    catalog.drop_cursor(a.SUMS, "mart")
    catalog.drop_cursor(a.SUMS, "mart")
    assert [c.name for c in catalog.cursors()] == ["other"]
    assert (held_from(catalog), held_from(catalog, "other")) == (None, 3 * a.WIDTH_US)


def test_a_cursor_has_a_name_and_a_line_of_this_home(catalog: Catalog) -> None:
    for name in ("", "Mart", "a b", "x" * 64, "1st", "m'; DROP TABLE x"):
        with pytest.raises(Refused):
            catalog.place_cursor(a.SUMS, name, a.ME, from_us=0, limit_ms=1)
    for stream, producer in ((StreamName("none"), a.ME), (a.SUMS, Producer(a.ALPHA, 7))):
        with pytest.raises(Refused, match="nobody writes"):
            catalog.place_cursor(stream, "mart", producer, from_us=0, limit_ms=1)
    with pytest.raises(Refused):
        catalog.place_cursor(a.SUMS, "mart", a.ME, from_us=0, limit_ms=0)
    assert catalog.cursors() == ()
    assert catalog.holds(a.SUMS) == ()


def test_a_cursor_cannot_begin_before_what_is_kept(catalog: Catalog) -> None:
    write(catalog, 0, 4)
    assert trim(catalog, 2) == 2 * a.WIDTH_US
    for from_us in (BEGINNING_US, 2 * a.WIDTH_US - 1):
        with pytest.raises(Expired, match="trimmed before"):
            place(catalog, from_us=from_us)
    assert (catalog.cursors(), held_from(catalog)) == ((), None)
    assert place(catalog, from_us=2 * a.WIDTH_US).version == 0


def test_a_line_knows_how_it_stood_at_its_versions(home: HomeUnderTest, catalog: Catalog) -> None:
    write(catalog, 0, 2)
    made_ms = catalog.read_clock_ms()
    home.let_time_pass(made_ms + 5)
    write(catalog, 2, 4, TENTATIVE, rows=3)
    write(catalog, 3, 4, rows=1)
    of = (a.SUMS, a.ME)
    found = catalog.line_versions(*of, after=Version(0), limit=10)
    assert [(v.version, v.stable_us, v.rows_max) for v in found] == [
        (1, 2 * a.WIDTH_US, 4),
        (2, 2 * a.WIDTH_US, 6),
        (3, 2 * a.WIDTH_US, 6 + 1),
    ]
    assert len({v.chain for v in found}) == 3
    assert [v.version for v in catalog.line_versions(*of, after=Version(1), limit=1)] == [2]
    until = catalog.line_versions(*of, after=Version(1), until=Version(2), limit=9)
    assert [v.version for v in until] == [2]
    stood = catalog.line_version(*of, Version(9))
    assert stood is not None
    assert (stood.version, stood.chain) == (3, found[2].chain)
    assert catalog.line_version(*of, Version(0)) is None
    assert catalog.version_at(*of, made_ms) == 1
    assert catalog.version_at(*of, catalog.read_clock_ms()) == 3
    assert catalog.version_at(*of, 0) == 0


def test_the_difference_is_what_two_versions_do_not_share(catalog: Catalog) -> None:
    write(catalog, 0, 2)
    write(catalog, 2, 6, TENTATIVE)
    write(catalog, 3, 4)
    write(catalog, 6, 8)

    def told(since: int, until: int, part: Range = EVERYTHING) -> tuple[list[str], list[str]]:
        found = catalog.difference(a.SUMS, a.ME, Version(since), Version(until), part)
        before, after = (
            [f"{s.range.from_us // a.WIDTH_US}-{s.range.to_us // a.WIDTH_US}v{s.version}"
             for s in side]
            for side in (found.before, found.after)
        )  # fmt: skip
        return before, after

    assert told(0, 1) == ([], ["0-2v1"])
    assert told(1, 3) == ([], ["2-3v2", "3-4v3", "4-6v2"])
    assert told(2, 3) == (["2-6v2"], ["2-3v2", "3-4v3", "4-6v2"])
    assert told(2, 4, a.buckets(4, 7)) == (["2-6v2"], ["4-6v2", "6-8v4"])
    assert told(3, 3) == ([], [])


def test_what_was_corrected_last_tells_how_far_corrections_are(catalog: Catalog) -> None:
    def current() -> tuple[int | None, int | None, int | None]:
        line = next(s for s in catalog.lines() if s.stream.name == a.SUMS)
        counted = next(s for s in catalog.streams() if s.stream.name == a.SUMS)
        assert counted.corrected_through_us == line.corrected_through_us
        told = (line.stable_through_us, line.tentative_through_us, line.corrected_through_us)
        first, second, third = (None if at is None else at // a.WIDTH_US for at in told)
        return first, second, third

    assert current() == (None, None, None)
    write(catalog, 0, 2)
    write(catalog, 2, 6, TENTATIVE)
    assert current() == (2, 6, None)
    write(catalog, 2, 4)
    assert current() == (4, 6, 4)
    write(catalog, 4, 6)
    write(catalog, 6, 9)
    assert current() == (9, None, 6)


def test_each_fragment_is_told_in_the_state_that_it_came_into_last(catalog: Catalog) -> None:
    def came(fragment: str, state: State, because: str) -> None:
        transition = Transition(
            fragment=fragment, partition=0, producer=a.ME, state=state, because=because
        )
        assert catalog.record_transition(transition)

    assert catalog.states() == ()
    came(a.MAIN, State.UP_FAILURE, "without src")
    came(a.TAIL, State.UP_FAILURE, "without sums")
    came(a.MAIN, State.STABILIZATION, "owed")
    assert [(s.fragment, s.state, s.because) for s in catalog.states()] == [
        (a.MAIN, State.STABILIZATION, "owed"),
        (a.TAIL, State.UP_FAILURE, "without sums"),
    ]
