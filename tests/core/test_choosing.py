"""Choosing among several producers, as values: what is cut, joined, waited for and told."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.bounds import Bound, Policy
from medusa_core.choosing import choose
from medusa_core.comparing import pieces_of, to_compare
from medusa_core.grid import FOREVER_US, Range
from medusa_core.imports import ImportKnowledge, ProducedLine, explain_choice
from medusa_core.names import Epoch, Participant, PlanId
from medusa_core.segments import IMPORT, Producer, Segment, Stability, reading_order
from medusa_core.wait_budget import WaitBudget, wait_budget_of
from tests.core.builders import (
    PLAN,
    READINGS,
    SECOND_US,
    TOTALS,
    a_fragment_knowledge,
    a_segment,
    an_input,
    seconds,
)

HERE = Participant("delta")
BETA, GAMMA = Producer(Participant("beta")), Producer(Participant("gamma"), 1)


def a_line(producer: Producer, *segments: Segment) -> ProducedLine:
    tentative = [s.range.from_us for s in segments if not s.stability.is_final]
    return ProducedLine(
        producer=producer,
        origin_us=segments[0].range.from_us if segments else None,
        boundary_us=segments[-1].range.to_us if segments else None,
        tentative_us=min(tentative, default=None),
        segments=tuple(replace(s, producer=producer) for s in segments),
    )


def a_knowledge(*lines: ProducedLine, verify: int = 1) -> ImportKnowledge:
    return ImportKnowledge(
        stream=READINGS,
        reader=Producer(HERE, IMPORT),
        epoch=Epoch(1),
        plan=PLAN,
        width_us=SECOND_US,
        producers=lines,
        verify=verify,
        compare=to_compare(lines),
    )


def runs(lengths: list[int]) -> list[Range]:
    at, found = 0, []
    for length in lengths:
        found.append(seconds(at, at + length))
        at += length
    return found


@given(st.lists(st.lists(st.integers(1, 4), max_size=5), min_size=1, max_size=3))
def test_pieces_tile_the_whole_and_lie_in_or_out_of_every_row(cuts: list[list[int]]) -> None:
    lines = [
        a_line(Producer(Participant(f"p{n}"), n), *(a_segment(part) for part in runs(lengths)))
        for n, lengths in enumerate(cuts)
    ]
    whole = seconds(0, 20)
    pieces = list(pieces_of(a_knowledge(*lines), whole))
    assert [p.from_us for p, _ in pieces] == [0, *(p.to_us for p, _ in pieces[:-1])]
    assert pieces[-1][0].to_us == whole.to_us
    for piece, held in pieces:
        for line, has in zip(lines, held, strict=True):
            over = [s for s in line.segments if s.range.overlaps(piece)]
            assert over == ([has.segment] if has.segment is not None else [])
            assert all(s.range.covers(piece) for s in over)


def test_a_row_that_another_producer_cuts_elsewhere_is_read_as_one() -> None:
    counts = dict.fromkeys(range(6), 1)
    one = a_line(BETA, a_segment(seconds(0, 6), counts))
    cut = [a_segment(part, {at: 1 for at in counts if part.holds(at * SECOND_US)})
           for part in runs([2, 1, 3])]  # fmt: skip
    chosen = choose(a_knowledge(one, a_line(GAMMA, *cut)), None, 0)
    (row,) = chosen.rows
    assert (row.range, row.producer, len(row.buckets)) == (seconds(0, 6), BETA, 6)
    assert chosen.compared_us == {BETA: 6 * SECOND_US, GAMMA: 6 * SECOND_US}
    assert explain_choice(row) == (
        "read readings [0, 6000000) of beta/0 v1 as stable: a producer has it as final "
        "(producers 2, final 2, lost 0, verify 1)"
    )


def test_nothing_is_read_behind_a_hole_that_every_producer_has() -> None:
    line = a_line(BETA, a_segment(seconds(0, 2)), a_segment(seconds(3, 5)))
    (row,) = choose(a_knowledge(line), None, 0).rows
    assert row.range == seconds(0, 2)


def test_rows_under_different_plans_are_neither_compared_nor_do_they_verify_each_other() -> None:
    other = replace(a_segment(seconds(0, 1), {0: 7}), plan=PlanId("1" * 32))
    knowledge = a_knowledge(
        a_line(BETA, a_segment(seconds(0, 1), {0: 1})), a_line(GAMMA, other), verify=2
    )
    chosen = choose(knowledge, None, 0)
    assert (chosen.rows, chosen.divergences) == ((), ())


def test_what_is_chosen_of_two_plans_is_two_commits_in_order() -> None:
    later = replace(a_segment(seconds(1, 2), {1: 7}), plan=PlanId("1" * 32))
    chosen = choose(a_knowledge(a_line(BETA, a_segment(seconds(0, 1), {0: 1}), later)), None, 0)
    assert [row.plan for row in chosen.rows] == [PLAN, later.plan]
    assert chosen.rows[0].stability is Stability.STABLE
    assert [r.range for row in chosen.rows for r in row.reads] == [seconds(0, 1), seconds(1, 2)]


def test_the_least_wait_and_the_most_eager_policy_of_what_reads_a_stream_count() -> None:
    known = a_fragment_knowledge(an_input())
    bounds = [Bound(bound_ms=10_000, during_failure=Policy.DELAY), Bound(bound_ms=60_000)]
    fragments = [
        replace(known, outputs={TOTALS: replace(known.outputs[TOTALS], bound=bound)})
        for bound in bounds
    ]
    least = wait_budget_of(fragments)[READINGS]
    assert least == WaitBudget(8_900, Policy.PROCESS), "a step not yet measured may take 1.1 s"
    assert wait_budget_of([known]) == {}


def test_a_home_reads_what_it_chose_before_its_own_and_its_own_before_others() -> None:
    own, chosen = Producer(HERE), Producer(HERE, IMPORT)
    foreign = Producer(Participant("alpha"), IMPORT)
    lines = [foreign, BETA, own, chosen]
    assert min(lines, key=lambda p: reading_order(p, HERE)) == chosen
    assert min([foreign, BETA, own], key=lambda p: reading_order(p, HERE)) == own
    assert str(chosen) == "delta/import"


def held_of(line: ProducedLine, *bounds: int) -> tuple[bool, bool, bool]:
    """Of one piece: whether it has a row, is outside the line's life, is trimmed."""
    pieces = dict(pieces_of(a_knowledge(line), seconds(0, 12)))
    (held,) = pieces[seconds(*bounds)]
    return held.segment is not None, held.is_outside, held.is_gone


def test_what_a_producer_has_of_a_piece_depends_on_where_its_line_begins_and_ends() -> None:
    rows = a_segment(seconds(4, 6)), a_segment(seconds(7, 9))
    line = replace(a_line(BETA, *rows), end_us=9 * SECOND_US)
    ended = replace(line, boundary_us=FOREVER_US)
    assert held_of(ended, 0, 4) == (False, True, False)
    assert held_of(ended, 4, 6) == (True, False, False)
    assert held_of(ended, 6, 7) == (False, False, False), "a hole is not the end"
    assert held_of(ended, 9, 12) == (False, True, False)
    assert held_of(line, 9, 12) == (False, False, False), "its end is known, and not reached"


def test_what_is_trimmed_is_gone_and_what_was_before_the_line_is_not() -> None:
    line = replace(
        a_line(BETA, a_segment(seconds(6, 9))),
        origin_us=2 * SECOND_US,
        trimmed_us=6 * SECOND_US,
    )
    assert held_of(line, 0, 2) == (False, True, False)
    assert held_of(line, 2, 6) == (False, False, True)
    assert held_of(line, 6, 9) == (True, False, False)


def test_a_piece_is_lost_when_every_producer_has_lost_it_and_no_sooner() -> None:
    lost = a_line(BETA, a_segment(seconds(0, 2), stability=Stability.GAP))
    other = a_line(GAMMA, a_segment(seconds(0, 2), stability=Stability.GAP))
    (row,) = choose(a_knowledge(lost, other), None, 0).rows
    assert row.stability is Stability.GAP
    silent = ProducedLine(producer=GAMMA)
    assert choose(a_knowledge(lost, silent), None, 0).rows == ()
    (row,) = choose(a_knowledge(lost, silent), WaitBudget(1_000, Policy.PROCESS), 10**6).rows
    assert row.stability is Stability.TENTATIVE


def test_too_few_that_agree_are_waited_for_and_then_read_as_tentative() -> None:
    one = a_line(BETA, a_segment(seconds(0, 1), {0: 1}))
    silent = ProducedLine(producer=GAMMA)
    wait_budget = WaitBudget(1_000, Policy.PROCESS)
    unverified = a_knowledge(one, silent, verify=2)
    assert choose(unverified, None, 10**6).rows == ()
    assert choose(unverified, replace(wait_budget, during_failure=Policy.SUSPEND), 10**6).rows == ()
    waiting = choose(unverified, wait_budget, 999)
    assert waiting.rows == ()
    (row,) = choose(unverified, wait_budget, 1_000).rows
    assert row.stability is Stability.TENTATIVE
    both = a_knowledge(one, replace(one, producer=GAMMA, segments=tuple(
        replace(s, producer=GAMMA) for s in one.segments)), verify=2)  # fmt: skip
    (row,) = choose(both, None, 0).rows
    assert row.stability is Stability.STABLE
