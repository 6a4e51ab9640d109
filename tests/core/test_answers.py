"""Answers within the bound: how long an input is waited for, and what happens then.

Two sources meet in a Union; `left` is there, `right` is missing. Buckets are 10 s wide, the
clock of the home is in ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.bounds import Bound, Policy, check_path, strictest, wait_ms
from medusa_core.commits import Cause
from medusa_core.decide import ComputeStep, Decision, Promote, Wait, decide, explain
from medusa_core.digest import Digest
from medusa_core.errors import Refused
from medusa_core.fragments import fragments_of
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import (
    FragmentKnowledge,
    InputKnowledge,
    Knowledge,
    Limits,
    OutputKnowledge,
    TentativeKnowledge,
)
from medusa_core.names import Epoch, Participant, StreamName, Version
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Join,
    Lookup,
    Network,
    Output,
    Rank,
    Running,
    Session,
    Source,
    Union,
)
from medusa_core.paths import IMPORT_MS, paths_ms, rests_ms
from medusa_core.reads import reads_of
from medusa_core.segments import Segment, Stability
from medusa_core.states import State, state_of
from medusa_core.step_costs import Cost, MeasuredStep, cost_of, wake_of
from tests.core.builders import ALPHA, PLAN, SECOND_US, seconds

LEFT, RIGHT, BOTH = StreamName("left"), StreamName("right"), StreamName("both")
X_MS = 10_000
X = Bound(bound_ms=X_MS)
COST = Cost(step_ms=1_500)
WAIT_MS = X_MS - COST.path_ms
COLUMNS = {"at": "bigint", "key": "bigint"}


def a_union(window: str | None = None) -> Network:
    return Network(
        name="joined",
        sources=tuple(Source(name=n, columns=COLUMNS, time="at") for n in ("left", "right")),
        boxes=(
            Union(name="gathered", inputs=("left", "right")),
            *(
                (Aggregate(name="counted", input="gathered", size=window,
                           columns={"n": "count(*)"}),) if window else ()
            ),
        ),
        outputs=(Output(name="both", input="counted" if window else "gathered"),),
    )  # fmt: skip


def came(stream: StreamName, from_s: int, to_s: int, *, at_ms: int, age_ms: int = 0,
         stability: Stability = Stability.STABLE, rows: int = 3,
         missing: tuple[StreamName, ...] = ()) -> Segment:  # fmt: skip
    return Segment(
        stream=stream,
        producer=ALPHA,
        range=seconds(from_s, to_s),
        stability=stability,
        version=Version(1 + from_s // 10),
        plan=PLAN,
        buckets={
            at * SECOND_US: Digest(rows, at + 1, at + 2) for at in range(from_s, to_s, 10) if rows
        },
        age_ms=age_ms,
        missing=missing,
        arrived_ms=at_ms,
    )


def an_input(stream: StreamName, *segments: Segment, lag_ms: int = 0) -> InputKnowledge:
    return InputKnowledge(
        stream=stream,
        width_us=10 * SECOND_US,
        origin_us=0,
        boundary_us=segments[-1].range.to_us if segments else 0,
        end_us=None,
        segments=segments,
        known_through_us=FOREVER_US,
        lag_ms=lag_ms,
    )


def known(
    left: InputKnowledge,
    right: InputKnowledge,
    *,
    computed_s: int = 0,
    bound: Bound | None = X,
    tentative: tuple[TentativeKnowledge, ...] = (),
    window: str | None = None,
    path_ms: int = 0,
) -> FragmentKnowledge:
    (fragment,) = fragments_of(a_union(window))
    return FragmentKnowledge(
        fragment=fragment,
        plan=PLAN,
        producer=ALPHA,
        epoch=Epoch(1),
        partition=0,
        inputs={LEFT: left, RIGHT: right},
        outputs={
            BOTH: OutputKnowledge(
                stream=BOTH,
                width_us=10 * SECOND_US,
                boundary_us=computed_s * SECOND_US,
                bound=bound,
                path_ms=path_ms,
                tentative_us=0 if tentative else None,
            )
        },
        tentative=tentative,
        cost=COST,
    )


def decided(fragment: FragmentKnowledge, now_ms: int, limits: Limits | None = None
            ) -> list[Decision]:  # fmt: skip
    knowledge = Knowledge(
        participant=Participant("alpha"),
        landings=(),
        fragments=(fragment,),
        limits=limits or Limits(),
    )
    return decide(knowledge, now_ms)


def the_answer(fragment: FragmentKnowledge, now_ms: int) -> ComputeStep:
    (step,) = decided(fragment, now_ms)
    assert isinstance(step, ComputeStep), explain([step])
    return step


def the_wait(fragment: FragmentKnowledge, now_ms: int) -> Wait:
    (wait,) = decided(fragment, now_ms)
    assert isinstance(wait, Wait), explain([wait])
    return wait


def test_a_missing_input_is_waited_for_until_the_bound_leaves_no_more_time() -> None:
    fragment = known(an_input(LEFT, came(LEFT, 0, 10, at_ms=40)), an_input(RIGHT))
    wait = the_wait(fragment, 40 + WAIT_MS - 1)
    assert wait.until_ms == 40 + WAIT_MS
    answer = the_answer(fragment, 40 + WAIT_MS)
    assert (answer.stability, answer.cause) == (Stability.TENTATIVE, Cause.TENTATIVE)
    assert answer.missing == (RIGHT,)
    assert answer.range == seconds(0, 10)
    assert {read.input for read in answer.reads} == {LEFT}


def test_an_input_that_arrives_one_poll_earlier_is_used_and_nothing_is_tentative() -> None:
    left, right = came(LEFT, 0, 10, at_ms=40), came(RIGHT, 0, 10, at_ms=WAIT_MS)
    step = the_answer(known(an_input(LEFT, left), an_input(RIGHT, right)), 40 + WAIT_MS)
    assert step.stability is Stability.STABLE


def test_an_answer_never_waits_longer_than_nine_tenths_of_the_bound() -> None:
    quick, slow = Cost(step_ms=5, wake_ms=5), Cost(step_ms=1_900, wake_ms=100)
    assert wait_ms(Bound(bound_ms=10_000), quick, rest_ms=10) == 9_000
    assert wait_ms(Bound(bound_ms=10_000), slow, rest_ms=3_000) == 5_000
    assert wait_ms(Bound(bound_ms=1_000), slow, rest_ms=3_000) == 100, "nor less than a tenth"


def test_what_the_rest_of_the_path_costs_is_left_free() -> None:
    fragment = known(an_input(LEFT, came(LEFT, 0, 10, at_ms=0)), an_input(RIGHT), path_ms=3_000)
    assert the_wait(fragment, 0).until_ms == WAIT_MS - 3_000


def test_age_that_was_carried_here_is_not_waited_for_again() -> None:
    old = came(LEFT, 0, 10, at_ms=8_000, age_ms=7_000)
    assert the_wait(known(an_input(LEFT, old), an_input(RIGHT)), 8_000).until_ms == 1_000 + WAIT_MS


def test_once_blocked_the_next_buckets_are_answered_as_they_come() -> None:
    left = (came(LEFT, 0, 10, at_ms=0), came(LEFT, 10, 20, at_ms=20_000))
    fragment = known(an_input(LEFT, *left), an_input(RIGHT), computed_s=10)
    answer = the_answer(fragment, 20_001)
    assert answer.range == seconds(10, 20)
    assert "as in the bucket before" in answer.because.reason


def test_buckets_in_which_no_window_ends_are_answered_with_the_next_one_in_which_one_does() -> None:
    left = tuple(came(LEFT, s, s + 10, at_ms=s * 1_000) for s in range(0, 120, 10))
    fragment = known(an_input(LEFT, *left), an_input(RIGHT), computed_s=60, window="60s")
    answer = the_answer(fragment, 121_000)
    assert answer.range == seconds(60, 120)
    assert {read.range for read in answer.reads} >= {seconds(60, 70), seconds(110, 120)}
    begun = known(an_input(LEFT, *left[:11]), an_input(RIGHT), computed_s=60, window="60s")
    assert the_wait(begun, 10**9).until_ms is None, "no window of what is there has ended"


def test_an_input_is_waited_for_once_wherever_the_answer_before_ended_between_two_windows() -> None:
    left = tuple(came(LEFT, s, s + 10, at_ms=s * 1_000) for s in range(0, 180, 10))
    for computed_s in (120, 130, 170):
        fragment = known(
            an_input(LEFT, *left), an_input(RIGHT), computed_s=computed_s, window="60s"
        )
        answer = the_answer(fragment, 170_001)
        assert answer.range == seconds(computed_s, 180)
        assert "as in the bucket before" in answer.because.reason


def test_an_input_that_has_advanced_since_is_waited_for_again() -> None:
    left = (came(LEFT, 0, 10, at_ms=0), came(LEFT, 10, 20, at_ms=20_000))
    right = came(RIGHT, 0, 10, at_ms=19_000)
    fragment = known(an_input(LEFT, *left), an_input(RIGHT, right), computed_s=10)
    assert the_wait(fragment, 20_001).until_ms == 20_000 + WAIT_MS


def test_delay_waits_for_every_bucket_and_suspend_for_none() -> None:
    left = (came(LEFT, 0, 10, at_ms=0), came(LEFT, 10, 20, at_ms=20_000))
    inputs = an_input(LEFT, *left), an_input(RIGHT)
    delaying = Bound(bound_ms=X_MS, during_failure=Policy.DELAY)
    assert the_wait(known(*inputs, computed_s=10, bound=delaying), 20_001).until_ms == (
        20_000 + WAIT_MS
    )
    suspending = Bound(bound_ms=X_MS, during_failure=Policy.SUSPEND, failure_ms_max=X_MS // 2)
    assert the_wait(known(*inputs, computed_s=10, bound=suspending), 10**9).until_ms is None


def a_join(fragment: FragmentKnowledge, how: str, hi: str = "5s") -> FragmentKnowledge:
    """The same knowledge of a fragment that joins the inputs in place of their Union."""
    join = Join(name="met", left="left", right="right", on=("key",), within=("0s", hi), how=how)
    (shape,) = fragments_of(
        replace(a_union(), boxes=(join,), outputs=(Output(name="both", input="met"),))
    )
    return replace(fragment, fragment=shape)


def test_an_inner_join_is_answered_without_a_missing_input() -> None:
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=0))
    fragment = a_join(known(left, an_input(RIGHT)), "inner")
    assert the_wait(fragment, 1).until_ms == WAIT_MS
    answer = the_answer(fragment, WAIT_MS)
    assert (answer.stability, answer.missing) == (Stability.TENTATIVE, (RIGHT,))


@pytest.mark.parametrize("how", ["left", "semi", "anti"])
def test_a_join_whose_rows_would_be_wrong_without_an_input_waits_for_it(how: str) -> None:
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=0))
    wait = the_wait(a_join(known(left, an_input(RIGHT)), how), 10**9)
    assert wait.until_ms is None
    assert "right missing, and without it rows would be wrong" in explain([wait])[0]


def test_a_lookup_is_answered_without_its_input_and_waits_for_its_table() -> None:
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=0))
    fragment = known(left, an_input(RIGHT))
    for input_, table in (("right", "left"), ("left", "right")):
        lookup = Lookup(name="met", input=input_, table=table, on=("key",), max_age="5s")
        (shape,) = fragments_of(
            replace(a_union(), boxes=(lookup,), outputs=(Output(name="both", input="met"),))
        )
        if table == "left":
            answer = the_answer(replace(fragment, fragment=shape), WAIT_MS)
            assert (answer.stability, answer.missing) == (Stability.TENTATIVE, (RIGHT,))
        else:
            assert the_wait(replace(fragment, fragment=shape), 10**9).until_ms is None


@pytest.mark.parametrize(
    "box",
    [
        Rank(name="first", input="gathered", size="10s", order=("key",), k=1),
        Deduplicate(name="first", input="gathered", by=("key",), within="1h"),
        Session(
            name="first", input="gathered", gap="1s", length_max="1m", columns={"n": "count(*)"}
        ),
        Running(name="first", input="gathered", within="1h", columns={"n": "count(*)"}),
        Every(name="first", input="gathered", n=2, within="1h", columns={"n": "count(*)"}),
    ],
    ids=("rank", "deduplicate", "session", "running", "every"),
)
def test_boxes_with_one_input_answer_of_the_records_that_are_there(box: Box) -> None:
    union = a_union()
    outputs = (Output(name="both", input="first"),)
    (shape,) = fragments_of(replace(union, boxes=(*union.boxes, box), outputs=outputs))
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=0))
    fragment = replace(known(left, an_input(RIGHT)), fragment=shape)
    assert the_wait(fragment, 1).until_ms == WAIT_MS
    answer = the_answer(fragment, WAIT_MS)
    assert (answer.stability, answer.missing) == (Stability.TENTATIVE, (RIGHT,))


def test_a_join_reads_no_more_of_an_input_than_its_rows_need_and_is_no_older_for_that() -> None:
    """A row of an anti Join lies 20 s after the row of `left` that it is."""
    left, right = (
        [came(stream, at, at + 10, at_ms=100 * at) for at in (0, 10, 20)]
        for stream in (LEFT, RIGHT)
    )
    fragment = known(an_input(LEFT, *left), an_input(RIGHT, *right), computed_s=20)
    step = the_answer(a_join(fragment, "anti", hi="20s"), 2_000)
    assert [r.range for r in step.reads if r.input == LEFT] == [seconds(0, 10)]
    assert [r.range for r in step.reads if r.input == RIGHT] == [s.range for s in right]
    assert [age.fresh_ms for age in step.ages] == [2_000]


def test_a_join_needs_no_more_of_an_input_than_its_rows_do_to_be_final() -> None:
    right = [came(RIGHT, at, at + 10, at_ms=100 * at) for at in (0, 10, 20)]
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=0))
    fragment = known(left, an_input(RIGHT, *right), computed_s=20)
    step = the_answer(a_join(fragment, "anti", hi="20s"), 2_000)
    assert (step.stability, step.range) == (Stability.STABLE, seconds(20, 30))
    assert [age.fresh_ms for age in step.ages] == [2_000]


def test_an_input_that_is_due_later_by_its_declared_lag_is_not_late() -> None:
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=0))
    right = an_input(RIGHT, lag_ms=60_000)
    assert the_wait(known(left, right), 0).until_ms == 60_000 + WAIT_MS


def test_without_a_bound_nothing_is_ever_answered_early() -> None:
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=0))
    assert the_wait(known(left, an_input(RIGHT), bound=None), 10**12).until_ms is None


def test_nothing_is_answered_while_no_input_is_there() -> None:
    assert the_wait(known(an_input(LEFT), an_input(RIGHT)), 10**12).until_ms is None


def test_a_tentative_input_is_an_answer_and_names_what_it_was_without() -> None:
    cut = StreamName("cut")
    left = came(LEFT, 0, 10, at_ms=0, stability=Stability.TENTATIVE, missing=(cut,))
    right = came(RIGHT, 0, 10, at_ms=0)
    step = the_answer(known(an_input(LEFT, left), an_input(RIGHT, right)), 1)
    assert step.stability is Stability.TENTATIVE
    assert step.missing == (cut,)


def test_a_step_ends_where_tentative_input_ends() -> None:
    left = (
        came(LEFT, 0, 10, at_ms=0, stability=Stability.TENTATIVE, missing=(RIGHT,)),
        came(LEFT, 10, 30, at_ms=0),
    )
    right = came(RIGHT, 0, 30, at_ms=0)
    first = the_answer(known(an_input(LEFT, *left), an_input(RIGHT, right)), 1)
    assert (first.range, first.stability) == (seconds(0, 10), Stability.TENTATIVE)
    second = the_answer(known(an_input(LEFT, *left), an_input(RIGHT, right), computed_s=10), 1)
    assert (second.range, second.stability) == (seconds(10, 30), Stability.STABLE)


def backlog(finals: Sequence[bool], window_s: int, more_s: int) -> tuple[InputKnowledge, ...]:
    """What came of both inputs, a segment for each window, and so many seconds more."""
    segments = [
        came(
            LEFT, at * window_s, (at + 1) * window_s, at_ms=0, rows=at % 3,
            stability=Stability.STABLE if is_final else Stability.TENTATIVE,
            missing=() if is_final else (RIGHT,),
        )
        for at, is_final in enumerate(finals)
    ]  # fmt: skip
    end_s = len(finals) * window_s
    if more_s:
        segments.append(came(LEFT, end_s, end_s + more_s, at_ms=0))
    right = came(RIGHT, 0, end_s + more_s, at_ms=0, rows=0)
    return an_input(LEFT, *segments), an_input(RIGHT, right)


def test_a_backlog_of_tentative_windows_longer_than_a_bucket_is_one_step() -> None:
    step = the_answer(known(*backlog([False] * 8, 20, 0), window="20s"), 60_000)
    assert (step.range, step.stability) == (seconds(0, 160), Stability.TENTATIVE)


def test_a_bucket_in_which_no_window_ends_goes_with_a_stable_one_before_it() -> None:
    inputs = backlog([True, False, False, True], 20, 0)
    first = the_answer(known(*inputs, window="20s"), 60_000)
    assert (first.range, first.stability) == (seconds(0, 30), Stability.STABLE)
    second = the_answer(known(*inputs, window="20s", computed_s=30), 60_000)
    assert (second.range, second.stability) == (seconds(30, 60), Stability.TENTATIVE)
    third = the_answer(known(*inputs, window="20s", computed_s=60), 60_000)
    assert (third.range, third.stability) == (seconds(60, 80), Stability.STABLE)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 5), st.data())
def test_a_backlog_takes_as_many_steps_as_its_windows_change_stability(
    finals: list[bool], window_buckets: int, data: st.DataObject
) -> None:
    window_s = 10 * window_buckets
    more_s = 10 * data.draw(st.integers(0, window_buckets - 1))
    inputs = backlog(finals, window_s, more_s)
    end_s, at_s = len(finals) * window_s + more_s, 0
    steps: list[ComputeStep] = []
    while at_s < end_s:
        step = the_answer(known(*inputs, window=f"{window_s}s", computed_s=at_s), 60_000)
        assert step.range.from_us == at_s * SECOND_US
        steps.append(step)
        at_s = step.range.to_us // SECOND_US
    assert at_s == end_s
    for number, is_final in enumerate(finals):
        last_us = ((number + 1) * window_s - 10) * SECOND_US
        (step,) = (one for one in steps if one.range.holds(last_us))
        assert step.stability.is_final is is_final, "a window has the stability of what it reads"
    changes = sum(one is not other for one, other in pairwise(finals))
    is_left = more_s > 0 and not finals[-1]
    assert len(steps) == 1 + changes + is_left


def test_age_never_shrinks_from_input_to_output() -> None:
    left = came(LEFT, 0, 10, at_ms=5_000, age_ms=4_000)
    right = came(RIGHT, 0, 10, at_ms=6_000, age_ms=500)
    step = the_answer(known(an_input(LEFT, left), an_input(RIGHT, right)), 6_000)
    assert step.fresh_ms == 1_000


# corrections


def a_tentative(known_then: FragmentKnowledge, part: Range) -> TentativeKnowledge:
    """What an answer over a part left behind."""
    reads = tuple(reads_of(known_then, (BOTH,), part, keeps_content=True))
    segment = Segment(
        stream=BOTH, producer=ALPHA, range=part, stability=Stability.TENTATIVE,
        version=Version(9), plan=PLAN, missing=(RIGHT,), arrived_ms=12_000, age_ms=12_000,
    )  # fmt: skip
    return TentativeKnowledge(segment=segment, reads=reads)


LEFT_THERE = an_input(LEFT, came(LEFT, 0, 10, at_ms=0))


def after_healing(right: Segment, left: Segment | None = None) -> list[Decision]:
    answered = a_tentative(known(LEFT_THERE, an_input(RIGHT)), seconds(0, 10))
    there = LEFT_THERE if left is None else an_input(LEFT, left)
    fragment = known(there, an_input(RIGHT, right), computed_s=10, tentative=(answered,))
    return decided(fragment, 30_000)


def test_an_input_that_returns_empty_is_promoted_without_a_job() -> None:
    (promotion,) = after_healing(came(RIGHT, 0, 10, at_ms=20_000, rows=0))
    assert isinstance(promotion, Promote)
    assert {read.input for read in promotion.reads} == {LEFT, RIGHT}


def test_an_input_that_returns_with_rows_is_recomputed_and_as_old_as_its_answer() -> None:
    (correction,) = after_healing(came(RIGHT, 0, 10, at_ms=20_000))
    assert isinstance(correction, ComputeStep)
    assert correction.cause is Cause.CORRECTION
    assert correction.fresh_ms == 0


def test_an_input_that_is_final_under_another_version_with_the_same_rows_changes_nothing() -> None:
    same = replace(came(LEFT, 0, 10, at_ms=9), version=Version(77))
    (promotion,) = after_healing(came(RIGHT, 0, 10, at_ms=20_000, rows=0), left=same)
    assert isinstance(promotion, Promote)


def test_an_input_with_the_same_count_and_other_rows_is_computed_again() -> None:
    left = came(LEFT, 0, 10, at_ms=9)
    other = replace(left, buckets={0: Digest(3, 999, 2)}, version=Version(77))
    (correction,) = after_healing(came(RIGHT, 0, 10, at_ms=20_000, rows=0), left=other)
    assert isinstance(correction, ComputeStep)


def test_corrections_come_behind_new_data_and_cost_no_more_than_the_slack() -> None:
    answered = known(
        an_input(
            LEFT, *(came(LEFT, s, s + 10, at_ms=s * 1_000, rows=200) for s in range(0, 100, 10))
        ),
        an_input(RIGHT),
    )
    tentative = tuple(a_tentative(answered, seconds(s, s + 10)) for s in range(0, 90, 10))
    right = an_input(
        RIGHT, *(came(RIGHT, s, s + 10, at_ms=95_000, rows=200) for s in range(0, 100, 10))
    )
    costly = Cost(step_ms=1_000, record_us=2_000.0)
    fragment = replace(
        known(answered.inputs[LEFT], right, computed_s=90, tentative=tentative), cost=costly
    )
    step, *corrections = decided(fragment, 100_000)
    assert isinstance(step, ComputeStep)
    assert step.cause is Cause.NORMAL
    slack_ms = wait_ms(Bound(bound_ms=X_MS), costly, 0)
    spent_ms = 0
    for correction in corrections:
        assert isinstance(correction, ComputeStep)
        spent_ms += costly.of_ms(sum(
            digest.rows for i in fragment.inputs.values() for s in i.overlapping(correction.range)
            for digest in s.buckets.values()
        ))  # fmt: skip
    assert corrections[0].range.from_us == 0  # type: ignore[union-attr]
    assert len(corrections) < len(tentative)
    assert spent_ms <= slack_ms


def many_promotions(bound: Bound | None) -> list[Decision]:
    """What is decided where 300 answers turn out to be right, and no new data has come."""
    left = an_input(LEFT, *(came(LEFT, s, s + 10, at_ms=s * 1_000) for s in range(0, 3_000, 10)))
    answered = known(left, an_input(RIGHT))
    tentative = tuple(a_tentative(answered, seconds(s, s + 10)) for s in range(0, 3_000, 10))
    right = an_input(RIGHT, came(RIGHT, 0, 3_000, at_ms=3_100_000, rows=0))
    fragment = known(left, right, computed_s=3_000, tentative=tentative, bound=bound)
    other = known(LEFT_THERE, an_input(RIGHT), bound=bound)
    one = replace(other.fragment, name="other")
    knowledge = Knowledge(
        participant=Participant("alpha"),
        landings=(),
        fragments=(fragment, replace(other, fragment=one)),
        clock_ms=0,
    )
    return decide(knowledge, WAIT_MS - 1_000)


def test_promotions_leave_room_for_the_next_answer_and_have_no_limit_where_none_is_due() -> None:
    decisions = many_promotions(X)
    promoted = [d.range.from_us for d in decisions if isinstance(d, Promote)]
    assert promoted == [s * SECOND_US for s in range(0, 500, 10)], "half a second of ten ms each"
    unpromised = many_promotions(None)
    assert sum(isinstance(d, Promote) for d in unpromised) == 300


def test_a_fragment_that_is_suspended_while_it_corrects_holds_up_no_other() -> None:
    answered = a_tentative(known(LEFT_THERE, an_input(RIGHT)), seconds(0, 10))
    there = [came(LEFT, s, s + 10, at_ms=0) for s in (0, 10)]
    back = [came(RIGHT, s, s + 10, at_ms=20_000) for s in (0, 10)]
    suspends = Bound(bound_ms=X_MS, during_stabilization=Policy.SUSPEND, failure_ms_max=X_MS // 2)
    owing = known(
        an_input(LEFT, *there), an_input(RIGHT, *back), computed_s=10, tentative=(answered,),
        bound=suspends,
    )  # fmt: skip
    free = known(an_input(LEFT, *there), an_input(RIGHT, *back), computed_s=10)
    named = replace(free, fragment=replace(free.fragment, name="other"))
    knowledge = Knowledge(participant=Participant("alpha"), landings=(), fragments=(owing, named))
    steps = [d for d in decide(knowledge, 21_000) if isinstance(d, ComputeStep)]
    assert [(d.fragment.fragment.id, d.cause) for d in steps] == [
        (named.fragment.id, Cause.NORMAL),
        (owing.fragment.id, Cause.CORRECTION),
        (owing.fragment.id, Cause.NORMAL),
    ]


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("is_tentative", [False, True])
@pytest.mark.parametrize("is_owing", [False, True])
@pytest.mark.parametrize("age_ms", [0, WAIT_MS - 1, WAIT_MS])
def test_a_policy_holds_back_what_is_tentative_or_comes_while_corrections_are_owed(
    policy: Policy, is_tentative: bool, is_owing: bool, age_ms: int
) -> None:
    """The bucket of 10 s to 20 s; what is owed, of the one before, still lacks an input."""
    at_ms, second = 20_000, Stability.TENTATIVE if is_tentative else Stability.STABLE
    first = Stability.TENTATIVE if is_owing else Stability.STABLE
    owed = a_tentative(known(LEFT_THERE, an_input(RIGHT)), seconds(0, 10))
    during = "during_failure" if is_tentative else "during_stabilization"
    fragment = known(
        an_input(LEFT, came(LEFT, 0, 10, at_ms=0), came(LEFT, 10, 20, at_ms=at_ms)),
        an_input(RIGHT, came(RIGHT, 0, 10, at_ms=0, stability=first),
                 came(RIGHT, 10, 20, at_ms=at_ms, stability=second)),
        computed_s=10,
        bound=Bound(bound_ms=X_MS, failure_ms_max=X_MS // 2, **{during: policy}),
        tentative=(owed,) if is_owing else (),
    )  # fmt: skip
    (found,) = decided(fragment, at_ms + age_ms)
    is_due = age_ms >= WAIT_MS
    if policy is Policy.PROCESS or not (is_tentative or is_owing):
        is_held_back = False
    elif policy is Policy.DELAY:
        is_held_back = not is_due
    else:
        is_held_back = is_tentative
    assert isinstance(found, Wait) == is_held_back
    if isinstance(found, Wait):
        assert found.until_ms == (at_ms + WAIT_MS if policy is Policy.DELAY else None)
        expected = "an input is tentative" if is_tentative else "corrections are owed"
        assert found.because.reason.startswith(expected)
    else:
        assert isinstance(found, ComputeStep)
        assert found.range == seconds(10, 20)


def test_the_first_answer_ends_before_what_has_not_waited_long_enough() -> None:
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=0), came(LEFT, 10, 20, at_ms=5_000))
    waited = known(left, an_input(RIGHT))
    assert the_answer(waited, WAIT_MS).range == seconds(0, 10)
    assert the_answer(waited, WAIT_MS + 5_000).range == seconds(0, 20)
    delaying = known(left, an_input(RIGHT), bound=Bound(bound_ms=X_MS, during_failure=Policy.DELAY))
    assert the_answer(delaying, WAIT_MS).range == seconds(0, 10)


def test_an_answer_reaches_the_next_end_of_a_window_whatever_the_limits() -> None:
    left = an_input(LEFT, *(came(LEFT, s, s + 10, at_ms=0) for s in (0, 10, 20)))
    fragment = known(left, an_input(RIGHT), window="30s")
    (step,) = decided(fragment, X_MS, Limits(buckets_per_step_max=1))
    assert isinstance(step, ComputeStep)
    assert step.range == seconds(0, 30), "in the first 20 s no window ends: nothing is lacking"


def test_the_answer_that_has_waited_longest_is_given_first() -> None:
    newer = known(an_input(LEFT, came(LEFT, 0, 10, at_ms=500)), an_input(RIGHT))
    older = known(an_input(LEFT, came(LEFT, 0, 10, at_ms=0)), an_input(RIGHT))
    named = replace(older, fragment=replace(older.fragment, name="z"))
    assert named.fragment.id > newer.fragment.id, "by name it would be the other way round"
    knowledge = Knowledge(participant=Participant("alpha"), landings=(), fragments=(newer, named))
    steps = [d for d in decide(knowledge, X_MS) if isinstance(d, ComputeStep)]
    assert [step.fresh_ms for step in steps] == [0, 500]
    assert [step.fragment.fragment.id for step in steps] == [named.fragment.id, newer.fragment.id]


def test_a_fragment_that_could_be_suspended_and_corrects_nothing_goes_before_corrections() -> None:
    suspends = Bound(bound_ms=X_MS, during_stabilization=Policy.SUSPEND, failure_ms_max=X_MS // 2)
    there = [came(LEFT, s, s + 10, at_ms=0) for s in (0, 10)]
    back = [came(RIGHT, s, s + 10, at_ms=20_000) for s in (0, 10)]
    inputs = an_input(LEFT, *there), an_input(RIGHT, *back)
    answered = a_tentative(known(LEFT_THERE, an_input(RIGHT)), seconds(0, 10))
    owing = known(*inputs, computed_s=20, tentative=(answered,))
    free = known(*inputs, computed_s=10, bound=suspends)
    named = replace(free, fragment=replace(free.fragment, name="other"))
    knowledge = Knowledge(participant=Participant("alpha"), landings=(), fragments=(owing, named))
    steps = [d for d in decide(knowledge, 21_000) if isinstance(d, ComputeStep)]
    assert [d.cause for d in steps] == [Cause.NORMAL, Cause.CORRECTION]


def test_a_correction_is_made_even_without_slack() -> None:
    fragment = known(LEFT_THERE, an_input(RIGHT, came(RIGHT, 0, 10, at_ms=9)), computed_s=10)
    answered = a_tentative(known(LEFT_THERE, an_input(RIGHT)), seconds(0, 10))
    slow = replace(fragment, tentative=(answered,), cost=Cost(step_ms=60_000))
    assert [type(d) for d in decided(slow, 30_000)] == [ComputeStep]


def test_the_live_lane_leaves_corrections_to_a_backlog_driver_that_holds_the_lease() -> None:
    fragment = known(LEFT_THERE, an_input(RIGHT, came(RIGHT, 0, 10, at_ms=9)), computed_s=10)
    answered = a_tentative(known(LEFT_THERE, an_input(RIGHT)), seconds(0, 10))
    apart = replace(fragment, tentative=(answered,), is_corrected_apart=True)
    assert [type(d) for d in decided(apart, 30_000)] == [Wait]


# promises


def test_a_bound_of_zero_and_one_that_suspending_breaks_are_refused_with_the_figures() -> None:
    with pytest.raises(Refused, match="a bound of 0 ms"):
        Bound(bound_ms=0)
    with pytest.raises(Refused, match="needs failure_max"):
        Bound(bound_ms=10_000, during_failure=Policy.SUSPEND)
    with pytest.raises(Refused, match=r"12000 ms is longer than 0\.9 of 10000 ms"):
        Bound(bound_ms=10_000, during_failure=Policy.SUSPEND, failure_ms_max=12_000)


def test_a_bound_below_the_width_or_below_twice_its_path_is_refused() -> None:
    with pytest.raises(Refused, match="less than its buckets of 10000 ms"):
        check_path("both", Bound(bound_ms=9_999), path_ms=1, width_ms=10_000)
    with pytest.raises(Refused, match="less than 2 x 6000 ms"):
        check_path("both", Bound(bound_ms=11_999), path_ms=6_000, width_ms=1_000)


def test_the_strictest_of_several_bounds_is_kept_for_all() -> None:
    one = Bound(bound_ms=10_000, during_failure=Policy.DELAY)
    two = Bound(bound_ms=4_000)
    assert strictest([one, None, two]) == Bound(bound_ms=4_000)
    assert strictest([None]) is None


def test_the_rest_of_a_path_is_the_dearest_way_behind() -> None:
    fragment = known(LEFT_THERE, an_input(RIGHT), path_ms=700)
    assert rests_ms((fragment,)) == {"joined/main": 700}
    assert paths_ms((fragment,)) == dict.fromkeys((LEFT, RIGHT), IMPORT_MS + COST.path_ms + 700)


@given(st.lists(st.tuples(st.floats(0.1, 900), st.integers(0, 1_000)), min_size=1, max_size=80))
def test_a_cost_is_one_that_steps_have_had(steps: list[tuple[float, int]]) -> None:
    cost = cost_of([MeasuredStep(ms, records) for ms, records in steps])
    assert 1 <= cost.step_ms <= max(1, max(ms for ms, _ in steps))
    assert cost.record_us > 0


def test_one_slow_first_step_is_left_out_of_a_cost() -> None:
    steps = [MeasuredStep(9_000.0, 10)] + [MeasuredStep(40.0, 10)] * 20
    assert cost_of(steps).step_ms == 40


# states


def test_states_are_derived_from_the_catalog() -> None:
    stable = known(LEFT_THERE, an_input(RIGHT))
    assert state_of(stable)[0] is State.STABLE
    output = replace(stable.outputs[BOTH], tentative_us=0, lacks=(RIGHT,))
    failing = replace(stable, outputs={BOTH: output})
    assert state_of(failing) == (State.UP_FAILURE, "without right")
    healed = replace(stable, outputs={BOTH: replace(output, lacks=None)})
    assert state_of(healed)[0] is State.STABILIZATION


@given(st.integers(0, 20_000), st.integers(0, 20_000), st.integers(500, 20_000))
def test_whatever_the_age_an_answer_leaves_time_for_itself(
    came_ms: int, age_ms: int, bound_ms: int
) -> None:
    """S6 as far as a decision can keep it: what is due is due before X less the step."""
    age_ms = min(age_ms, came_ms)
    left = an_input(LEFT, came(LEFT, 0, 10, at_ms=came_ms, age_ms=age_ms))
    fragment = replace(
        known(left, an_input(RIGHT), bound=Bound(bound_ms=bound_ms)), cost=Cost(step_ms=100)
    )
    (decision,) = decided(fragment, came_ms)
    fresh_ms = came_ms - age_ms
    if isinstance(decision, Wait):
        assert decision.until_ms is not None
        assert came_ms < decision.until_ms <= fresh_ms + bound_ms - 100
    else:
        assert isinstance(decision, ComputeStep)
        assert came_ms >= fresh_ms + wait_ms(Bound(bound_ms=bound_ms), Cost(step_ms=100), 0)


def test_one_slow_large_step_is_left_out_of_what_a_record_costs() -> None:
    small = [MeasuredStep(40.0, 10)] * 20
    catching_up = MeasuredStep(9_000.0, 10_010)
    usual = [MeasuredStep(140.0, 10_010)] * 4
    assert cost_of([*small, catching_up, *usual]).record_us == 10.0
    assert cost_of([*small, catching_up]).record_us == 896.0, "of few the slowest is believed"


def test_a_wait_leaves_what_steps_cost_around_themselves_but_for_the_slowest() -> None:
    assert Cost(step_ms=500).path_ms == 600
    assert wake_of((), ()) == wake_of([3.0], [7.0]) == 100, "as little is not believed"
    assert wake_of([9_000.0, *[300.0] * 9], [9_000.0, *[50.0] * 9]) == 350
    around = Cost(step_ms=COST.step_ms, wake_ms=wake_of([300.0] * 9, [50.0] * 9))
    fragment = replace(known(LEFT_THERE, an_input(RIGHT)), cost=around)
    assert the_wait(fragment, 0).until_ms == X_MS - COST.step_ms - 350
