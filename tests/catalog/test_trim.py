"""Buckets go when nothing needs them, and never under a hold (S7): both catalogs alike."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer, Stability
from medusa_core.trims import TrimLimit, TrimResult
from pipelines.catalog.interface import Catalog
from pipelines.catalog.records import StreamStatus
from tests.catalog import building as a
from tests.catalog.homes_under_test import Call, HomeUnderTest

TENTATIVE = Stability.TENTATIVE
MINUTE_MS = 60_000
NOBODY = {a.TAIL: FOREVER_US}
"""What this home's own readers of `sums` still need: nothing."""


def trim(
    catalog: Catalog,
    before: int,
    *,
    needed: Mapping[str, int] = NOBODY,
    stream: StreamName = a.SUMS,
    segments_max: int = 1_000,
    explain: bool = False,
) -> TrimResult:
    """Trim a line before a bucket."""
    return catalog.trim(stream, a.ME, before * a.WIDTH_US, needed=needed,
                        segments_max=segments_max, explain=explain)  # fmt: skip


def write(catalog: Catalog, *segments: a.OutputSegment, ends: bool = False) -> None:
    catalog.commit(a.a_commit(*segments, ends=ends))


def write_buckets(catalog: Catalog, count: int) -> list[a.SegmentFile]:
    """So many buckets of `sums` with a row each, and the file of each."""
    files = []
    for at in range(count):
        files.append(a.a_file(1))
        write(catalog, a.a_segment(at, at + 1, rows={at: 1}, file=files[-1]))
    return files


def status(catalog: Catalog, stream: StreamName = a.SUMS) -> StreamStatus:
    return next(s for s in catalog.streams() if s.stream.name == stream)


def hold(
    catalog: Catalog, from_bucket: int, *, limit_ms: int | None = None, purpose: str = "cursor"
) -> None:
    catalog.place_hold(
        Hold(
            stream=a.SUMS,
            holder="beta",
            purpose=purpose,
            from_us=from_bucket * a.WIDTH_US,
            limit_ms=limit_ms,
        )
    )


def starts(catalog: Catalog) -> list[int]:
    return [s.range.from_us // a.WIDTH_US for s in catalog.segments(a.SUMS)]


def test_buckets_without_a_hold_are_removed_with_their_files(catalog: Catalog) -> None:
    files = write_buckets(catalog, 4)
    trimmed = trim(catalog, 3)
    assert (trimmed.from_us, trimmed.trimmed_us) == (None, 3 * a.WIDTH_US)
    assert (trimmed.segments, trimmed.rows, trimmed.held_by) == (3, 3, None)
    assert trimmed.files == tuple(sorted(files[:3], key=lambda f: f.path))
    assert starts(catalog) == [3]
    assert status(catalog).trimmed_us == status(catalog).kept_from_us == 3 * a.WIDTH_US
    assert catalog.named_files([f.path for f in files]) == {files[3].path}


def test_to_explain_a_trim_changes_nothing(catalog: Catalog) -> None:
    write_buckets(catalog, 4)
    hold(catalog, 2)
    asked = trim(catalog, 3, explain=True)
    assert (status(catalog).trimmed_us, starts(catalog)) == (None, [0, 1, 2, 3])
    assert [h.purpose for h in catalog.holds(a.SUMS)] == ["cursor"]
    assert trim(catalog, 3) == asked


def test_a_trim_stops_at_the_first_hold_and_says_whose(catalog: Catalog) -> None:
    write_buckets(catalog, 6)
    hold(catalog, 4)
    before_ms = catalog.read_clock_ms()
    catalog.acknowledge(a.SUMS, Participant("gamma"), 2 * a.WIDTH_US, limit_ms=a.HOUR_MS)
    stopped = trim(catalog, 5).held_by
    assert stopped is not None
    assert stopped.since_ms is not None
    assert stopped.since_ms >= before_ms
    assert stopped == TrimLimit(
        holder="gamma",
        purpose="import",
        from_us=2 * a.WIDTH_US,
        since_ms=stopped.since_ms,
        limit_ms=a.HOUR_MS,
    )
    assert starts(catalog) == [2, 3, 4, 5]


def test_a_hold_that_has_run_out_keeps_nothing(home: HomeUnderTest, catalog: Catalog) -> None:
    write_buckets(catalog, 3)
    hold(catalog, 0, limit_ms=5)
    home.let_time_pass(catalog.read_clock_ms() + 5)
    assert trim(catalog, 2).held_by is None
    assert starts(catalog) == [2]


def test_a_hold_that_is_renewed_does_not_run_out(home: HomeUnderTest, catalog: Catalog) -> None:
    write_buckets(catalog, 3)
    hold(catalog, 0, limit_ms=5)
    home.let_time_pass(catalog.read_clock_ms() + 5)
    hold(catalog, 0, limit_ms=a.HOUR_MS)
    assert trim(catalog, 2).trimmed_us is None


def test_a_hold_keeps_until_the_end_of_its_limit(home: HomeUnderTest, catalog: Catalog) -> None:
    write_buckets(catalog, 3)
    hold(catalog, 0, limit_ms=30 * MINUTE_MS)
    home.let_holds_age(28 * MINUTE_MS)
    assert trim(catalog, 2).trimmed_us is None
    home.let_holds_age(3 * MINUTE_MS)
    assert trim(catalog, 2).trimmed_us == 2 * a.WIDTH_US


def test_an_acknowledgement_renews_the_hold_even_if_it_does_not_move_it(
    home: HomeUnderTest, catalog: Catalog
) -> None:
    write_buckets(catalog, 3)
    for _ in range(2):
        catalog.acknowledge(a.SUMS, Participant("beta"), 0, limit_ms=20 * MINUTE_MS)
        home.let_holds_age(15 * MINUTE_MS)
    assert trim(catalog, 2).trimmed_us is None


def test_a_hold_that_is_given_up_keeps_nothing(catalog: Catalog) -> None:
    write_buckets(catalog, 3)
    hold(catalog, 0)
    catalog.release_hold(a.SUMS, "beta", "cursor")
    assert trim(catalog, 2).trimmed_us == 2 * a.WIDTH_US


def test_a_fragment_of_this_home_holds_what_it_has_yet_to_read(catalog: Catalog) -> None:
    write_buckets(catalog, 4)
    trimmed = trim(catalog, 4, needed={a.TAIL: 2 * a.WIDTH_US})
    assert trimmed.trimmed_us == 2 * a.WIDTH_US
    assert trimmed.held_by is not None
    assert (trimmed.held_by.holder, trimmed.held_by.purpose) == (a.TAIL, "progress")
    kept = Hold(stream=a.SUMS, holder=a.TAIL, purpose="progress", from_us=2 * a.WIDTH_US)
    assert catalog.holds(a.SUMS) == (kept,)
    trim(catalog, 4, needed={})
    assert catalog.holds(a.SUMS) == (kept,), "who says nothing keeps the hold that stands"


def test_a_fragment_that_says_nothing_holds_everything(catalog: Catalog) -> None:
    write_buckets(catalog, 3)
    trimmed = trim(catalog, 2, needed={})
    assert trimmed.trimmed_us is None
    assert trimmed.held_by is not None
    assert (trimmed.held_by.holder, trimmed.held_by.from_us) == (a.TAIL, BEGINNING_US)


def test_a_fragment_that_is_no_longer_computed_here_holds_nothing(
    home: HomeUnderTest, catalog: Catalog
) -> None:
    write_buckets(catalog, 3)
    trim(catalog, 2, needed={a.TAIL: 0})
    elsewhere = a.an_assignment(a.TAIL, a.SECOND, Producer(Participant("beta")))
    home.catalog.deploy(a.a_deployment(assignments=(elsewhere,)))
    assert trim(catalog, 2, needed={}).held_by is None
    assert catalog.holds(a.SUMS) == ()


def test_what_is_tentative_is_not_trimmed_until_it_is_corrected(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 1, rows={0: 1}))
    write(catalog, a.a_segment(1, 3, TENTATIVE, rows={1: 1}, missing=(a.SRC,)))
    write(catalog, a.a_segment(3, 5, rows={3: 1}))
    stopped = trim(catalog, 5).held_by
    assert stopped == TrimLimit(holder=None, purpose="tentative", from_us=a.WIDTH_US)
    assert starts(catalog) == [1, 3]
    write(catalog, a.a_segment(1, 3, rows={1: 2}))
    trimmed = trim(catalog, 5)
    assert (trimmed.segments, trimmed.rows, len(trimmed.files)) == (3, 3, 3), "the superseded too"
    assert catalog.segments(a.SUMS, as_of=a.Version(2)) == ()


def test_a_trim_goes_no_further_than_the_boundary(catalog: Catalog) -> None:
    assert trim(catalog, 5).held_by == TrimLimit(
        holder=None, purpose="boundary", from_us=BEGINNING_US
    )
    write(catalog, a.a_segment(0, 1), a.a_segment(2, 3))
    stopped = trim(catalog, 5)
    assert (stopped.trimmed_us, stopped.held_by) == (
        a.WIDTH_US,
        TrimLimit(holder=None, purpose="boundary", from_us=a.WIDTH_US),
    )


def test_a_stream_that_has_ended_is_trimmed_to_its_end(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 3, rows={1: 1}), ends=True)
    trimmed = trim(catalog, 9)
    assert (trimmed.trimmed_us, trimmed.rows) == (3 * a.WIDTH_US, 1)
    assert status(catalog).has_ended


def test_a_segment_that_reaches_over_the_place_stays_whole(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 4, rows={0: 1, 3: 1}))
    trimmed = catalog.trim(a.SUMS, a.ME, 2 * a.WIDTH_US + 7, needed=NOBODY, segments_max=9)
    assert trimmed.trimmed_us == 2 * a.WIDTH_US, "a trim lies on the grid"
    assert (trimmed.segments, starts(catalog)) == (0, [0])


def test_a_grid_goes_on_before_the_epoch(catalog: Catalog) -> None:
    write(catalog, a.a_segment(-3, 1))
    assert trim(catalog, -3).trimmed_us is None
    early = catalog.trim(a.SUMS, a.ME, -a.WIDTH_US - 1, needed=NOBODY, segments_max=9)
    assert early.trimmed_us == -2 * a.WIDTH_US


def test_a_trim_never_moves_back(catalog: Catalog) -> None:
    write_buckets(catalog, 4)
    trim(catalog, 3)
    again = trim(catalog, 1)
    assert (again.from_us, again.trimmed_us) == (3 * a.WIDTH_US, 3 * a.WIDTH_US)
    hold(catalog, 0)
    assert trim(catalog, 4).trimmed_us == 3 * a.WIDTH_US, "what is gone stays gone"


def test_much_is_removed_in_several_calls(catalog: Catalog) -> None:
    write_buckets(catalog, 5)
    calls = [trim(catalog, 5, segments_max=2) for _ in range(4)]
    assert [c.segments for c in calls] == [2, 2, 1, 0]
    assert [c.has_more for c in calls] == [True, True, False, False]
    assert sum(len(c.files) for c in calls) == 5
    assert starts(catalog) == []


def test_a_file_goes_with_the_last_segment_that_names_it(catalog: Catalog) -> None:
    shared = a.a_file(9)
    write(catalog, a.a_segment(0, 6, TENTATIVE, rows={0: 4, 5: 5}, file=shared))
    write(catalog, a.a_segment(2, 4))
    write(catalog, a.a_segment(0, 2, rows={0: 4}))
    assert trim(catalog, 4).trimmed_us == 4 * a.WIDTH_US
    assert catalog.named_files([shared.path]) == {shared.path}, "the second half is tentative"
    write(catalog, a.a_segment(4, 6, rows={5: 5}))
    assert shared in trim(catalog, 6).files


def test_a_landed_file_goes_when_all_its_buckets_are_trimmed_and_lands_once_all_the_same(
    catalog: Catalog,
) -> None:
    landing = a.a_lease(a.LANDING)
    early, late = a.a_batch(0, {0: 2, 1: 1}), a.a_batch(1, {1: 1, 2: 1})
    for batch in (early, late):
        catalog.land(landing, batch)
    catalog.promise(landing, a.SRC, origin_us=0, boundary_us=FOREVER_US, end_us=None)
    closed = a.a_segment(0, 3, stream=a.SRC, rows={0: 2, 1: 2, 2: 1})
    catalog.commit(a.a_commit(closed, lease=landing))
    trimmed = trim(catalog, 2, stream=a.SRC, needed={a.MAIN: FOREVER_US})
    assert trimmed.files == (early.file,)
    assert catalog.landed_files(a.SRC, a.buckets(0, 3)) == (late.file,)
    assert catalog.landed_batches(a.SRC, "query") == {0: 3, 1: 2}
    assert catalog.landed_extent(a.SRC) == (0, 2 * a.WIDTH_US)
    assert not catalog.land(landing, early)


def test_nothing_is_computed_again_where_all_was_final_and_is_trimmed(catalog: Catalog) -> None:
    write_buckets(catalog, 3)
    trim(catalog, 2)
    with pytest.raises(Conflict, match="trimmed"):
        write(catalog, a.a_segment(0, 2, rows={1: 7}))
    write(catalog, a.a_segment(3, 4))
    again = catalog.commit(a.a_commit(a.a_segment(1, 2, rows={1: 1})))
    assert again.again, "what was committed before it was trimmed is answered as before"


def test_no_output_begins_over_input_that_is_gone(home: HomeUnderTest, catalog: Catalog) -> None:
    write_buckets(catalog, 3)
    trim(catalog, 2)
    tail = a.an_assignment(a.TAIL, a.SECOND)
    with pytest.raises(Refused, match="would begin"):
        home.catalog.deploy(a.a_deployment(assignments=(tail,)))
    catalog.commit(a.a_commit(a.a_segment(0, 3, stream=a.BIG), lease=a.a_lease(a.TAIL)))
    home.catalog.deploy(a.a_deployment(assignments=(tail,)))


@pytest.mark.parametrize(
    ("stream", "producer"), [(StreamName("none"), a.ME), (a.SUMS, Producer(a.ALPHA, 7))]
)
def test_only_a_line_of_this_home_is_trimmed(
    catalog: Catalog, stream: StreamName, producer: Producer
) -> None:
    with pytest.raises(Refused):
        catalog.trim(stream, producer, 0, needed={}, segments_max=1)


def test_a_hold_is_placed_before_a_trim_or_after_it(home: HomeUnderTest, catalog: Catalog) -> None:
    write_buckets(catalog, 4)
    holder, trimmer = home.session(), home.session()
    holder.begin()
    hold(holder.catalog, 1)
    pending = home.start(trimmer, lambda c: trim(c, 3))
    assert pending.is_waiting
    holder.end(keep=True)
    assert pending.answer().trimmed_us == a.WIDTH_US
    trimmer.begin()
    trim(trimmer.catalog, 1)
    late = home.start(holder, lambda c: c.acknowledge(a.SUMS, Participant("beta"), 0, 1))
    assert late.is_waiting
    trimmer.end(keep=True)
    late.answer()


def test_a_reader_that_is_acknowledging_holds_up_neither_landing_nor_a_commit(
    home: HomeUnderTest, catalog: Catalog
) -> None:
    landing = a.a_lease(a.LANDING)
    for stream, lease in ((a.SUMS, a.a_lease()), (a.SRC, landing)):
        catalog.commit(a.a_commit(a.a_segment(0, 2, stream=stream), lease=lease))
    reader, writer = home.session(), home.session()
    reader.begin()
    for stream in (a.SRC, a.SUMS):
        reader.catalog.acknowledge(stream, Participant("beta"), a.WIDTH_US, a.HOUR_MS)
    closed = a.a_commit(a.a_segment(2, 3, stream=a.SRC), lease=landing)
    writes: tuple[Call, ...] = (
        lambda c: c.land(landing, a.a_batch(0, {3: 1})),
        lambda c: c.promise(landing, a.SRC, origin_us=0, boundary_us=0, end_us=None),
        lambda c: c.commit(closed),
        lambda c: c.commit(a.a_commit(a.a_segment(2, 3))),
        lambda c: c.acknowledge(a.SUMS, Participant("gamma"), 0, a.HOUR_MS),
        lambda c: c.place_hold(Hold(stream=a.SUMS, holder="x", purpose="y", from_us=0)),
    )
    for write in writes:
        pending = home.start(writer, write)
        assert not pending.is_waiting
        pending.answer()
    reader.end(keep=True)


def test_a_trim_never_passes_the_hold_that_an_open_acknowledgement_places(
    home: HomeUnderTest, catalog: Catalog
) -> None:
    write_buckets(catalog, 4)
    catalog.acknowledge(a.SUMS, Participant("beta"), a.WIDTH_US, limit_ms=1)
    home.let_time_pass(catalog.read_clock_ms() + 1)
    reader, trimmer, writer = home.session(), home.session(), home.session()
    reader.begin()
    reader.catalog.acknowledge(a.SUMS, Participant("beta"), 2 * a.WIDTH_US, a.HOUR_MS)
    pending = home.start(trimmer, lambda c: trim(c, 4))
    assert pending.is_waiting
    committed = home.start(writer, lambda c: c.commit(a.a_commit(a.a_segment(4, 5))))
    assert not committed.is_waiting, "a trim that waits has no lock of the line yet"
    committed.answer()
    reader.end(keep=True)
    trimmed = pending.answer()
    assert (trimmed.trimmed_us, trimmed.held_by.holder) == (2 * a.WIDTH_US, "beta")  # type: ignore[union-attr]


def test_a_failed_acknowledgement_holds_nothing(home: HomeUnderTest, catalog: Catalog) -> None:
    write_buckets(catalog, 4)
    reader, trimmer = home.session(), home.session()
    reader.begin()
    reader.catalog.acknowledge(a.SUMS, Participant("beta"), a.WIDTH_US, a.HOUR_MS)
    pending = home.start(trimmer, lambda c: trim(c, 3))
    reader.end(keep=False)
    assert pending.answer().trimmed_us == 3 * a.WIDTH_US


# ------------------------------------------------------------ compaction


def test_small_files_become_one_under_the_same_version_and_digest(catalog: Catalog) -> None:
    files = write_buckets(catalog, 3)
    before = catalog.segments(a.SUMS)
    whole = a.a_file(2)
    gone = catalog.compact(a.SUMS, a.ME, before[:2], whole)
    after = catalog.segments(a.SUMS)
    assert gone == tuple(sorted(files[:2], key=lambda f: f.path))
    assert [s.files for s in after] == [(whole,), (whole,), (files[2],)]
    assert [(s.range, s.version, s.buckets, s.plan) for s in after] == [
        (s.range, s.version, s.buckets, s.plan) for s in before
    ]
    assert catalog.named_files([f.path for f in (*files, whole)]) == {whole.path, files[2].path}
    assert catalog.compact(a.SUMS, a.ME, before[:2], whole) == (), "the same again is nothing"


def test_a_compacted_file_goes_with_the_last_of_its_segments(catalog: Catalog) -> None:
    write_buckets(catalog, 3)
    whole = a.a_file(3)
    catalog.compact(a.SUMS, a.ME, catalog.segments(a.SUMS), whole)
    assert trim(catalog, 2).files == ()
    assert trim(catalog, 3).files == (whole,)


def test_a_file_with_other_rows_takes_no_place(catalog: Catalog) -> None:
    write_buckets(catalog, 2)
    with pytest.raises(Refused, match="rows"):
        catalog.compact(a.SUMS, a.ME, catalog.segments(a.SUMS), a.a_file(3))


def test_only_what_is_live_and_final_is_compacted(catalog: Catalog) -> None:
    write_buckets(catalog, 2)
    write(catalog, a.a_segment(2, 3, TENTATIVE, rows={2: 1}, missing=(a.SRC,)))
    segments = catalog.segments(a.SUMS)
    with pytest.raises(Conflict):
        catalog.compact(a.SUMS, a.ME, segments, a.a_file(3))
    trim(catalog, 1)
    with pytest.raises(Conflict):
        catalog.compact(a.SUMS, a.ME, segments[:2], a.a_file(2))
