"""What a participant does next, decided from values alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.commits import Cause
from medusa_core.decide import (
    CloseBuckets,
    ComputeStep,
    Decision,
    Wait,
    cut_us,
    decide,
    decide_landing,
    explain,
)
from medusa_core.grid import FOREVER_US
from medusa_core.knowledge import FragmentKnowledge, Knowledge, Limits, TentativeKnowledge
from medusa_core.names import Participant
from medusa_core.segments import Stability
from tests.core.builders import (
    SECOND_US,
    TOTALS,
    a_fragment_knowledge,
    a_landing,
    a_network,
    a_passing_network,
    a_segment,
    an_input,
    seconds,
)


def decide_fragment(known: FragmentKnowledge, limits: Limits) -> list[Decision]:
    knowledge = Knowledge(
        participant=Participant("alpha"), landings=(), fragments=(known,), limits=limits
    )
    return decide(knowledge, 0)


NO_LIMITS = Limits(records_per_step_max=10**9, buckets_per_step_max=10**9)


def the_step(known: object, limits: Limits = NO_LIMITS) -> ComputeStep:
    (step,) = decide_fragment(known, limits)  # type: ignore[arg-type]
    assert isinstance(step, ComputeStep)
    return step


def test_a_bucket_is_computed_once_the_boundary_of_every_input_has_passed_its_end() -> None:
    known = a_fragment_knowledge(an_input(a_segment(seconds(0, 50), {0: 3})))
    assert the_step(known).range == seconds(0, 50)


def test_nothing_is_computed_while_the_boundary_is_within_the_next_bucket() -> None:
    known = a_fragment_knowledge(an_input(a_segment(seconds(0, 50))), computed_s=50)
    (decision,) = decide_fragment(known, NO_LIMITS)
    assert isinstance(decision, Wait)
    assert decision.because.numbers["boundary_us"] == 50 * SECOND_US


def test_a_tumbling_window_reads_exactly_the_input_of_the_windows_that_end_in_the_output() -> None:
    known = a_fragment_knowledge(
        an_input(a_segment(seconds(0, 200), {0: 1, 70: 2, 190: 1})), computed_s=60
    )
    step = the_step(known)
    assert step.range == seconds(60, 200)
    (read,) = step.reads
    assert read.range == seconds(60, 180)


def test_a_sliding_window_reads_back_as_far_as_it_reaches() -> None:
    network = a_network(size="60s", advance="10s")
    known = a_fragment_knowledge(
        an_input(a_segment(seconds(0, 200))), computed_s=100, network=network
    )
    (read,) = the_step(known).reads
    assert read.range == seconds(50, 200)


def test_a_step_that_passes_a_limit_ends_before_the_bucket_that_would_pass_it() -> None:
    counts = {0: 40, 10: 40, 20: 40, 30: 40}
    known = a_fragment_knowledge(
        an_input(a_segment(seconds(0, 40), counts)), network=a_passing_network()
    )
    assert the_step(known, Limits(records_per_step_max=100)).range == seconds(0, 20)
    assert the_step(known, Limits(buckets_per_step_max=3)).range == seconds(0, 30)


def test_a_single_bucket_is_computed_whole_even_beyond_the_limits() -> None:
    known = a_fragment_knowledge(
        an_input(a_segment(seconds(0, 20), {0: 1_000, 10: 1})), network=a_passing_network()
    )
    assert the_step(known, Limits(records_per_step_max=10)).range == seconds(0, 10)


def test_a_gap_of_years_is_one_step() -> None:
    year_s = 365 * 86_400
    known = a_fragment_knowledge(
        an_input(a_segment(seconds(0, year_s), {0: 1})), network=a_passing_network()
    )
    assert the_step(known, Limits()).range == seconds(0, year_s)


def test_the_last_step_reaches_the_end_of_the_last_window_and_ends_the_outputs() -> None:
    last = a_segment(seconds(0, 70), {0: 1, 60: 1})
    known = a_fragment_knowledge(an_input(last, end_s=70))
    step = the_step(known)
    assert step.ends
    assert step.range == seconds(0, 120)


def test_outputs_computed_before_the_end_was_known_end_with_one_empty_bucket() -> None:
    source = an_input(a_segment(seconds(0, 60), {0: 1}), end_s=60)
    known = a_fragment_knowledge(source, computed_s=60)
    step = the_step(known)
    assert step.ends
    assert step.range == seconds(60, 70)
    assert step.reads == ()


def test_a_step_knows_only_what_was_read_and_goes_no_further() -> None:
    whole = an_input(a_segment(seconds(0, 100), {0: 1}), boundary_s=500)
    known = a_fragment_knowledge(
        type(whole)(**{f: getattr(whole, f) for f in whole.__slots__}
                    | {"known_through_us": 100 * SECOND_US}),
        network=a_passing_network(),
    )  # fmt: skip
    assert the_step(known).range == seconds(0, 100)


def test_what_is_computed_from_tentative_input_is_tentative_and_that_is_not_sticky() -> None:
    segments = (
        a_segment(seconds(0, 10), {0: 1}, stability=Stability.TENTATIVE, version=2),
        a_segment(seconds(10, 20), {10: 1}, version=3),
    )
    first = a_fragment_knowledge(an_input(*segments), network=a_passing_network())
    assert the_step(first).stability is Stability.TENTATIVE
    second = a_fragment_knowledge(an_input(*segments), computed_s=10, network=a_passing_network())
    assert the_step(second).stability is Stability.STABLE


def a_tentative(*bounds: int) -> TentativeKnowledge:
    segment = a_segment(
        seconds(*bounds), stream=TOTALS, stability=Stability.TENTATIVE, version=bounds[0] + 1
    )
    return TentativeKnowledge(segment=segment, reads=())


def test_tentative_outputs_are_corrected_together_as_soon_as_all_they_need_is_final() -> None:
    final = an_input(a_segment(seconds(0, 60), {0: 2, 40: 1}))
    known = a_fragment_knowledge(
        final,
        computed_s=60,
        network=a_passing_network(),
        tentative=(a_tentative(30, 60), a_tentative(0, 30)),
    )
    (correction,) = decide_fragment(known, NO_LIMITS)
    assert isinstance(correction, ComputeStep)
    assert correction.range == seconds(0, 60)
    assert correction.cause is Cause.CORRECTION
    assert correction.stability is Stability.STABLE


@pytest.mark.parametrize(("limit", "wanted"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (4, [3])])
def test_corrections_are_made_together_up_to_the_limits_of_a_step(
    limit: int, wanted: list[int]
) -> None:
    known = a_fragment_knowledge(
        an_input(a_segment(seconds(0, 30), {0: 5, 10: 5, 20: 5})),
        computed_s=30,
        network=a_passing_network(),
        tentative=(a_tentative(0, 10), a_tentative(10, 20), a_tentative(20, 30)),
    )
    for limits in (
        Limits(records_per_step_max=10**9, buckets_per_step_max=limit),
        Limits(records_per_step_max=5 * limit, buckets_per_step_max=10**9),
    ):
        made = [d for d in decide_fragment(known, limits) if isinstance(d, ComputeStep)]
        assert [(d.range.to_us - d.range.from_us) // (10 * SECOND_US) for d in made] == wanted


def test_corrections_with_a_range_between_them_are_made_apart() -> None:
    known = a_fragment_knowledge(
        an_input(a_segment(seconds(0, 30), {0: 5, 10: 5, 20: 5})),
        computed_s=30,
        network=a_passing_network(),
        tentative=(a_tentative(0, 10), a_tentative(20, 30)),
    )
    made = [d for d in decide_fragment(known, NO_LIMITS) if isinstance(d, ComputeStep)]
    assert [d.range for d in made] == [seconds(0, 10), seconds(20, 30)]


def test_a_tentative_output_waits_while_any_part_of_its_input_is_not_final() -> None:
    mixed = an_input(
        a_segment(seconds(0, 30)),
        a_segment(seconds(30, 60), stability=Stability.TENTATIVE, version=2),
    )
    known = a_fragment_knowledge(mixed, computed_s=60, tentative=(a_tentative(50, 60),))
    (decision,) = decide_fragment(known, NO_LIMITS)
    assert isinstance(decision, Wait)


def test_a_source_closes_what_its_boundary_has_passed_and_no_more() -> None:
    closing = decide_landing(a_landing({0: 5, 20: 5}, boundary_s=29), NO_LIMITS)
    assert isinstance(closing, CloseBuckets)
    assert closing.range == seconds(0, 20)
    assert not closing.ends


def test_a_source_whose_end_is_known_is_closed_no_further_than_its_boundary() -> None:
    declared = a_landing({0: 5, 20: 5, 40: 5}, boundary_s=35, end_s=60)
    closing = decide_landing(declared, NO_LIMITS)
    assert isinstance(closing, CloseBuckets)
    assert closing.range == seconds(0, 30)
    assert not closing.ends


def test_a_source_that_has_ended_is_closed_to_its_end() -> None:
    ended = a_landing({0: 5, 20: 5}, boundary_s=30, end_s=30)
    closing = decide_landing(ended, NO_LIMITS)
    assert isinstance(closing, CloseBuckets)
    assert closing.range == seconds(0, 30)
    assert closing.ends


@given(
    st.dictionaries(st.integers(-5, 60), st.integers(1, 50), max_size=40),
    st.integers(1, 120),
    st.integers(1, 12),
    st.sampled_from([1, 2, 5]),
)
def test_a_cut_keeps_the_limits_unless_one_bucket_alone_breaks_them(
    counts: dict[int, int], records_max: int, buckets_max: int, width: int
) -> None:
    limits = Limits(records_per_step_max=records_max, buckets_per_step_max=buckets_max)
    to = 60
    cut = cut_us(0, to, counts, width, limits)
    assert 0 < cut <= to
    assert cut == to or cut % width == 0
    taken = [n for at, n in counts.items() if at < cut]
    assert cut == width or (sum(taken) <= records_max and len(taken) <= buckets_max)


def test_repeated_decisions_compute_every_bucket_exactly_once() -> None:
    counts = dict.fromkeys(range(0, 600, 10), 7)
    source = an_input(a_segment(seconds(0, 600), counts), end_s=600)
    at_s, steps = 0, []
    while True:
        known = a_fragment_knowledge(source, computed_s=at_s)
        if isinstance(next(iter(decide_fragment(known, Limits(records_per_step_max=100)))), Wait):
            break
        step = the_step(known, Limits(records_per_step_max=100))
        steps.append(step.range)
        at_s = step.range.to_us // SECOND_US
        if step.ends:
            break
    assert steps[0].from_us == 0
    assert all(a.to_us == b.from_us for a, b in pairwise(steps))
    assert steps[-1].to_us == 600 * SECOND_US


def test_every_decision_explains_itself_in_numbers() -> None:
    knowledge = Knowledge(
        participant=Participant("alpha"),
        landings=(a_landing({0: 5}, boundary_s=20),),
        fragments=(
            a_fragment_knowledge(
                an_input(a_segment(seconds(0, 10), {0: 4})), network=a_passing_network()
            ),
        ),
    )
    lines = explain(decide(knowledge, 0))
    assert len(lines) == 2
    assert "records 4" in lines[0]
    assert "close readings" in lines[1]


@pytest.mark.parametrize("boundary", [FOREVER_US])
def test_an_ended_input_no_longer_bounds_the_output(boundary: int) -> None:
    known = a_fragment_knowledge(
        an_input(a_segment(seconds(0, 10), {0: 4}), end_s=10, boundary_s=boundary // SECOND_US)
    )
    assert the_step(known).range.to_us == 60 * SECOND_US
