"""First answers and what became of them, over rows as a catalog tells them."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.certificates import LineEvent
from medusa_core.first_outputs import computations_max, delay_ms_of, first_outputs
from medusa_core.grid import Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Stability

WINDOW = Range(0, 100)
STABLE, TENTATIVE, GAP = Stability.STABLE, Stability.TENTATIVE, Stability.GAP


def an_event(
    from_us: int,
    to_us: int,
    stability: Stability,
    version: int,
    end: int | None = None,
    *,
    at_ms: int | None = None,
    inputs_at_ms: int | None = None,
    age_ms: int = 0,
) -> LineEvent:
    return LineEvent(
        range=Range(from_us, to_us),
        stability=stability,
        begin_version=Version(version),
        end_version=None if end is None else Version(end),
        committed_at_ms=version * 10 if at_ms is None else at_ms,
        inputs_at_ms=inputs_at_ms,
        age_ms=age_ms,
        missing=() if stability.is_final else (StreamName("other"),),
    )


def told(events: Sequence[LineEvent], window: Range = WINDOW) -> list[tuple[object, ...]]:
    """Each answer as (from, to, whether tentative, when it came, when it was final)."""
    return [
        (a.range.from_us, a.range.to_us, a.is_tentative, a.came_at_ms, a.final_at_ms)
        for a in first_outputs(window, events)
    ]


def test_a_stable_answer_is_final_when_it_comes() -> None:
    assert told([an_event(0, 20, STABLE, 1)]) == [(0, 20, False, 10, 10)]


def test_a_tentative_answer_is_cut_where_its_corrections_are_and_the_rest_waits() -> None:
    events = [
        an_event(0, 40, TENTATIVE, 1, 2),
        an_event(0, 10, STABLE, 2),
        an_event(20, 30, STABLE, 3),
        an_event(40, 50, STABLE, 4),
    ]
    assert told(events) == [
        (0, 10, True, 10, 20),
        (10, 20, True, 10, None),
        (20, 30, True, 10, 30),
        (30, 40, True, 10, None),
        (40, 50, False, 40, 40),
    ]
    corrected = [a.range.from_us for a in first_outputs(WINDOW, events) if a.is_corrected]
    assert corrected == [0, 20]


def test_what_fills_a_hole_between_answers_is_an_answer_too() -> None:
    events = [
        an_event(0, 10, STABLE, 1),
        an_event(20, 30, STABLE, 2),
        an_event(10, 20, STABLE, 3),
        an_event(30, 40, STABLE, 4),
    ]
    assert told(events) == [
        (0, 10, False, 10, 10),
        (10, 20, False, 30, 30),
        (20, 30, False, 20, 20),
        (30, 40, False, 40, 40),
    ]


def test_a_correction_that_covers_several_answers_ends_each_of_them() -> None:
    events = [
        an_event(0, 10, TENTATIVE, 1, 3),
        an_event(10, 20, TENTATIVE, 2, 3),
        an_event(0, 30, STABLE, 3),
    ]
    assert told(events) == [
        (0, 10, True, 10, 30), (10, 20, True, 20, 30), (20, 30, False, 30, 30),
    ]  # fmt: skip


def test_only_events_in_the_window_are_reported() -> None:
    events = [an_event(0, 40, TENTATIVE, 1, 2), an_event(0, 40, STABLE, 2)]
    assert told(events, Range(15, 25)) == [(15, 25, True, 10, 20)]


def test_a_gap_is_no_answer_but_ends_a_tentative_one() -> None:
    events = [an_event(0, 10, TENTATIVE, 1, 2), an_event(0, 20, GAP, 2)]
    assert told(events) == [(0, 10, True, 10, 20)]


def test_the_delay_counts_what_had_passed_before_the_inputs_came_here() -> None:
    assert delay_ms_of(an_event(0, 10, STABLE, 1)) is None
    waited = an_event(0, 10, STABLE, 1, at_ms=500, inputs_at_ms=200, age_ms=40)
    assert delay_ms_of(waited) == 300
    aged = an_event(0, 10, STABLE, 1, at_ms=500, inputs_at_ms=490, age_ms=40)
    assert delay_ms_of(aged) == 40
    backwards = an_event(0, 10, STABLE, 1, at_ms=500, inputs_at_ms=600)
    assert delay_ms_of(backwards) == 0


def test_computations_of_a_bucket_are_counted_and_a_cut_row_counts_once() -> None:
    once = [an_event(0, 10, STABLE, 1), an_event(10, 20, STABLE, 2)]
    assert computations_max(once) == 1
    cut = [
        an_event(0, 40, TENTATIVE, 1, 2),
        an_event(0, 10, STABLE, 2),
        an_event(10, 40, TENTATIVE, 2, at_ms=10),  # what was left of the first
    ]
    assert computations_max(cut) == 2
    assert computations_max([*cut, an_event(5, 8, STABLE, 3)]) == 3
    assert computations_max([]) == 0


def test_a_row_that_begins_where_an_answer_does_answers_what_is_behind_it() -> None:
    events = [
        an_event(0, 10, STABLE, 1),
        an_event(20, 30, TENTATIVE, 2, 3),
        an_event(20, 40, STABLE, 3),
    ]
    assert told(events) == [
        (0, 10, False, 10, 10),
        (20, 30, True, 20, 30),
        (30, 40, False, 30, 30),
    ]


def test_a_correction_of_the_first_part_of_an_answer_is_no_answer_itself() -> None:
    events = [
        an_event(0, 10, STABLE, 1),
        an_event(20, 40, TENTATIVE, 2, 3),
        an_event(20, 30, STABLE, 3),
    ]
    assert told(events) == [
        (0, 10, False, 10, 10),
        (20, 30, True, 20, 30),
        (30, 40, True, 20, None),
    ]
