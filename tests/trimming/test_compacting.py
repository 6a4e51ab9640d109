"""A compacted stream reads equal, row for row, and its old files stay for those who read them."""

from __future__ import annotations

import os

import pytest

from medusa_core.commits import Hold
from medusa_core.errors import Diverged, Unavailable
from medusa_core.grid import Range
from medusa_core.segments import Read, Segment, Stability
from medusa_core.trims import PROGRESS
from pipelines.spark.inputs import input_records, read_table
from pipelines.storage.compaction import FILES_MIN, compact_run, runs_to_compact
from pipelines.storage.orphans import find_orphans
from pipelines.storage.segment_files import read_checked
from pipelines.storage.segment_rows import columns_of
from tests.catalog import building as a
from tests.trimming.building import BIG, SUMS, WIDTH_US, Store, rows_in

Prints = pytest.CaptureFixture[str]
MANY = FILES_MIN + 4


def written(store: Store, count: int = MANY) -> None:
    """So many small files of `sums`, all of them read already."""
    for at in range(count):
        store.write(SUMS, at, at + 1, rows=1 + at % 3)
    store.write(BIG, 0, count)


def unchanged(segments: list[Segment]) -> list[tuple[object, ...]]:
    return [(s.range, s.version, s.stability, s.plan, s.buckets) for s in segments]


def test_a_compacted_stream_reads_equal_row_for_row(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    written(store)
    before, rows = list(store.segments(SUMS)), store.rows(SUMS)
    read = store.document(monkeypatch, capsys, "read", SUMS, "--limit", "1000")
    asked = store.document(monkeypatch, capsys, "trim", "--compact", "--explain")
    assert [(c["segments"], c["files"], c["path"]) for c in asked["compacted"]] == [
        (MANY, MANY, None)
    ]
    done = store.document(monkeypatch, capsys, "trim", "--compact")
    after = list(store.segments(SUMS))
    (whole,) = {file for segment in after for file in segment.files}
    assert [(c["segments"], c["files"], c["path"]) for c in done["compacted"]] == [
        (MANY, MANY, whole.path)
    ]
    assert rows_in(store.root, whole) == whole.rows == len(rows)
    assert unchanged(after) == unchanged(before)
    assert store.rows(SUMS) == rows
    assert store.document(monkeypatch, capsys, "read", SUMS, "--limit", "1000") == read
    again = store.document(monkeypatch, capsys, "trim", "--compact")
    assert again["compacted"] == []


@pytest.mark.long(quick=True)
def test_a_step_reads_its_own_buckets_from_a_compacted_file(store: Store) -> None:
    written(store)
    columns = columns_of(store.status(SUMS).stream)
    reads = [
        Read(output=BIG, input=SUMS, producer=a.ME, range=s.range, version=s.version)
        for s in store.segments(SUMS)[3:5]
    ]

    def table() -> object:
        records = input_records(SUMS, columns, store.segments(SUMS), reads)
        return read_table(store.root, records).to_pylist()

    before = table()
    compact_run(store.home.catalog, store.root, store.status(SUMS), store.segments(SUMS))
    assert table() == before


@pytest.mark.long(quick=True)
def test_old_files_stay_for_the_grace_period_of_orphans(store: Store) -> None:
    written(store)
    before = store.segments(SUMS)
    for segment in before:
        for file in segment.files:
            os.utime(store.root / file.path, (0, 0))
    compact_run(store.home.catalog, store.root, store.status(SUMS), before)
    named = store.home.catalog.named_files
    touched_s = max((store.root / f.path).stat().st_mtime for s in before for f in s.files)
    assert find_orphans(store.root, named, touched_s + 3_500, 3_600) == ()
    for segment in before:
        assert read_checked(store.root, segment.files[0]), "who has its name may read it"
    assert len(find_orphans(store.root, named, touched_s + 3_601, 3_600)) == MANY


@pytest.mark.long(quick=True)
def test_held_segments_are_not_compacted(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    written(store)
    hold = Hold(stream=SUMS, holder="beta", purpose="cursor", from_us=(MANY - 2) * WIDTH_US)
    store.home.catalog.place_hold(hold)
    done = store.document(monkeypatch, capsys, "trim", "--compact")
    assert [c["segments"] for c in done["compacted"]] == [MANY - 2]
    assert not [h for h in store.home.catalog.holds(SUMS) if h.purpose == PROGRESS]


@pytest.mark.long(quick=True)
def test_what_is_gone_meanwhile_is_left_alone(store: Store) -> None:
    written(store)
    run = store.segments(SUMS)
    store.trim(SUMS, 1)
    assert compact_run(store.home.catalog, store.root, store.status(SUMS), run) is None
    assert len({f for s in store.segments(SUMS) for f in s.files}) == MANY - 1


def test_a_damaged_file_is_never_made_part_of_another(store: Store) -> None:
    written(store)
    run = store.segments(SUMS)
    damaged = store.root / run[2].files[0].path
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    with pytest.raises(Unavailable, match="damaged"):
        compact_run(store.home.catalog, store.root, store.status(SUMS), run)
    assert store.segments(SUMS) == run


@pytest.mark.long(quick=True)
def test_rows_that_the_digest_does_not_tell_are_no_part_of_another_file(store: Store) -> None:
    written(store)
    (first, second, *_) = store.segments(SUMS)
    wrong = Segment(
        stream=SUMS,
        producer=a.ME,
        range=first.range,
        stability=Stability.STABLE,
        version=first.version,
        plan=first.plan,
        buckets={first.range.from_us: second.digest},
        files=first.files,
    )
    with pytest.raises(Diverged, match="other rows"):
        compact_run(store.home.catalog, store.root, store.status(SUMS), [wrong, second])


def a_segment(at: int, size_bytes: int = 10, stability: Stability = Stability.STABLE,
              path: str | None = None) -> Segment:  # fmt: skip
    file = a.SegmentFile(path=path or f"f/{at}", size_bytes=size_bytes, sha256="ab", rows=1)
    return Segment(
        stream=SUMS,
        producer=a.ME,
        range=Range(at * WIDTH_US, (at + 1) * WIDTH_US),
        stability=stability,
        version=a.Version(1),
        plan=a.PLAN,
        buckets={at * WIDTH_US: a.Digest(1, 1, 1)},
        files=(file,),
    )


def test_runs_are_of_many_small_files_of_what_is_stable() -> None:
    many = [a_segment(at) for at in range(FILES_MIN)]
    assert runs_to_compact(many) == [tuple(many)]
    assert runs_to_compact(many[1:]) == [], "few files are left alone"
    assert runs_to_compact([a_segment(at, path="f/one") for at in range(99)]) == [], "one file"
    large = [*many, a_segment(FILES_MIN, size_bytes=2_000_000)]
    assert runs_to_compact([*large, *(a_segment(20 + at) for at in range(3))]) == [tuple(many)]
    tentative = a_segment(4, stability=Stability.TENTATIVE)
    assert runs_to_compact([*many[:4], tentative, *many[5:]]) == []
    heavy = [a_segment(at, size_bytes=900_000) for at in range(40)]
    assert [len(run) for run in runs_to_compact(heavy)] == [17, 17], (
        "16 MB at most, 8 files at least"
    )
