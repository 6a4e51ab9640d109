"""The commit: keyed, whole, and by the laws S1, S2, S3."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medusa_core.commits import VERIFY, Commit, CommitResult, OutputSegment, StepMetrics
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import FOREVER_US
from medusa_core.names import PlanId, Version
from medusa_core.segments import Segment, Stability
from pipelines.catalog.interface import Catalog
from pipelines.catalog.records import Assignment, StreamStatus
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest

TENTATIVE, GAP = Stability.TENTATIVE, Stability.GAP


def status(catalog: Catalog, stream: a.StreamName = a.SUMS) -> StreamStatus:
    return next(s for s in catalog.streams() if s.stream.name == stream)


def spans(segments: tuple[Segment, ...]) -> list[tuple[int, int, str, int]]:
    """From and to in buckets, stability, version."""
    return [
        (s.range.from_us // a.WIDTH_US, s.range.to_us // a.WIDTH_US, s.stability.value, s.version)
        for s in segments
    ]


def write(catalog: Catalog, *segments: OutputSegment, ends: bool = False) -> Version:
    return catalog.commit(a.a_commit(*segments, ends=ends)).versions[a.SUMS]


def test_a_segment_is_read_as_it_was_written(catalog: Catalog) -> None:
    expected = a.a_segment(0, 4, rows={0: 5, 3: 2})
    catalog.commit(a.a_commit(expected, lineage=(a.a_read(),)))
    (found,) = catalog.segments(a.SUMS)
    assert (found.range, found.stability, found.buckets, found.files, found.version) == (
        expected.range, expected.stability, expected.buckets, expected.files, 1)  # fmt: skip
    assert (found.producer, found.plan) == (a.ME, a.PLAN)
    assert catalog.lineage(found) == (a.a_read(),)


def test_a_run_of_empty_buckets_is_one_segment_without_a_file(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 1_000_000))
    (found,) = catalog.segments(a.SUMS)
    assert (found.files, dict(found.buckets)) == ((), {})
    assert found.range == a.buckets(0, 1_000_000)


def test_the_same_commit_sent_again_gets_its_first_answer(catalog: Catalog) -> None:
    commit = a.a_commit(a.a_segment(0, 1, rows={0: 1}))
    first = catalog.commit(commit)
    again = catalog.commit(commit)
    assert again.again
    assert not first.again
    assert (again.versions, again.committed_at_ms) == (first.versions, first.committed_at_ms)
    assert len(catalog.steps()) == 1


def test_the_first_reply_is_found_before_the_lease_is_checked(catalog: Catalog) -> None:
    commit = a.a_commit(a.a_segment(0, 1))
    catalog.commit(commit)
    catalog.release_lease(a.a_lease())
    assert catalog.commit(commit).again


def test_versions_count_up_per_stream_and_all_segments_of_a_commit_share_one(
    catalog: Catalog,
) -> None:
    assert write(catalog, a.a_segment(0, 1), a.a_segment(1, 3)) == 1
    assert write(catalog, a.a_segment(3, 4)) == 2
    assert [s.version for s in catalog.segments(a.SUMS)] == [1, 1, 2]
    assert status(catalog, a.BIG).version == 0


@pytest.mark.parametrize("final", [Stability.STABLE, GAP])
@pytest.mark.parametrize("later", list(Stability))
def test_what_is_final_is_never_superseded(
    catalog: Catalog, final: Stability, later: Stability
) -> None:
    write(catalog, a.a_segment(0, 4, final))
    with pytest.raises(Conflict, match=f"is {final.value} over"):
        write(catalog, a.a_segment(3, 5, later))
    assert spans(catalog.segments(a.SUMS)) == [(0, 4, final.value, 1)]


def test_a_tentative_segment_is_not_superseded_by_a_tentative_one(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 4, TENTATIVE))
    other = a.a_commit(a.a_segment(0, 4, TENTATIVE, rows={0: 1}), lineage=(a.a_read(),))
    with pytest.raises(Conflict, match="is tentative over"):
        catalog.commit(other)


def test_a_correction_splits_a_tentative_segment_and_the_rest_stays_as_it_was(
    catalog: Catalog,
) -> None:
    old = a.a_segment(0, 6, TENTATIVE, rows={0: 1, 2: 2, 5: 3}, missing=(a.SRC,))
    catalog.commit(a.a_commit(old, lineage=(a.a_read(version=9),)))
    write(catalog, a.a_segment(2, 4, rows={2: 7}))
    found = catalog.segments(a.SUMS)
    assert spans(found) == [(0, 2, "tentative", 1), (2, 4, "stable", 2), (4, 6, "tentative", 1)]
    before, _, after = found
    for part in (before, after):
        assert part.buckets == {at: d for at, d in old.buckets.items() if part.range.holds(at)}
        assert (part.files, part.missing, part.age_ms) == (old.files, (a.SRC,), 0)
        assert catalog.lineage(part) == (a.a_read(version=9),)


def test_a_remainder_without_rows_names_no_file(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 3, TENTATIVE, rows={2: 1}))
    write(catalog, a.a_segment(2, 3, rows={2: 1}))
    assert [bool(s.files) for s in catalog.segments(a.SUMS)] == [False, True]


def test_one_commit_may_correct_several_parts_of_a_tentative_segment(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 8, TENTATIVE, rows=dict.fromkeys(range(8), 1)))
    write(catalog, a.a_segment(5, 6), a.a_segment(1, 3))
    assert spans(catalog.segments(a.SUMS)) == [
        (0, 1, "tentative", 1),
        (1, 3, "stable", 2),
        (3, 5, "tentative", 1),
        (5, 6, "stable", 2),
        (6, 8, "tentative", 1),
    ]


def test_one_segment_may_correct_several_tentative_ones(catalog: Catalog) -> None:
    for at in range(0, 6, 2):
        write(catalog, a.a_segment(at, at + 2, TENTATIVE))
    write(catalog, a.a_segment(1, 5, GAP))
    assert spans(catalog.segments(a.SUMS)) == [
        (0, 1, "tentative", 1), (1, 5, "gap", 4), (5, 6, "tentative", 3)]  # fmt: skip


def test_every_version_can_be_read_as_it_was(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 4, TENTATIVE, rows={0: 1}))
    first = catalog.segments(a.SUMS)
    write(catalog, a.a_segment(1, 2))
    second = catalog.segments(a.SUMS)
    write(catalog, a.a_segment(0, 1), a.a_segment(4, 5))
    assert catalog.segments(a.SUMS, as_of=Version(0)) == ()
    assert catalog.segments(a.SUMS, as_of=Version(1)) == first
    assert catalog.segments(a.SUMS, as_of=Version(2)) == second
    assert catalog.segments(a.SUMS, as_of=Version(3)) == catalog.segments(a.SUMS)
    assert spans(catalog.segments(a.SUMS, a.buckets(0, 1), as_of=Version(2))) == [
        (0, 1, "tentative", 1)]  # fmt: skip


def test_a_range_of_a_stream_is_read_alone(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 2), a.a_segment(2, 4), a.a_segment(4, 6))
    assert spans(catalog.segments(a.SUMS, a.buckets(2, 4))) == [(2, 4, "stable", 1)]
    assert len(catalog.segments(a.SUMS, a.buckets(1, 3), producer=a.ME)) == 2
    assert catalog.segments(a.SUMS, producer=a.Producer(a.ALPHA, replica=3)) == ()


def test_the_boundary_passes_what_is_there_without_a_hole(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 2))
    write(catalog, a.a_segment(4, 6))
    assert (status(catalog).origin_us, status(catalog).boundary_us) == (0, 2 * a.WIDTH_US)
    write(catalog, a.a_segment(2, 4, TENTATIVE))
    assert status(catalog).boundary_us == 6 * a.WIDTH_US


def test_a_line_that_ends_has_a_boundary_behind_all_time(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 2), ends=True)
    assert (status(catalog).boundary_us, status(catalog).end_us) == (FOREVER_US, 2 * a.WIDTH_US)
    with pytest.raises(Refused, match=r"end|life"):
        write(catalog, a.a_segment(2, 3))


def test_a_line_does_not_end_before_a_hole(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 1))
    with pytest.raises(Refused, match="cannot end"):
        write(catalog, a.a_segment(2, 3), ends=True)


def test_a_correction_after_the_end_is_possible(catalog: Catalog) -> None:
    write(catalog, a.a_segment(0, 2, TENTATIVE), ends=True)
    write(catalog, a.a_segment(0, 2, rows={1: 1}))
    assert spans(catalog.segments(a.SUMS)) == [(0, 2, "stable", 2)]
    assert status(catalog).boundary_us == FOREVER_US


REFUSED: dict[str, Callable[[], Commit]] = {
    "off the grid": lambda: a.a_commit(
        OutputSegment(stream=a.SUMS, range=a.Range(4 * a.WIDTH_US, 4 * a.WIDTH_US + 1),
                      stability=Stability.STABLE)
    ),
    "bucket off the grid": lambda: a.a_commit(
        OutputSegment(stream=a.SUMS, range=a.buckets(4, 5), stability=Stability.STABLE,
                      buckets={4 * a.WIDTH_US + 1: a.Digest(1, 1, 1)}, files=(a.a_file(1),))
    ),
    "a gap with rows": lambda: a.a_commit(a.a_segment(4, 5, GAP, rows={4: 1})),
    "before the origin": lambda: a.a_commit(a.a_segment(-1, 0)),
    "overlapping itself": lambda: a.a_commit(a.a_segment(4, 6), a.a_segment(5, 7)),
    "another fragment's stream": lambda: a.a_commit(a.a_segment(4, 5, stream=a.BIG)),
    "an unknown stream": lambda: a.a_commit(a.a_segment(4, 5, stream=a.StreamName("none"))),
    "an unknown plan": lambda: a.a_commit(a.a_segment(4, 5), plan=PlanId("none")),
    "a file of other content": lambda: a.a_commit(
        a.a_segment(4, 5, rows={4: 1}, file=a.a_file(1, "files/first", sha256="cd"))
    ),
    "a file of another stream": lambda: a.a_commit(
        a.a_segment(4, 5, stream=a.BIG, rows={4: 1}, file=a.a_file(1, "files/first")),
        lease=a.a_lease(a.TAIL),
    ),
    "quarantine of an unknown stream": lambda: a.a_commit(
        a.a_segment(4, 5),
        quarantine=(a.QuarantinedRecord(stream=a.StreamName("none"), origin="", position=None,
                                        field="", reason="", content=""),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("commit", REFUSED.values(), ids=list(REFUSED))
def test_a_commit_that_cannot_be_is_refused_and_leaves_nothing(
    catalog: Catalog, commit: Callable[[], Commit]
) -> None:
    first = a.a_segment(0, 4, TENTATIVE, rows={0: 1}, file=a.a_file(1, "files/first"))
    write(catalog, first)
    before = (catalog.streams(), catalog.segments(a.SUMS), catalog.steps())
    with pytest.raises(Refused):
        catalog.commit(commit())
    assert (catalog.streams(), catalog.segments(a.SUMS), catalog.steps()) == before
    assert write(catalog, a.a_segment(4, 5)) == 2, "a refused commit uses no version"


def test_a_file_may_serve_several_segments_and_commits(catalog: Catalog) -> None:
    file = a.a_file(2)
    write(catalog, a.a_segment(0, 1, rows={0: 1}, file=file))
    write(catalog, a.a_segment(1, 2, rows={1: 1}, file=file))
    assert [s.files for s in catalog.segments(a.SUMS)] == [(file,), (file,)]


def test_digests_are_exact_beyond_a_machine_word(catalog: Catalog) -> None:
    huge = a.Digest(2**40, 2**104 - 1, 2**104 - 3)
    segment = OutputSegment(stream=a.SUMS, range=a.buckets(0, 1), stability=Stability.STABLE,
                            buckets={0: huge}, files=(a.a_file(2**40),))  # fmt: skip
    write(catalog, segment)
    assert catalog.segments(a.SUMS)[0].digest == huge


def test_time_before_the_epoch_is_time_like_any_other(catalog: Catalog) -> None:
    write(catalog, a.a_segment(-7, -3, rows={-7: 1, -4: 2}))
    assert spans(catalog.segments(a.SUMS)) == [(-7, -3, "stable", 1)]
    assert status(catalog).boundary_us == -3 * a.WIDTH_US


def test_a_plan_that_was_deployed_but_never_assigned_to_the_fragment_commits_nothing(
    catalog: Catalog,
) -> None:
    another = PlanId("plan-two")
    catalog.deploy(a.a_deployment(plan=another, assignments=()))
    with pytest.raises(Refused, match="never assigned"):
        catalog.commit(a.a_commit(a.a_segment(0, 1), plan=another))
    catalog.deploy(
        a.a_deployment(plan=another, assignments=(a.an_assignment(a.TAIL, a.SECOND, plan=another),))
    )
    with pytest.raises(Refused, match="never assigned"):
        catalog.commit(a.a_commit(a.a_segment(0, 1), plan=another))
    assert catalog.steps() == ()


def test_no_segment_is_dropped_for_want_of_a_line(home: HomeUnderTest, catalog: Catalog) -> None:
    extra = deploy_another_output(catalog, a.a_deployment().assignments)
    home.take_line_away(extra, a.ME)
    segments = (a.a_segment(0, 1, rows={0: 1}), a.a_segment(0, 1, stream=extra, rows={0: 1}))
    with pytest.raises(Refused, match="extra has no line"):
        catalog.commit(a.a_commit(*segments))
    with pytest.raises(Refused, match="extra has no line"):
        catalog.commit(a.a_commit(segments[1]))
    assert (catalog.steps(), catalog.segments(a.SUMS)) == ((), ())


def test_a_replica_that_was_assigned_before_writes_a_new_output_too(catalog: Catalog) -> None:
    replica = a.Producer(a.ALPHA, 1)
    later = a.an_assignment(a.MAIN, a.SECOND, replica)
    catalog.deploy(a.a_deployment(assignments=(later,)))
    extra = deploy_another_output(catalog, (a.an_assignment(a.MAIN),))
    lease = catalog.acquire_lease(a.a_key(producer=replica), a.SECOND, "replica", a.HOUR_MS)
    segments = (a.a_segment(0, 1, rows={0: 1}), a.a_segment(0, 1, stream=extra, rows={0: 1}))
    made = catalog.commit(a.a_commit(*segments, lease=lease))
    assert made.versions == {a.SUMS: 1, extra: 1}
    assert [s.producer for s in catalog.segments(extra)] == [replica]


def deploy_another_output(catalog: Catalog, assignments: tuple[Assignment, ...]) -> a.StreamName:
    extra = a.StreamName("extra")
    fragments = {**a.a_deployment().fragments, a.MAIN: ((a.SRC,), (a.SUMS, extra))}
    deployment = a.a_deployment(fragments=fragments, assignments=assignments)
    catalog.deploy(a.replace_streams(deployment, (*deployment.streams, a.a_stream(extra))))
    return extra


def test_a_step_is_kept_with_its_metrics_and_its_quarantined_records(catalog: Catalog) -> None:
    metrics = StepMetrics(records_in=5, records_out=2, spark_jobs=1,
                          phases_ms={"write": 2.5, VERIFY: 900.0})  # fmt: skip
    commit = Commit(
        lease=a.a_lease(),
        plan=a.PLAN,
        cause=a.Cause.CORRECTION,
        segments=(a.a_segment(0, 1), a.a_segment(3, 4)),
        quarantine=(a.a_bad_record("first"), a.a_bad_record("second")),
        metrics=metrics,
    )
    catalog.commit(commit)
    (step,) = catalog.steps()
    assert (step.commit_key, step.fragment, step.plan) == (commit.key, a.MAIN, a.PLAN)
    assert (step.cause, step.range, step.versions) == ("correction", a.buckets(0, 4), {a.SUMS: 1})
    assert step.metrics == metrics
    assert step.metrics.step_ms == 2.5
    assert catalog.step_costs()[a.MAIN].step_ms == 2
    assert [record.reason for record in catalog.quarantined()] == ["first", "second"]


def test_the_last_steps_are_given_in_the_order_they_were_made(catalog: Catalog) -> None:
    for at in range(4):
        write(catalog, a.a_segment(at, at + 1))
    starts = [step.range.from_us // a.WIDTH_US for step in catalog.steps(2)]
    assert starts == [2, 3]


def test_a_record_that_no_database_can_hold_goes_to_quarantine_too(catalog: Catalog) -> None:
    bad = a.QuarantinedRecord(stream=a.SRC, origin="a\0b", position=None, field="at",
                              reason="not UTF-8", content="\udcff\0x")  # fmt: skip
    catalog.commit(a.a_commit(a.a_segment(0, 1), quarantine=(bad,)))
    (found,) = catalog.quarantined()
    assert found == bad
    assert found.content.endswith("x")


def test_several_commits_in_one_call_are_each_whole_or_not_at_all(catalog: Catalog) -> None:
    stood = a.a_commit(a.a_segment(0, 1))
    catalog.commit(stood)
    commits = [
        a.a_commit(a.a_segment(0, 2, stream=a.BIG), lease=a.a_lease(a.TAIL)),
        a.a_commit(a.a_segment(0, 3)),
        stood,
        a.a_commit(a.a_segment(1, 2), lease=a.a_lease(holder="another")),
        a.a_commit(a.a_segment(1, 2)),
    ]
    big, over, again, anothers, next_ = catalog.commit_many(commits)
    assert isinstance(big, CommitResult)
    assert big.versions == {a.BIG: 1}
    assert isinstance(over, Conflict)
    assert isinstance(again, CommitResult)
    assert again.again
    assert isinstance(anothers, Conflict)
    assert isinstance(next_, CommitResult)
    assert next_.versions == {a.SUMS: 2}
    assert [s.range for s in catalog.segments(a.SUMS)] == [a.buckets(0, 1), a.buckets(1, 2)]
    assert len(catalog.steps()) == 3


def test_several_commits_sent_again_find_the_first(catalog: Catalog) -> None:
    commits = [
        a.a_commit(a.a_segment(0, 1)),
        a.a_commit(a.a_segment(0, 1, stream=a.BIG), lease=a.a_lease(a.TAIL)),
    ]
    first = catalog.commit_many(commits)
    again = catalog.commit_many(commits)
    assert [isinstance(c, CommitResult) and c.again for c in first] == [False, False]
    assert [isinstance(c, CommitResult) and c.again for c in again] == [True, True]
    assert catalog.commit_many(()) == ()
