"""What a consumer is told between two versions, read from real files."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from medusa_core.changes import ChangeType
from medusa_core.errors import Diverged, Expired, Refused, Unavailable
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Version
from pipelines.changes.change_answers import changes_of
from pipelines.changes.line_versions import Position, line_of
from pipelines.storage.compaction import compact_run, runs_to_compact
from tests.changes import building as b
from tests.changes.building import (
    BIG,
    EVERYTHING,
    GAP,
    STABLE,
    SUMS,
    TENTATIVE,
    WIDTH_US,
    Held,
    Lines,
    apply,
)
from tests.sweeps import long_but


def test_new_rows_are_inserted_in_event_time_order_with_their_marks(lines: Lines) -> None:
    version = lines.write(BIG, 0, 3, {1: [("bb", 2), ("a", 1)], 0: [("c", 9)]})
    changes = lines.changes(BIG, 0)
    assert [(c.type, c.values) for c in changes] == [
        (ChangeType.INSERT, ("c", 9)),
        (ChangeType.INSERT, ("a", 1)),
        (ChangeType.INSERT, ("bb", 2)),
    ]
    assert {(c.stability, c.version) for c in changes} == {(STABLE, version)}
    assert [c.bucket_us for c in changes] == [0, WIDTH_US, WIDTH_US]
    assert lines.changes(BIG, version) == []


def test_a_correction_takes_back_only_what_was_wrong_and_promotes_the_rest(lines: Lines) -> None:
    lines.write(BIG, 0, 2, {0: [("a", 1), ("a", 1), ("b", 2)], 1: [("d", 4)]}, TENTATIVE)
    lines.write(BIG, 0, 1, {0: [("a", 1), ("b", 3), ("c", 5)]})
    changes = lines.changes(BIG, 1)
    assert [(c.type.value, c.values) for c in changes] == [
        ("delete", ("a", 1)),
        ("delete", ("b", 2)),
        ("insert", ("b", 3)),
        ("insert", ("c", 5)),
        ("promote", None),
    ]
    assert {(c.stability, c.bucket_us) for c in changes} == {(STABLE, 0)}


def test_with_a_key_a_row_that_changed_is_an_update(lines: Lines) -> None:
    lines.write(SUMS, 0, 1, {0: [("a", 1), ("b", 2), ("gone", 7)]}, TENTATIVE)
    lines.write(SUMS, 0, 1, {0: [("a", 1), ("b", 3), ("new", 8)]})
    assert [(kind, row) for kind, _, row in lines.told(SUMS, 1)] == [
        ("update_preimage", ("b", 2)),
        ("update_postimage", ("b", 3)),
        ("delete", ("gone", 7)),
        ("insert", ("new", 8)),
        ("promote", None),
    ]


def test_a_promotion_changes_the_stability_alone_and_reads_no_file(lines: Lines) -> None:
    rows = {0: [("a", 1), ("a", 1)], 1: [("b", 2)]}
    lines.write(BIG, 0, 2, rows, TENTATIVE)
    version = lines.write(BIG, 0, 2, rows)
    for path in lines.home.storage.rglob("*.parquet"):
        path.unlink()
    changes = lines.changes(BIG, 1)
    assert [(c.type.value, c.bucket_us // WIDTH_US, c.values) for c in changes] == [
        ("promote", 0, None),
        ("promote", 1, None),
    ]
    assert {(c.stability, c.version) for c in changes} == {(STABLE, version)}


def test_what_a_correction_splits_off_does_not_change(lines: Lines) -> None:
    rows = {at: [(f"r{at}", at)] for at in range(6)}
    lines.write(BIG, 0, 6, rows, TENTATIVE)
    lines.write(BIG, 2, 4, {2: [("r2", 2)], 3: [("other", 3)]})
    assert lines.told(BIG, 1) == [
        ("promote", 2, None),
        ("delete", 3, ("r3", 3)),
        ("insert", 3, ("other", 3)),
    ]


def test_what_vanishes_is_deleted_and_a_gap_says_so(lines: Lines) -> None:
    lines.write(BIG, 0, 2, {0: [("a", 1)], 1: [("b", 2)]}, TENTATIVE)
    lines.write(BIG, 0, 1, {})
    lines.write(BIG, 1, 2, {}, GAP)
    changes = lines.changes(BIG, 1)
    assert [(c.type.value, c.values, c.stability) for c in changes] == [
        ("delete", ("a", 1), STABLE),
        ("delete", ("b", 2), GAP),
    ]


def test_several_versions_between_two_are_reported_as_their_difference(lines: Lines) -> None:
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    lines.write(BIG, 1, 3, {1: [("t", 1)], 2: [("t", 2)]}, TENTATIVE)
    lines.write(BIG, 1, 2, {1: [("s", 1)]})
    last = lines.write(BIG, 2, 3, {2: [("t", 2)]})
    assert [(c.type.value, c.version, c.values) for c in lines.changes(BIG, 1)] == [
        ("insert", 3, ("s", 1)),
        ("insert", last, ("t", 2)),
    ]
    assert lines.told(BIG, 0, until=Version(2)) == [
        ("insert", 0, ("a", 1)),
        ("insert", 1, ("t", 1)),
        ("insert", 2, ("t", 2)),
    ]


def test_only_buckets_that_begin_in_the_part_are_told(lines: Lines) -> None:
    lines.write(BIG, 0, 4, {at: [("r", at)] for at in range(4)})
    part = Range(WIDTH_US, 3 * WIDTH_US)
    assert lines.told(BIG, 0, part=part) == [("insert", 1, ("r", 1)), ("insert", 2, ("r", 2))]


def test_compaction_changes_nothing(lines: Lines) -> None:
    for at in range(10):
        lines.write(BIG, at, at + 1, {at: [("r", at)]})
    before = lines.told(BIG, 0)
    status = line_of(lines.catalog, BIG)
    (run,) = runs_to_compact(lines.catalog.segments(BIG))
    assert compact_run(lines.catalog, lines.home.storage, status, run) is not None
    assert lines.told(BIG, 10) == []
    assert lines.told(BIG, 0) == before


def test_a_limit_cuts_between_versions_and_never_inside_one(lines: Lines) -> None:
    for at in range(6):
        lines.write(BIG, at, at + 1, {at: [("r", n) for n in range(10)]})
    answer = lines.answer(BIG, 0, rows_max=25)
    assert (answer.until.version, answer.has_more) == (2, True)
    small = lines.answer(BIG, 2, rows_max=1)
    assert (small.until.version, len(list(small.rows(lines.home.storage)))) == (3, 10)
    assert not lines.answer(BIG, 3, rows_max=30).has_more


def test_what_was_trimmed_is_expired_and_never_left_out_silently(lines: Lines) -> None:
    lines.write(BIG, 0, 2, {0: [("a", 1)]})
    lines.write(BIG, 2, 4, {2: [("b", 1)]}, TENTATIVE)
    lines.write(BIG, 2, 4, {2: [("c", 1)]})
    lines.write(BIG, 4, 6, {4: [("d", 1)]})
    lines.trim(BIG, 3)
    for since in (0, 1, 2):
        with pytest.raises(Expired, match="trimmed before"):
            lines.answer(BIG, since)
    # At version 3 all before the trim was final: nothing of it has changed since.
    assert lines.told(BIG, 3) == [("insert", 4, ("d", 1))]
    kept = Range(3 * WIDTH_US, FOREVER_US)
    assert lines.told(BIG, 0, part=kept) == [("insert", 4, ("d", 1))]


def test_versions_of_another_line_are_refused(lines: Lines) -> None:
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    lines.write(BIG, 1, 2, {1: [("a", 1)]})
    with pytest.raises(Refused, match="newest is 2"):
        lines.answer(BIG, 3)
    with pytest.raises(Refused, match="--until 1 is before"):
        lines.answer(BIG, 2, until=Version(1))
    line = line_of(lines.catalog, BIG)
    position = lines.answer(BIG, 0).position
    assert str(position).startswith("2:")
    assert not changes_of(lines.catalog, line, position, EVERYTHING).buckets
    for other in (Position(Version(2), "ab" * 32), Position(Version(9), position.chain)):
        with pytest.raises(Diverged, match="start again"):
            changes_of(lines.catalog, line, other, EVERYTHING)


def test_a_damaged_file_is_reported_by_its_name(lines: Lines) -> None:
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    (path,) = lines.home.storage.rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(Unavailable, match="damaged"):
        lines.changes(BIG, 0)


@pytest.mark.parametrize("stream", [SUMS, BIG])
@pytest.mark.parametrize("seed", long_but(1, range(4), quick=True))
def test_whoever_applies_the_changes_has_what_a_reader_of_that_version_has(
    lines: Lines, stream: str, seed: int
) -> None:
    chance = random.Random(seed)
    name = SUMS if stream == SUMS else BIG
    while b.next_write(lines, chance, name, 24):
        pass
    last = line_of(lines.catalog, stream).version
    versions = sorted({0, last, *chance.sample(range(1, last), 4)})
    target: Held = Held()
    for since, until in pairwise(versions):
        apply(target, lines.changes(name, since, until=Version(until)))
        assert target == lines.held_at(name, Version(until))
