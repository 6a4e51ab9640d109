"""What is read to decide: what the next step needs, no more, and never too little to go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import Commit
from medusa_core.decide import CloseBuckets, ComputeStep, Wait, decide
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.knowledge import FragmentKnowledge, InputKnowledge, Knowledge, Limits
from medusa_core.names import Participant
from medusa_core.segments import Stability
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest

SMALL = Limits(records_per_step_max=10, buckets_per_step_max=3)


def known(catalog: Catalog, limits: Limits = SMALL, size: str = "20s") -> Knowledge:
    return catalog.read_knowledge(a.some_fragments(size), limits)


def fragment(knowledge: Knowledge, name: str = a.MAIN) -> FragmentKnowledge:
    return next(f for f in knowledge.fragments if f.fragment.id == name)


def source(knowledge: Knowledge) -> InputKnowledge:
    return fragment(knowledge).inputs[a.SRC]


def land(catalog: Catalog, rows: dict[int, int], boundary: int, end: int | None = None) -> None:
    lease = a.a_lease(a.LANDING)
    catalog.land(lease, a.a_batch(len(catalog.landed_batches(a.SRC, "query")), rows))
    catalog.promise(
        lease,
        a.SRC,
        origin_us=0,
        boundary_us=boundary * a.WIDTH_US,
        end_us=None if end is None else end * a.WIDTH_US,
    )


def close(catalog: Catalog, from_bucket: int, to_bucket: int, rows: dict[int, int] | None = None,
          stability: Stability = Stability.STABLE, *, ends: bool = False) -> None:  # fmt: skip
    segment = a.a_segment(from_bucket, to_bucket, stability, stream=a.SRC, rows=rows)
    catalog.commit(a.a_commit(segment, lease=a.a_lease(a.LANDING), ends=ends))


def run_to_the_end(catalog: Catalog, limits: Limits, size: str = "20s") -> list[str]:
    """Apply every decision with made-up rows until only waiting is left; what was done."""
    done: list[str] = []
    while True:
        acted = False
        for decision in decide(known(catalog, limits, size), catalog.read_clock_ms()):
            match decision:
                case Wait():
                    continue
                case CloseBuckets():
                    part, name = decision.range, a.LANDING
                    counts = decision.landing.counts
                    rows = {at // a.WIDTH_US: n for at, n in counts.items() if part.holds(at)}
                    stream, stability = a.SRC, Stability.STABLE
                case ComputeStep():
                    part, name, rows = decision.range, decision.fragment.fragment.id, {}
                    (stream,), stability = decision.outputs, decision.stability
            first, last = part.from_us // a.WIDTH_US, part.to_us // a.WIDTH_US
            segment = a.a_segment(first, last, stability, stream=stream, rows=rows)
            lineage = decision.reads if isinstance(decision, ComputeStep) else ()
            commit: Commit = a.a_commit(
                segment, lease=a.a_lease(name), lineage=lineage, ends=decision.ends
            )
            assert not catalog.commit(commit).again, "a decision was made twice"
            done.append(f"{stream} {first}-{last}")
            acted = True
        if not acted:
            return done


def test_before_anything_is_deployed_nothing_is_known(home: HomeUnderTest) -> None:
    knowledge = known(home.catalog)
    assert (knowledge.fragments, knowledge.landings) == ((), ())


def test_a_fragment_whose_input_has_not_begun_waits(catalog: Catalog) -> None:
    knowledge = known(catalog)
    assert source(knowledge).origin_us == BEGINNING_US
    assert {type(d) for d in decide(knowledge, 0)} == {Wait}


def test_fragments_follow_those_they_read(catalog: Catalog) -> None:
    assert [f.fragment.id for f in known(catalog).fragments] == [a.MAIN, a.TAIL]


def test_a_fragment_assigned_to_another_participant_is_not_known_here(catalog: Catalog) -> None:
    elsewhere = a.an_assignment(a.MAIN, a.SECOND, a.Producer(Participant("beta")))
    catalog.deploy(a.a_deployment(assignments=(elsewhere,)))
    assert [f.fragment.id for f in known(catalog).fragments] == [a.TAIL]


def test_the_newest_epoch_is_the_one_that_is_known(catalog: Catalog) -> None:
    again = a.an_assignment(a.MAIN, a.SECOND)
    catalog.deploy(a.a_deployment(assignments=(again,)))
    assert fragment(known(catalog)).epoch == a.SECOND


def test_landed_records_are_counted_from_the_boundary_on(catalog: Catalog) -> None:
    land(catalog, {0: 4, 1: 1}, boundary=1)
    land(catalog, {1: 2, 4: 1}, boundary=1)
    close(catalog, 0, 1, {0: 4})
    (landing,) = known(catalog).landings
    assert landing.counts == {1 * a.WIDTH_US: 3, 4 * a.WIDTH_US: 1}
    assert (landing.closed_us, landing.boundary_us) == (a.WIDTH_US, a.WIDTH_US)
    assert landing.known_through_us == FOREVER_US


def test_landed_counts_reach_as_far_as_a_step(catalog: Catalog) -> None:
    land(catalog, dict.fromkeys(range(0, 20, 2), 1), boundary=20)
    (landing,) = known(catalog).landings
    assert list(landing.counts) == [at * a.WIDTH_US for at in (0, 2, 4)]
    assert landing.known_through_us == 6 * a.WIDTH_US


def test_input_segments_are_cut_where_a_step_could_take_no_more(catalog: Catalog) -> None:
    land(catalog, {}, boundary=9)
    for at in range(9):
        close(catalog, at, at + 1, {at: 4})
    seen = source(known(catalog))
    assert [s.range for s in seen.segments] == [a.buckets(at, at + 1) for at in range(4)]
    assert seen.known_through_us == 4 * a.WIDTH_US
    assert seen.boundary_us == 9 * a.WIDTH_US


def test_input_segments_are_complete_where_there_are_few(catalog: Catalog) -> None:
    land(catalog, {}, boundary=9)
    close(catalog, 0, 9, {1: 1})
    seen = source(known(catalog))
    assert len(seen.segments) == 1
    assert seen.known_through_us == FOREVER_US


def test_the_input_of_one_output_bucket_is_never_cut(catalog: Catalog) -> None:
    land(catalog, {}, boundary=9)
    for at in range(9):
        close(catalog, at, at + 1, {at: 400})
    seen = source(known(catalog, size="60s"))
    assert seen.known_through_us >= a.WIDTH_US
    first = next(d for d in decide(known(catalog, size="60s"), 0) if isinstance(d, ComputeStep))
    assert first.range.from_us == 0


@pytest.mark.parametrize("size", ["10s", "20s", "60s", "300s"])
@pytest.mark.parametrize("limits", [SMALL, Limits(records_per_step_max=1, buckets_per_step_max=1)])
def test_every_input_is_worked_off_to_its_end_whatever_the_limits(
    catalog: Catalog, size: str, limits: Limits
) -> None:
    land(catalog, {0: 3, 1: 9, 4: 1, 5: 30, 11: 2}, boundary=12, end=12)
    run_to_the_end(catalog, limits, size)
    assert {s.stream.name for s in catalog.streams() if s.boundary_us == FOREVER_US} == {
        a.SRC, a.SUMS, a.BIG}  # fmt: skip


def test_a_derived_stream_that_ended_is_seen_as_ended_by_its_readers(catalog: Catalog) -> None:
    segment = a.a_segment(0, 2)
    catalog.commit(a.a_commit(segment, ends=True))
    seen = fragment(known(catalog), a.TAIL).inputs[a.SUMS]
    assert (seen.end_us, seen.boundary_us) == (2 * a.WIDTH_US, FOREVER_US)
    assert fragment(known(catalog)).outputs[a.SUMS].has_ended


def test_nothing_behind_the_need_of_the_next_step_is_read(catalog: Catalog) -> None:
    land(catalog, {}, boundary=9)
    for at in range(9):
        close(catalog, at, at + 1, {at: 1})
    catalog.commit(a.a_commit(a.a_segment(0, 7)))
    seen = source(known(catalog))
    assert seen.segments[0].range == a.buckets(6, 7), "the window of buckets 6 and 7 reaches back"


def test_a_tentative_output_is_known_with_its_lineage_once_it_may_be_owed(
    catalog: Catalog,
) -> None:
    land(catalog, {}, boundary=30)
    close(catalog, 0, 2, {0: 1}, Stability.TENTATIVE)
    close(catalog, 2, 30, {2: 1})
    read = replace(a.a_read(part=a.buckets(0, 2)), content="0" * 64)
    tentative = a.a_segment(0, 2, Stability.TENTATIVE)
    catalog.commit(a.a_commit(tentative, lineage=(read,)))
    catalog.commit(a.a_commit(a.a_segment(2, 20)))
    seen = fragment(known(catalog))
    assert seen.tentative == (), "its input is tentative still"
    assert seen.outputs[a.SUMS].tentative_us == 0
    close(catalog, 0, 2, {0: 1})
    (owed,) = fragment(known(catalog)).tentative
    assert (owed.segment.range, owed.reads) == (a.buckets(0, 2), (read,))
    assert owed.reads[0].content == read.content
    steps = [d for d in decide(known(catalog), 0) if isinstance(d, ComputeStep)]
    assert a.buckets(0, 2) in [d.range for d in steps], "it is owed once its inputs are final"


def test_rows_that_cannot_be_corrected_yet_do_not_hold_up_younger_ones(
    catalog: Catalog,
) -> None:
    old = 2 * SMALL.buckets_per_step_max
    land(catalog, {}, boundary=30)
    close(catalog, 0, old, {0: 1}, Stability.TENTATIVE)
    close(catalog, old, 30, {old: 1})
    for at in range(old + 1):
        catalog.commit(a.a_commit(a.a_segment(at, at + 1, Stability.TENTATIVE)))
    found = [t.segment.range for t in fragment(known(catalog)).tentative]
    assert found == [a.buckets(old, old + 1)]


def test_knowledge_is_the_same_for_the_same_catalog(catalog: Catalog) -> None:
    land(catalog, {0: 1, 3: 1}, boundary=4)
    assert known(catalog) == known(catalog)
    assert replace(known(catalog), limits=SMALL) == known(catalog)


def test_a_plan_is_in_force_from_its_bucket_on_and_the_one_before_up_to_it(
    home: HomeUnderTest,
) -> None:
    second, third = a.PlanId("plan-two"), a.PlanId("plan-three")
    home.catalog.deploy(a.a_deployment())
    for epoch, plan, from_bucket in ((2, second, 3), (3, third, 5)):
        line = replace(
            a.an_assignment(a.MAIN, a.Epoch(epoch), plan=plan), from_us=from_bucket * a.WIDTH_US
        )
        home.catalog.deploy(a.a_deployment(assignments=(line,), plan=plan, plan_document=plan))
    home.catalog.acquire_lease(a.a_key(), a.Epoch(3), "me", a.HOUR_MS)

    def plan_and_until() -> tuple[str, int]:
        knowledge = home.catalog.read_knowledge(a.some_fragments(), Limits())
        (main,) = [f for f in knowledge.fragments if f.fragment.id == a.MAIN]
        return main.plan, main.until_us

    assert plan_and_until() == (a.PLAN, 3 * a.WIDTH_US)
    lease = a.a_lease(epoch=a.Epoch(3))
    for upto, plan, then in ((3, a.PLAN, second), (5, second, third)):
        begins = 0 if plan == a.PLAN else 3
        home.catalog.commit(a.a_commit(a.a_segment(begins, upto), lease=lease, plan=plan))
        until_us = 5 * a.WIDTH_US if then == second else FOREVER_US
        assert plan_and_until() == (then, until_us)
