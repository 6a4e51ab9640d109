"""A revision replaces what is final in its ranges; exactly the windows that touch them are owed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from medusa_core.changes import bucket_changes
from medusa_core.commits import Cause, Commit, Hold
from medusa_core.decide import decide
from medusa_core.decisions import ComputeStep
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName, Version
from medusa_core.recalls import RecallRequest, RecallResult
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.segments import Producer, Stability
from pipelines.catalog.interface import Catalog
from pipelines.participant.trimming import needs_of
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest, MemoryHome

WIDTH = a.WIDTH_US
WHY = "a feed was read twice"
BUCKETS = 8
ALL = Limits()


@pytest.fixture
def computed(catalog: Catalog) -> Catalog:
    """Eight closed buckets of one record each, windows of two buckets, and a filter of these."""
    catalog.land(a.a_lease(a.LANDING), a.a_batch(0, dict.fromkeys(range(BUCKETS), 1)))
    catalog.promise(
        a.a_lease(a.LANDING), a.SRC, origin_us=0, boundary_us=BUCKETS * WIDTH, end_us=None
    )
    rows = dict.fromkeys(range(BUCKETS), 1)
    source = a.a_segment(0, BUCKETS, stream=a.SRC, rows=rows)
    catalog.commit(a.a_commit(source, lease=a.a_lease(a.LANDING)))
    run(catalog)
    return catalog


def counts(catalog: Catalog, stream: StreamName, **at: Any) -> dict[int, int]:
    """Rows per bucket of what is live."""
    return {
        at_us // WIDTH: digest.rows
        for segment in catalog.segments(stream, **at)
        for at_us, digest in segment.buckets.items()
    }


def result(catalog: Catalog, step: ComputeStep) -> Mapping[int, int]:
    """What the step computes: of each window its records, of each window of more than one that."""
    (output,), part = step.outputs, step.range
    found: dict[int, int] = {}
    for bucket in range(part.from_us // WIDTH, part.to_us // WIDTH):
        if output == a.SUMS and bucket % 2:
            source = counts(catalog, a.SRC)
            found[bucket] = source.get(bucket - 1, 0) + source.get(bucket, 0)
        elif output == a.BIG and counts(catalog, a.SUMS).get(bucket, 0) > 2:
            found[bucket] = 1
    return {bucket: rows for bucket, rows in found.items() if rows}


def commit_of(catalog: Catalog, step: ComputeStep) -> Commit:
    part, name = step.range, step.fragment.fragment.id
    (output,) = step.outputs
    segment = a.a_segment(
        part.from_us // WIDTH, part.to_us // WIDTH, step.stability, stream=output,
        rows=result(catalog, step),
    )  # fmt: skip
    commit = a.a_commit(segment, lease=a.a_lease(name), lineage=step.reads, ends=step.ends)
    return replace(commit, cause=step.cause)


def steps(catalog: Catalog, limits: Limits = ALL) -> list[ComputeStep]:
    knowledge = catalog.read_knowledge(a.some_fragments(), limits)
    return [d for d in decide(knowledge, knowledge.clock_ms) if isinstance(d, ComputeStep)]


def run(catalog: Catalog, limits: Limits = ALL) -> list[tuple[str, int, int]]:
    """Compute until nothing is owed; which buckets of which stream were computed."""
    done: list[tuple[str, int, int]] = []
    while found := steps(catalog, limits):
        for step in found:
            assert not catalog.commit(commit_of(catalog, step)).again
            part = step.range
            done.append((step.outputs[0], part.from_us // WIDTH, part.to_us // WIDTH))
    return done


def revised(*parts: tuple[int, Mapping[int, int]], **said: Any) -> RevisionRequest:
    """A revision of `src`: per part its first bucket, and the records of each of its buckets."""
    segments = tuple(
        RevisedSegment(
            segment=a.a_segment(
                at, at + len(rows), stream=a.SRC, rows={b: n for b, n in rows.items() if n}
            ),
            plan=a.PLAN,
        )
        for at, rows in parts
    )
    known = {"stream": a.SRC, "producer": a.ME, "generation": 1, "because": WHY, "who": "ada"}
    return RevisionRequest(segments=segments, **{**known, **said})


def owed_to_readers(recalls: tuple[RecallResult, ...]) -> list[tuple[str, int, list[Any]]]:
    return [
        (r.stream, r.generation, [(p.from_us // WIDTH, p.to_us // WIDTH) for p in r.changed])
        for r in recalls
    ]


# ------------------------------------------------------------ what is replaced, and what is owed


def test_a_revision_replaces_its_ranges_and_no_other_bucket(
    computed: Catalog, owner: Catalog
) -> None:
    (before,) = computed.segments(a.SRC)
    done = owner.revise(revised((2, {2: 5}), (5, {5: 0})))
    assert (done.generation, done.version, done.because, done.who) == (2, 2, WHY, "ada")
    assert owed_to_readers((done,)) == [(a.SRC, 2, [(2, 3), (5, 6)])]
    assert done.from_us == 2 * WIDTH
    assert counts(computed, a.SRC) == {0: 1, 1: 1, 2: 5, 3: 1, 4: 1, 6: 1, 7: 1}
    assert [(s.range.from_us // WIDTH, s.version) for s in computed.segments(a.SRC)] == [
        (0, 1), (2, 2), (3, 1), (5, 2), (6, 1),
    ]  # fmt: skip
    kept = [s for s in computed.segments(a.SRC) if s.version == 1]
    assert all(s.files == before.files for s in kept)
    assert counts(computed, a.SRC, as_of=Version(1)) == dict.fromkeys(range(BUCKETS), 1)
    assert computed.recalls(a.SRC) == (done,)
    (line,) = computed.lines(a.SRC)
    assert (line.generation, line.boundary_us) == (2, BUCKETS * WIDTH)


def test_exactly_the_windows_that_touch_a_named_range_are_computed_again(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((2, {2: 5}), (5, {5: 9})))
    assert [s.cause for s in steps(computed)] == [Cause.CORRECTION, Cause.CORRECTION]
    assert run(computed) == [
        (a.SUMS, 3, 4),
        (a.SUMS, 5, 6),
        (a.BIG, 3, 4),
        (a.BIG, 5, 6),
    ]
    assert counts(computed, a.SUMS) == {1: 2, 3: 6, 5: 10, 7: 2}
    assert counts(computed, a.BIG) == {3: 1, 5: 1}
    assert all(s.stability.is_final for s in computed.segments(a.BIG))
    assert [(r.stream, r.who) for r in computed.recalls(a.SUMS)] == [(a.SUMS, "ada")] * 2
    assert run(computed) == []


def test_nothing_behind_a_window_that_did_not_change_is_owed(
    computed: Catalog, owner: Catalog
) -> None:
    # The records of the window move from one of its buckets to the other.
    owner.revise(revised((2, {2: 0, 3: 2})))
    assert run(computed) == [(a.SUMS, 3, 4)]
    assert counts(computed, a.SUMS) == {1: 2, 3: 2, 5: 2, 7: 2}
    (unchanged,) = computed.recalls(a.SUMS)
    assert (unchanged.changed, unchanged.from_us) == ((), FOREVER_US)
    assert [r for r in computed.recalls() if r.stream == a.BIG] == []


def test_a_bucket_that_is_named_and_equal_is_not_owed(computed: Catalog, owner: Catalog) -> None:
    done = owner.revise(revised((2, {2: 1, 3: 1})))
    assert (done.ranges, done.changed) == ((a.buckets(2, 4),), ())
    assert run(computed) == []


def test_a_stream_is_revised_again_and_again(computed: Catalog, owner: Catalog) -> None:
    owner.revise(revised((2, {2: 5})))
    owner.revise(revised((3, {3: 7}), generation=2))
    assert run(computed) == [(a.SUMS, 3, 4), (a.BIG, 3, 4)]
    owner.revise(revised((2, {2: 0, 3: 0}), generation=3))
    assert run(computed) == [(a.SUMS, 3, 4), (a.BIG, 3, 4)]
    assert counts(computed, a.SUMS) == {1: 2, 5: 2, 7: 2}
    assert counts(computed, a.BIG) == {}


def test_new_buckets_are_computed_while_revisions_are_owed(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((2, {2: 5})))
    computed.land(a.a_lease(a.LANDING), a.a_batch(1, {8: 1, 9: 1}))
    computed.promise(a.a_lease(a.LANDING), a.SRC, origin_us=0, boundary_us=10 * WIDTH, end_us=None)
    more = a.a_segment(8, 10, stream=a.SRC, rows={8: 1, 9: 1})
    computed.commit(a.a_commit(more, lease=a.a_lease(a.LANDING)))
    assert set(run(computed)) == {(a.SUMS, 3, 4), (a.SUMS, 8, 10), (a.BIG, 3, 4), (a.BIG, 8, 10)}
    (line,) = computed.lines(a.BIG)
    assert line.boundary_us == 10 * WIDTH


# ------------------------------------------------------------ commits


def test_a_step_that_read_what_was_revised_is_refused(computed: Catalog, owner: Catalog) -> None:
    owner.revise(revised((2, {2: 5})))
    (step,) = steps(computed)
    late = commit_of(computed, step)
    owner.revise(revised((3, {3: 7}), generation=2))
    with pytest.raises(Conflict):
        computed.commit(late)
    assert counts(computed, a.SUMS)[3] == 2
    run(computed)
    assert counts(computed, a.SUMS)[3] == 12


def test_a_correction_of_a_revision_sent_again_finds_the_first(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((2, {2: 5})))
    (step,) = steps(computed)
    commit = commit_of(computed, step)
    first = computed.commit(commit)
    again = computed.commit(commit)
    assert (first.again, again.again) == (False, True)
    assert again.versions == first.versions


def test_a_correction_of_what_was_tentative_sent_again_finds_the_first(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((0, {0: 1})))  # a home in which something was revised keeps other keys
    read = (a.a_read(part=a.buckets(7, 8)),)
    tentative = a.a_segment(8, 10, Stability.TENTATIVE, rows={9: 1}, missing=(a.SRC,))
    computed.commit(a.a_commit(tentative, lineage=read))
    final = a.a_segment(8, 10, rows={9: 1})
    commit = replace(a.a_commit(final, lineage=read), cause=Cause.CORRECTION)
    assert [computed.commit(commit).again for _ in range(3)] == [False, True, True]


def test_a_commit_of_before_a_revision_sent_again_finds_the_first(
    computed: Catalog, owner: Catalog
) -> None:
    lease = a.a_lease(a.LANDING)
    computed.promise(lease, a.SRC, origin_us=0, boundary_us=10 * WIDTH, end_us=None)
    commit = a.a_commit(a.a_segment(8, 10, stream=a.SRC), lease=lease)
    first = computed.commit(commit)
    owner.revise(revised((2, {2: 5})))
    again = computed.commit(commit)
    assert (again.again, again.versions) == (True, first.versions)


def test_a_revision_sent_again_is_made_once(computed: Catalog, owner: Catalog) -> None:
    request = revised((2, {2: 5}))
    assert owner.revise(request) == owner.revise(request)
    assert len(computed.recalls(a.SRC)) == 1


@pytest.mark.parametrize("cause", [Cause.CORRECTION, Cause.NORMAL])
def test_what_is_final_and_read_no_revision_stays(
    computed: Catalog, owner: Catalog, cause: Cause
) -> None:
    owner.revise(revised((2, {2: 5})))
    run(computed)
    other = a.a_segment(6, 8, rows={7: 9})
    read = a.a_read(part=a.buckets(6, 8), version=1)
    with pytest.raises(Conflict):
        computed.commit(replace(a.a_commit(other, lineage=(read,)), cause=cause))
    assert counts(computed, a.SUMS)[7] == 2


def test_no_other_cause_replaces_what_read_a_revision(computed: Catalog, owner: Catalog) -> None:
    owner.revise(revised((2, {2: 5})))
    (step,) = steps(computed)
    with pytest.raises(Conflict):
        computed.commit(replace(commit_of(computed, step), cause=Cause.NORMAL))


def test_a_commit_that_replaces_final_rows_does_so_in_all_its_ranges(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((2, {2: 5})))
    tentative = a.a_segment(8, 10, Stability.TENTATIVE, rows={9: 1}, missing=(a.SRC,))
    read = a.a_read(part=a.buckets(7, 8))
    computed.commit(a.a_commit(tentative, lineage=(read,)))
    (step,) = [one for one in steps(computed) if one.is_revision]
    revision = commit_of(computed, step)
    mixed = (*revision.segments, a.a_segment(8, 10, rows={9: 1}))
    with pytest.raises(Refused, match="commit these ranges apart"):
        computed.commit(replace(revision, segments=mixed))
    assert len(computed.recalls()) == 1, "that of the source"
    computed.commit(revision)
    assert len(computed.recalls()) == 2


# ------------------------------------------------------------ readers


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_changes_report_the_buckets_of_a_revision_and_no_others(
    computed: Catalog, owner: Catalog
) -> None:
    (line,) = computed.lines(a.SUMS)
    owner.revise(revised((2, {2: 5})))
    run(computed)
    whole = a.buckets(0, BUCKETS)
    over = computed.difference(a.SUMS, a.ME, line.version, Version(line.version + 1), whole)
    found = [
        (c.at_us // WIDTH, c.before is not None, c.after is not None)
        for c in bucket_changes(over, whole)
    ]
    assert found == [(3, True, True)]


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_holds_of_those_who_read_again_move_back(computed: Catalog, owner: Catalog) -> None:
    computed.place_cursor(a.SUMS, "mine", a.ME, from_us=0, limit_ms=a.HOUR_MS)
    computed.move_cursor(a.SUMS, "mine", Version(1), a.HOUR_MS)
    needed = {a.MAIN: {a.SRC: 2 * WIDTH}}
    owner.revise(revised((2, {2: 5}), behind={a.SUMS: 3 * WIDTH}, needed=needed))
    assert {h.purpose: h.from_us // WIDTH for h in computed.holds(a.SUMS)} == {"changes": 3}
    assert {h.purpose: h.from_us // WIDTH for h in computed.holds(a.SRC)} == {"recall": 2}


# ------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (revised((7, {7: 1, 8: 1})), "not stable"),
        (revised((0, {0: 1}), producer=Producer(a.ALPHA, 7)), "no line"),
        (revised((2, {2: 5}), needed={a.MAIN: {a.SRC: 0}}), "trimmed"),
        (revised((0, {0: 5})), "trimmed before"),
    ],
    ids=["not final yet", "no line", "input trimmed", "trimmed"],
)
def test_what_cannot_be_revised_is_refused_with_a_sentence(
    computed: Catalog, owner: Catalog, request_: RevisionRequest, words: str
) -> None:
    """By medusa.revise."""
    computed.trim(a.SRC, a.ME, WIDTH, needed={a.MAIN: WIDTH}, segments_max=9)
    with pytest.raises(Refused, match=words):
        owner.revise(request_)
    assert computed.recalls() == ()
    assert run(computed) == []


def test_a_revision_of_rows_that_were_revised_meanwhile_is_refused(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((2, {2: 5})))
    with pytest.raises(Conflict, match="meanwhile"):
        owner.revise(revised((4, {4: 5})))


def test_what_is_computed_is_revised_by_its_sources_alone(
    computed: Catalog, owner: Catalog
) -> None:
    segment = a.a_segment(3, 4, rows={3: 5})
    request = replace(
        revised((3, {3: 5}), generation=1),
        stream=a.SUMS,
        segments=(RevisedSegment(segment=segment, plan=a.PLAN),),
    )
    with pytest.raises(Refused, match="computed"):
        owner.revise(request)


def test_what_a_partner_reads_is_held_for_it_from_the_first_revised_bucket(
    computed: Catalog, owner: Catalog
) -> None:
    for stream in (a.SRC, a.BIG):
        computed.place_hold(
            Hold(stream=stream, holder="beta", purpose="import", from_us=BUCKETS * WIDTH)
        )
    owner.revise(revised((2, {2: 5}), behind={a.BIG: 3 * WIDTH}))
    assert [h.from_us // WIDTH for h in computed.holds(a.SRC)] == [2]
    assert [h.from_us // WIDTH for h in computed.holds(a.BIG)] == [3]


def test_a_source_is_not_recalled_over_what_was_revised(computed: Catalog, owner: Catalog) -> None:
    """By medusa.recall."""
    owner.revise(revised((4, {4: 5})))
    request = RecallRequest(stream=a.SRC, producer=a.ME, from_us=3 * WIDTH, because=WHY, who="ada")
    with pytest.raises(Refused, match="revised"):
        owner.recall(request)
    (done, *_) = owner.recall(replace(request, from_us=6 * WIDTH))
    assert done.generation == 3


def test_what_is_computed_from_a_revision_can_be_recalled(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((2, {2: 5})))
    run(computed)
    owner.recall(
        RecallRequest(stream=a.SUMS, producer=a.ME, from_us=2 * WIDTH, because=WHY, who="ada")
    )
    assert run(computed) == [(a.SUMS, 2, 8), (a.BIG, 2, 8)]
    assert counts(computed, a.SUMS) == {1: 2, 3: 6, 5: 2, 7: 2}


def test_what_is_trimmed_behind_a_revision_is_not_computed_again(
    computed: Catalog, owner: Catalog
) -> None:
    computed.trim(a.SUMS, a.ME, 4 * WIDTH, needed={a.TAIL: 4 * WIDTH}, segments_max=9)
    owner.revise(revised((2, {2: 5}), (4, {4: 9})))
    assert [done for done in run(computed) if done[0] == a.SUMS] == [(a.SUMS, 5, 6)]
    assert Range(0, WIDTH) not in [s.range for s in computed.segments(a.SUMS)]


def test_a_revision_behind_many_earlier_ones_is_computed(computed: Catalog, owner: Catalog) -> None:
    few = Limits(buckets_per_step_max=1)
    owner.revise(revised((0, {0: 5}), (2, {2: 5})))
    assert sorted(run(computed, few)) == [
        (a.BIG, 1, 2), (a.BIG, 3, 4), (a.SUMS, 1, 2), (a.SUMS, 3, 4)
    ]  # fmt: skip
    owner.revise(revised((6, {6: 5}), generation=2))
    assert run(computed, few) == [(a.SUMS, 7, 8), (a.BIG, 7, 8)]


def test_a_source_is_trimmed_once_nothing_of_a_revision_is_owed(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((2, {2: 5})))
    fragments = a.some_fragments()
    assert needs_of(computed, fragments)[a.SRC] == {a.MAIN: 2 * WIDTH}
    run(computed)
    assert needs_of(computed, fragments)[a.SRC] == {a.MAIN: BUCKETS * WIDTH}


def test_a_second_revision_keeps_what_the_first_one_holds(
    computed: Catalog, owner: Catalog
) -> None:
    owner.revise(revised((2, {2: 5}), needed={a.MAIN: {a.SRC: 2 * WIDTH}}))
    owner.revise(revised((6, {6: 5}), generation=2, needed={a.MAIN: {a.SRC: 6 * WIDTH}}))
    assert {h.purpose: h.from_us // WIDTH for h in computed.holds(a.SRC)} == {"recall": 2}


def test_what_revisions_hold_moves_on_while_others_follow(
    home: HomeUnderTest, computed: Catalog, owner: Catalog
) -> None:
    """Late records that are admitted day after day do not keep the first day's input."""
    held = []
    for at in range(6):
        needed = {a.MAIN: {a.SRC: at * WIDTH}}
        owner.revise(revised((at, {at: 5}), generation=at + 1, needed=needed))
        done = {a.MAIN: FOREVER_US}
        trimmed = computed.trim(a.SRC, a.ME, FOREVER_US, needed=done, segments_max=0, explain=True)
        assert trimmed.held_by is not None
        held.append(trimmed.held_by.from_us // WIDTH)
        home.let_holds_age(20 * a.HOUR_MS)
    # Each is held for a day at least, and none for longer than two.
    assert held == [0, 0, 0, 2, 2, 4]


def test_a_step_that_commits_while_a_revision_is_made_is_owed_again(
    home: HomeUnderTest, computed: Catalog, owner: Catalog
) -> None:
    lease = a.a_lease(a.LANDING)
    computed.promise(lease, a.SRC, origin_us=0, boundary_us=10 * WIDTH, end_us=None)
    computed.commit(a.a_commit(a.a_segment(8, 10, stream=a.SRC, rows={8: 1, 9: 1}), lease=lease))
    step = next(step for step in steps(computed) if step.outputs == (a.SUMS,))
    if isinstance(home, MemoryHome):  # one transaction after the other
        computed.commit(commit_of(computed, step))
        owner.revise(revised((8, {8: 5})))
    else:
        writer = home.session()
        writer.begin()
        writer.catalog.commit(commit_of(computed, step))
        owner.revise(revised((8, {8: 5})))
        assert not any(found.outputs == (a.SUMS,) and found.range.from_us < 8 * WIDTH
                       for _ in range(3) for found in steps(computed))  # fmt: skip
        writer.end(keep=True)
        writer.close()
    assert (a.SUMS, 9, 10) in run(computed)
    assert counts(computed, a.SUMS)[9] == 6
