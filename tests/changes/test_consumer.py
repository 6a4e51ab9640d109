"""A consumer that keeps the position together with what it has applied, killed again and again.

The rule of docs/changes.md: keep the position of an answer in the same transaction as the rows that
it brought, and ask for the changes since that position. The consumer's target is a real database.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from medusa_core.changes import ChangeType
from medusa_core.cursors import HOLD_MS
from medusa_core.errors import Diverged, Expired, Refused
from medusa_core.grid import Range
from medusa_core.names import Version
from pipelines.changes.change_answers import changes_of
from pipelines.changes.consumer_cursors import changes_behind, known_cursor, place_cursor
from pipelines.changes.line_versions import Position, line_of, parse_position
from tests.changes.building import (
    BIG,
    EVERYTHING,
    SUMS,
    TENTATIVE,
    WIDTH_US,
    Held,
    Lines,
    apply,
    next_write,
)
from tests.sweeps import long_but

CURSOR = "mart"
TABLES = """
CREATE TABLE row (bucket_us INTEGER, stime_us INTEGER, name TEXT, n INTEGER);
CREATE TABLE position (at TEXT NOT NULL);
INSERT INTO position VALUES ('0');
"""
TAKE_BACK = """
DELETE FROM row WHERE rowid = (
    SELECT rowid FROM row WHERE (bucket_us, stime_us, name, n) = (?, ?, ?, ?) LIMIT 1)
"""


class Killed(BaseException):
    """Stands for the end of the process: nothing after it is run."""


class Consumer:
    """Applies changes to a table and keeps the position beside it; `at` may end the process."""

    def __init__(self, lines: Lines, path: Path, at: Callable[[str], None]) -> None:
        self.lines, self.path, self.at = lines, path, at

    def run_once(self, rows_max: int) -> None:
        """Ask, apply, move the cursor."""
        catalog = self.lines.catalog
        line = line_of(catalog, BIG)
        with closing(sqlite3.connect(self.path)) as target:
            (kept,) = target.execute("SELECT at FROM position").fetchone()
            behind = parse_position("position", kept)
            answer = changes_of(catalog, line, behind, EVERYTHING, rows_max=rows_max)
            self.at("asked")
            for change in answer.rows(self.lines.home.storage):
                if change.values is None:
                    continue
                row = (change.bucket_us, change.stime_us, *change.values)
                if change.type is ChangeType.INSERT:
                    target.execute("INSERT INTO row VALUES (?, ?, ?, ?)", row)
                else:
                    assert target.execute(TAKE_BACK, row).rowcount == 1
                self.at("applying")
            target.execute("UPDATE position SET at = ?", (str(answer.position),))
            self.at("applied")
            target.commit()
            self.at("committed")
        catalog.move_cursor(BIG, CURSOR, answer.until.version, HOLD_MS)
        self.at("moved")

    def held(self) -> tuple[Version, Held]:
        """What its table holds, and the version that it says it is at."""
        with closing(sqlite3.connect(self.path)) as target:
            position = parse_position("", target.execute("SELECT at FROM position").fetchone()[0])
            rows = target.execute("SELECT bucket_us, stime_us, name, n FROM row").fetchall()
        return position.version, Counter((at, stime, (name, n)) for at, stime, name, n in rows)


@pytest.mark.parametrize("seed", long_but(1, range(6), quick=True))
def test_a_consumer_that_is_killed_anywhere_neither_skips_nor_repeats(
    lines: Lines, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    kills: Counter[str] = Counter()

    def may_end(where: str) -> None:
        if chance.random() < (0.05 if where == "applying" else 0.25):
            kills[where] += 1
            raise Killed(where)

    with closing(sqlite3.connect(tmp_path / "target.db")) as target:
        target.executescript(TABLES)
    consumer = Consumer(lines, tmp_path / "target.db", may_end)
    place_cursor(lines.catalog, line_of(lines.catalog, BIG), CURSOR, None, HOLD_MS)
    goes_on = True
    while goes_on or consumer.held()[0] < line_of(lines.catalog, BIG).version:
        goes_on = next_write(lines, chance, BIG, 16)
        if chance.random() < 0.3:
            lines.trim(BIG, chance.randrange(1, 16))
        with suppress(Killed):
            consumer.run_once(chance.choice((1, 5, 1_000)))
        version, held = consumer.held()
        kept_us = line_of(lines.catalog, BIG).trimmed_us or 0
        assert since(held, kept_us) == since(lines.held_at(BIG, version), kept_us)
    assert kills.total() >= 5
    assert line_of(lines.catalog, BIG).version == consumer.held()[0]


def since(held: Held, from_us: int) -> Held:
    """What is held of the buckets that are not trimmed."""
    return Counter({row: n for row, n in held.items() if row[0] >= from_us})


def test_a_cursor_gives_the_same_until_it_is_moved(lines: Lines) -> None:
    lines.write(BIG, 0, 2, {0: [("a", 1)], 1: [("b", 1)]})
    line = line_of(lines.catalog, BIG)
    cursor = place_cursor(lines.catalog, line, CURSOR, None, HOLD_MS)
    first = list(changes_behind(lines.catalog, line, cursor).rows(lines.home.storage))
    assert first == list(changes_behind(lines.catalog, line, cursor).rows(lines.home.storage))
    assert len(first) == 2
    lines.catalog.move_cursor(BIG, CURSOR, Version(1), HOLD_MS)
    moved = known_cursor(lines.catalog, BIG, CURSOR)
    assert changes_behind(lines.catalog, line, moved).buckets == ()


def test_a_cursor_from_now_receives_whole_buckets_from_the_end_of_the_stable_prefix(
    lines: Lines,
) -> None:
    lines.write(BIG, 0, 2, {0: [("old", 1)]})
    lines.write(BIG, 2, 4, {2: [("t", 1)], 3: [("t", 2)]}, TENTATIVE)
    line = line_of(lines.catalog, BIG)
    cursor = place_cursor(lines.catalog, line, CURSOR, "now", HOLD_MS)
    target: Held = Held()
    apply(target, changes_behind(lines.catalog, line, cursor).rows(lines.home.storage))
    lines.catalog.move_cursor(BIG, CURSOR, Version(2), HOLD_MS)
    lines.write(BIG, 2, 3, {2: [("s", 9)]})
    line, cursor = line_of(lines.catalog, BIG), known_cursor(lines.catalog, BIG, CURSOR)
    apply(target, changes_behind(lines.catalog, line, cursor).rows(lines.home.storage))
    assert {row[2] for row in target} == {("s", 9), ("t", 2)}


def test_a_cursor_whose_hold_ran_out_is_expired_once_that_is_trimmed(lines: Lines) -> None:
    lines.write(SUMS, 0, 4, {0: [("a", 1)]})
    place_cursor(lines.catalog, line_of(lines.catalog, SUMS), CURSOR, None, 1)
    while lines.trim(SUMS, 2).trimmed_us is None:
        pass  # a hold of a millisecond runs out
    line, cursor = line_of(lines.catalog, SUMS), known_cursor(lines.catalog, SUMS, CURSOR)
    with pytest.raises(Expired, match="cursor mart is too old"):
        changes_behind(lines.catalog, line, cursor)
    with pytest.raises(Expired, match="--from"):
        place_cursor(lines.catalog, line, "other", None, HOLD_MS)
    later = place_cursor(lines.catalog, line, "other", "1970-01-01T00:00:20Z", HOLD_MS)
    assert later.from_us == 2 * WIDTH_US
    assert changes_of(
        lines.catalog, line, Position(Version(0)), Range(2 * WIDTH_US, 4 * WIDTH_US)
    ).until.version == 1  # fmt: skip


def test_a_cursor_of_another_incarnation_or_history_is_refused_and_must_start_over(
    lines: Lines, owner: Callable[[str], None]
) -> None:
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    line = line_of(lines.catalog, BIG)
    place_cursor(lines.catalog, line, CURSOR, None, HOLD_MS)
    lines.catalog.move_cursor(BIG, CURSOR, Version(1), HOLD_MS)
    owner("UPDATE medusa.cursor SET chain = sha256('another past')")
    with pytest.raises(Diverged, match="drop the cursor"):
        changes_behind(lines.catalog, line, known_cursor(lines.catalog, BIG, CURSOR))
    with pytest.raises(Diverged, match="start again"):
        lines.catalog.move_cursor(BIG, CURSOR, Version(1), HOLD_MS)
    lines.catalog.drop_cursor(BIG, CURSOR)
    place_cursor(lines.catalog, line, CURSOR, None, HOLD_MS)
    owner("UPDATE medusa.home SET incarnation = gen_random_uuid()")
    with pytest.raises(Diverged, match="restored from a backup"):
        changes_behind(lines.catalog, line, known_cursor(lines.catalog, BIG, CURSOR))
    with pytest.raises(Diverged):
        lines.catalog.move_cursor(BIG, CURSOR, Version(1), HOLD_MS)


def test_an_unknown_cursor_is_refused_with_the_nearest_name(lines: Lines) -> None:
    line = line_of(lines.catalog, BIG)
    place_cursor(lines.catalog, line, CURSOR, None, HOLD_MS)
    with pytest.raises(Refused, match="did you mean 'mart'"):
        known_cursor(lines.catalog, BIG, "smart")
