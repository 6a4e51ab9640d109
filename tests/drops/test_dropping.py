"""What an overloaded participant decides: drops of whole windows or of records, and corrections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.decide import ComputeStep, Decision, DropBuckets, Promote, decide, explain
from medusa_core.drops.dropping import dropping_commit
from medusa_core.drops.overload import notices_ms, overload_of
from medusa_core.drops.utility import AfterDrop, Qos, UtilityGraph, loss_graph
from medusa_core.fragments import fragments_of
from medusa_core.grid import Range
from medusa_core.knowledge import (
    FragmentKnowledge,
    InputKnowledge,
    Knowledge,
    Limits,
    OutputKnowledge,
    TentativeKnowledge,
)
from medusa_core.names import Epoch, Participant, StreamName, Version
from medusa_core.network import Aggregate, Network, Output
from medusa_core.segments import Segment, Stability
from medusa_core.states import State, state_of
from medusa_core.step_costs import Cost, MeanCost
from tests.core.builders import (
    ALPHA,
    PLAN,
    READINGS,
    SECOND_US,
    TOTALS,
    a_fragment_knowledge,
    a_network,
    a_passing_network,
    a_segment,
    a_source,
    an_input,
    seconds,
)

QOS = Qos(delay=UtilityGraph(((0, 1), (20_000, 1), (60_000, 0))), loss=loss_graph(((0, 1), (1, 0))))
COST = Cost(step_ms=10, record_us=1_000.0, wake_ms=0)
"""A millisecond a record: a thousand records a second are all of the capacity."""


def a_backlog(
    records_per_s: int, buckets: int = 12, *, network: Network | None = None, computed_s: int = 0,
    qos: Qos = QOS,
) -> FragmentKnowledge:  # fmt: skip
    """A fragment whose input is ahead by so many buckets of 10 s, all of them here since 0 ms."""
    counts = {10 * n: 10 * records_per_s for n in range(buckets)}
    input_ = an_input(a_segment(seconds(0, 10 * buckets), counts))
    known = a_fragment_knowledge(
        input_, computed_s=computed_s, network=network or a_network(size="10s")
    )
    return with_qos(replace(known, cost=COST), qos)


def with_qos(known: FragmentKnowledge, qos: Qos) -> FragmentKnowledge:
    return replace(known, outputs={n: replace(o, qos=qos) for n, o in known.outputs.items()})


def decided(*fragments: FragmentKnowledge, now_ms: int, capacity: float = 1.0) -> list[Decision]:
    return decide(knowledge_of(*fragments, capacity=capacity), now_ms)


def knowledge_of(*fragments: FragmentKnowledge, capacity: float = 1.0) -> Knowledge:
    limits = Limits(records_per_step_max=10**9, capacity=capacity)
    return Knowledge(
        participant=Participant("alpha"), landings=(), fragments=fragments, limits=limits
    )


def test_while_the_load_fits_nothing_is_dropped() -> None:
    assert dropped_share(a_backlog(900), now_ms=19_000) == 0


def test_with_ample_room_a_backlog_is_computed_in_order_however_late_it_is() -> None:
    assert dropped_share(a_backlog(200), now_ms=9_000_000) == 0


def test_a_backlog_that_is_not_gone_in_time_is_dropped_although_the_load_would_fit() -> None:
    assert dropped_share(a_backlog(600, buckets=100), now_ms=40_000) == pytest.approx(
        1 - 0.95 / 2 / 0.6, abs=0.06
    )


def test_an_overload_is_tolerated_for_as_long_as_the_delay_graph_loses_nothing() -> None:
    assert dropped_share(a_backlog(4_000), now_ms=19_000) == 0
    assert dropped_share(a_backlog(4_000), now_ms=21_000) > 0.5


def test_a_step_is_no_longer_than_a_part_of_what_is_tolerated() -> None:
    (step,) = decided(a_backlog(100), now_ms=0)
    assert isinstance(step, ComputeStep)
    assert step.range == seconds(0, 40)


def dropped_share(known: FragmentKnowledge, *, now_ms: int, capacity: float = 1.0) -> float:
    """The share of the buckets that are dropped when a backlog is computed step by step."""
    dropped = 0
    ends_us = known.inputs[READINGS].boundary_us
    output = known.outputs[TOTALS]
    while output.boundary_us < ends_us:
        known = replace(known, outputs={TOTALS: output})
        decision = decided(known, now_ms=now_ms, capacity=capacity)[0]
        assert isinstance(decision, ComputeStep | DropBuckets)
        if isinstance(decision, DropBuckets):
            assert decision.stability is Stability.TENTATIVE
            dropped += decision.range.to_us - decision.range.from_us
        else:
            assert decision.stability is Stability.STABLE
            assert all(read.drop_rate == 0 for read in decision.reads)
        output = replace(output, boundary_us=decision.range.to_us)
    return dropped / ends_us


@pytest.mark.parametrize("times", [1.2, 1.5, 2, 4])
def test_as_much_is_dropped_as_the_load_is_above_the_capacity(times: float) -> None:
    share = dropped_share(a_backlog(int(1_000 * times), buckets=200), now_ms=20_000)
    assert share == pytest.approx(1 - 0.95 / times, abs=0.06)


def test_a_smaller_declared_capacity_drops_more() -> None:
    assert dropped_share(a_backlog(900, buckets=100), now_ms=20_000, capacity=0.45) > 0.4


def test_the_reason_of_a_drop_has_the_figures() -> None:
    knowledge = knowledge_of(a_backlog(2_000))
    overload = overload_of(knowledge, notices_ms(knowledge), 20_000)
    assert overload is not None
    assert overload.load == pytest.approx(2.0, abs=0.01)
    assert overload.plan.load <= overload.load_max == pytest.approx(0.95, abs=0.001)
    assert overload.numbers["utility_lost"] == pytest.approx(overload.plan.lost, abs=0.001)
    assert "load 2.0" in explain([first_drop(a_backlog(2_000))])[0]


def test_an_output_without_a_qos_is_never_dropped() -> None:
    known = a_backlog(9_000)
    outputs = {n: replace(o, qos=None) for n, o in known.outputs.items()}
    (step,) = decided(replace(known, outputs=outputs), now_ms=90_000)
    assert isinstance(step, ComputeStep)
    assert step.range == seconds(0, 120)


GAP = replace(QOS, after=AfterDrop.GAP)
MEASURED = replace(COST, mean=MeanCost(COST.step_ms, COST.record_us))


def test_with_gap_what_is_dropped_is_final_and_nothing_is_owed() -> None:
    decision = first_drop(replace(a_backlog(4_000, qos=GAP), cost=MEASURED))
    assert decision.stability is Stability.GAP
    assert {read.drop_rate for read in decision.reads} == {1.0}


def test_nothing_is_lost_for_good_by_a_guess_of_what_steps_cost() -> None:
    assert dropped_share(a_backlog(4_000, qos=GAP), now_ms=60_000) == 0


def test_nothing_is_lost_for_good_by_a_backlog_that_the_capacity_catches_up() -> None:
    paused = replace(a_backlog(600, buckets=100, qos=GAP), cost=MEASURED)
    assert dropped_share(paused, now_ms=90_000) == 0


def first_drop(known: FragmentKnowledge) -> DropBuckets:
    output = known.outputs[TOTALS]
    for at_s in range(0, 120, 10):
        output = replace(output, boundary_us=at_s * SECOND_US)
        decision = decided(replace(known, outputs={TOTALS: output}), now_ms=60_000)[0]
        if isinstance(decision, DropBuckets):
            return decision
    raise AssertionError("nothing is dropped")


# corrections


def a_dropped(known: FragmentKnowledge) -> FragmentKnowledge:
    """The fragment after its first drop, with nothing ahead of it."""
    decision = first_drop(known)
    segment = Segment(
        stream=TOTALS,
        producer=ALPHA,
        range=decision.range,
        stability=decision.stability,
        version=Version(1),
        plan=PLAN,
        drop_rate=1.0,
    )
    return replace(known, tentative=(TentativeKnowledge(segment=segment, reads=decision.reads),))


def test_what_was_dropped_waits_while_the_load_is_above_the_capacity() -> None:
    known = a_dropped(a_backlog(4_000, computed_s=60))
    assert not any(is_correction(d) for d in decided(known, now_ms=1_000))
    assert any(is_correction(d) for d in decided(known, now_ms=1_000, capacity=9.0))


def is_correction(decision: Decision) -> bool:
    return isinstance(decision, Promote) or (
        isinstance(decision, ComputeStep) and decision.cause.value == "correction"
    )


def test_what_was_dropped_is_computed_in_full_when_the_load_has_fallen() -> None:
    known = a_dropped(a_backlog(4_000))
    output = replace(known.outputs[TOTALS], boundary_us=120 * SECOND_US)
    quiet = replace(known, outputs={TOTALS: output}, cost=replace(COST, record_us=1.0))
    (correction,) = [d for d in decided(quiet, now_ms=60_000) if is_correction(d)]
    assert isinstance(correction, ComputeStep)
    assert correction.range == known.tentative[0].segment.range
    assert correction.stability is Stability.STABLE
    assert all(read.drop_rate == 0 for read in correction.reads)


def test_the_state_of_a_fragment_says_that_records_were_dropped() -> None:
    known = a_dropped(a_backlog(4_000))
    output = replace(known.outputs[TOTALS], tentative_us=0, lacks=())
    state, why = state_of(replace(known, outputs={TOTALS: output}))
    assert (state, why) == (State.UP_FAILURE, "without what was dropped")


# chains of fragments


def two_fragments() -> Network:
    """readings -> totals of 10 s -> sums of `size`, in fragments of their own."""
    first = Aggregate(
        name="totals", input="readings", size="10s", group_by=("key",), fragment="first",
        columns={"records": "count(*)"},
    )  # fmt: skip
    second = Aggregate(
        name="sums", input="totals", size="30s", advance="10s", group_by=("key",),
        fragment="second", columns={"records": "sum(records)"},
    )  # fmt: skip
    return Network(
        name="example", sources=(a_source(),), boxes=(first, second),
        outputs=(Output(name="out", input="sums"),),
    )  # fmt: skip


def a_pair(
    records_per_s: int, *rows: Segment, first_s: int, second_s: int
) -> tuple[FragmentKnowledge, FragmentKnowledge]:
    """Both fragments: the first has computed up to `first_s`, as `rows`, the second `second_s`."""
    one, two = fragments_of(two_fragments())
    out, width_us = StreamName("out"), 10 * SECOND_US
    counts = {10 * n: 10 * records_per_s for n in range(40)}
    readings = an_input(a_segment(seconds(0, 400), counts))
    totals = InputKnowledge(
        stream=TOTALS, width_us=width_us, origin_us=0, boundary_us=first_s * SECOND_US,
        end_us=None, segments=rows, known_through_us=2**62,
    )  # fmt: skip

    def known(fragment: object, input_: InputKnowledge, output: StreamName, at_s: int,
              qos: Qos | None) -> FragmentKnowledge:  # fmt: skip
        return FragmentKnowledge(
            fragment=fragment, plan=PLAN, producer=ALPHA, epoch=Epoch(1), partition=0,  # type: ignore[arg-type]
            inputs={input_.stream: input_}, cost=COST,
            outputs={output: OutputKnowledge(stream=output, width_us=width_us,
                                             boundary_us=at_s * SECOND_US, qos=qos)},
        )  # fmt: skip

    return known(one, readings, TOTALS, first_s, None), known(two, totals, out, second_s, QOS)


def run_of(records_per_s: int) -> tuple[dict[int, bool], dict[int, bool]]:
    """Bucket start (s) -> whether it was computed, of both fragments, from 0 to 400 s."""
    rows: list[Segment] = []
    first: dict[int, bool] = {}
    second: dict[int, bool] = {}
    at = [0, 0]
    while at[1] < 380:
        pair = a_pair(records_per_s, *rows, first_s=at[0], second_s=at[1])
        for decision in decided(*pair, now_ms=20_000):
            if not isinstance(decision, ComputeStep | DropBuckets):
                continue
            is_first = decision.outputs == (TOTALS,)
            is_dropped = isinstance(decision, DropBuckets)
            part = Range(decision.range.from_us // SECOND_US, decision.range.to_us // SECOND_US)
            for bucket in range(part.from_us, part.to_us, 10):
                (first if is_first else second)[bucket] = not is_dropped
            at[0 if is_first else 1] = part.to_us
            if is_first:
                counts = {} if is_dropped else dict.fromkeys(range(part.from_us, part.to_us, 10), 1)
                stability = Stability.TENTATIVE if is_dropped else Stability.STABLE
                made = a_segment(seconds(part.from_us, part.to_us), counts, stream=TOTALS,
                                 stability=stability)  # fmt: skip
                rows.append(replace(made, drop_rate=1.0 if is_dropped else 0.0))
    return first, second


def test_no_window_behind_is_computed_from_a_part_of_its_records() -> None:
    first, second = run_of(1_500)
    assert 0.1 < sum(second.values()) / len(second) < 0.9
    for bucket, is_computed in second.items():
        if is_computed:
            assert all(first[b] for b in range(max(bucket - 20, 0), bucket + 10, 10))


def test_what_no_kept_window_needs_is_dropped_at_the_input() -> None:
    first, second = run_of(1_500)
    for bucket, is_computed in first.items():
        needed_by = range(bucket, min(bucket + 30, 380), 10)
        if is_computed and bucket < 350:
            assert any(second[b] for b in needed_by)


# records


def test_where_boxes_pass_records_singly_records_are_dropped_and_lineage_has_the_rate() -> None:
    known = a_backlog(2_000, network=a_passing_network())
    (step,) = decided(known, now_ms=20_000)
    assert isinstance(step, ComputeStep)
    assert (step.range.from_us, step.stability) == (0, Stability.TENTATIVE)
    (rate,) = {read.drop_rate for read in step.reads}
    assert rate == pytest.approx(1 - 0.95 / 2, abs=0.06)
    assert f"without {rate:.0%} of the records" in explain([step])[0]


def test_a_bucket_that_lacks_records_is_computed_again_though_its_inputs_are_the_same() -> None:
    known = a_backlog(2_000, network=a_passing_network())
    (step,) = decided(known, now_ms=20_000)
    assert isinstance(step, ComputeStep)
    segment = a_segment(step.range, {0: 1}, stream=TOTALS, stability=Stability.TENTATIVE)
    tentative = (TentativeKnowledge(segment=segment, reads=step.reads),)
    output = replace(known.outputs[TOTALS], boundary_us=120 * SECOND_US)
    quiet = replace(
        known, tentative=tentative, outputs={TOTALS: output}, cost=replace(COST, record_us=1.0)
    )
    (correction,) = [d for d in decided(quiet, now_ms=60_000) if is_correction(d)]
    assert isinstance(correction, ComputeStep)


# whatever the load, and wherever the input is cut


@given(
    records=st.integers(1, 9_000),
    counts=st.dictionaries(st.integers(0, 11), st.integers(1, 50_000), min_size=1),
    now_ms=st.integers(0, 200_000),
)
def test_the_first_decision_begins_at_the_frontier_and_is_whole_buckets(
    records: int, counts: Mapping[int, int], now_ms: int
) -> None:
    input_ = an_input(a_segment(seconds(0, 120), {10 * n: rows for n, rows in counts.items()}))
    known = a_backlog(records)
    decision = decided(replace(known, inputs={READINGS: input_}), now_ms=now_ms)[0]
    assert isinstance(decision, ComputeStep | DropBuckets)
    assert decision.range.from_us == 0
    assert decision.range.to_us % (10 * SECOND_US) == 0


def test_the_commit_of_a_drop_has_no_row_and_the_rate_in_its_lineage() -> None:
    from medusa_core.commits import Lease, LeaseKey

    decision = first_drop(a_backlog(4_000))
    lease = Lease(
        key=LeaseKey(fragment=decision.fragment.fragment.id, producer=ALPHA),
        epoch=Epoch(1),
        holder="one",
        expires_at_ms=1,
    )
    commit = dropping_commit(decision, lease)
    assert [s.buckets for s in commit.segments] == [{}]
    assert commit.lineage == decision.reads
