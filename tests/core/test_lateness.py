"""Lateness by the source's own sequence, and what a source may promise of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medusa_core.errors import Refused
from medusa_core.lateness import (
    Boundary,
    BoundaryRule,
    LatenessRule,
    LatenessState,
    Verdict,
    end_of_sequence,
    judge,
    next_boundary,
)

IN_TIME, LATE, UNCONFIRMED, HELD = Verdict
IN_2099 = 4_070_908_800_000_000
NOW = 1_700_000_000_000_000
S = 1_000_000


def verdicts(rule: LatenessRule, times: Sequence[int], **bounds: int) -> list[Verdict]:
    return list(judge(rule, LatenessState(), times, **bounds).verdicts)


def test_a_record_is_late_when_it_lies_more_than_the_disorder_behind_one_before_it() -> None:
    rule = LatenessRule(disorder_us=10)
    assert verdicts(rule, [100, 90, 89, 105, 95, 94]) == [
        IN_TIME, IN_TIME, LATE, IN_TIME, IN_TIME, LATE,
    ]  # fmt: skip


def test_a_late_record_takes_nothing_from_the_maximum() -> None:
    state = judge(LatenessRule(), LatenessState(), [100, 7]).state
    assert (state.max_us, state.late) == (100, 1)


def test_without_disorder_a_record_may_be_as_old_as_the_latest_but_no_older() -> None:
    assert verdicts(LatenessRule(), [5, 5, 4]) == [IN_TIME, IN_TIME, LATE]


def test_one_record_dated_2099_does_not_poison_the_stream() -> None:
    rule = LatenessRule(disorder_us=10, max_jump_us=1_000)
    judged = judge(rule, LatenessState(), [100, IN_2099, 101, 102])
    assert judged.verdicts == (IN_TIME, UNCONFIRMED, IN_TIME, IN_TIME)
    assert judged.state == LatenessState(max_us=102, unconfirmed=1)


def test_without_max_jump_the_same_record_makes_all_that_follow_late() -> None:
    assert verdicts(LatenessRule(), [100, IN_2099, 101]) == [IN_TIME, IN_TIME, LATE]


def test_a_record_as_late_as_the_latest_is_not_ahead_of_the_clock_again() -> None:
    judged = judge(LatenessRule(), LatenessState(), [200, 200, 200], limit_us=100)
    assert judged.verdicts == (IN_TIME, IN_TIME, IN_TIME)
    assert judged.state == LatenessState(max_us=200)


def test_a_jump_that_the_next_record_confirms_counts() -> None:
    rule = LatenessRule(disorder_us=10, max_jump_us=50)
    assert verdicts(rule, [100, 500, 491, 480]) == [IN_TIME, IN_TIME, IN_TIME, LATE]


def test_two_wrong_clocks_that_do_not_agree_do_not_confirm_each_other() -> None:
    rule = LatenessRule(disorder_us=10, max_jump_us=50)
    assert verdicts(rule, [100, 5_000, 9_000, 101]) == [IN_TIME, UNCONFIRMED, UNCONFIRMED, IN_TIME]


def test_a_first_record_beyond_the_clock_needs_another_as_well() -> None:
    assert verdicts(LatenessRule(), [IN_2099, NOW, NOW + 1], limit_us=NOW + 5 * S) == [
        UNCONFIRMED, IN_TIME, IN_TIME,
    ]  # fmt: skip


def test_a_record_within_the_skew_of_the_clock_counts_at_once() -> None:
    assert verdicts(LatenessRule(), [NOW + 5 * S], limit_us=NOW + 5 * S) == [IN_TIME]


def test_the_last_record_of_a_batch_is_held_for_the_next_batch_to_confirm() -> None:
    rule = LatenessRule(disorder_us=10, max_jump_us=50)
    first = judge(rule, LatenessState(), [100, 500])
    assert first.verdicts == (IN_TIME, HELD)
    assert first.state.max_us == 100
    confirmed = judge(rule, first.state, [505])
    assert (confirmed.released, confirmed.verdicts) == (IN_TIME, (IN_TIME,))
    refuted = judge(rule, first.state, [101])
    assert (refuted.released, refuted.verdicts) == (UNCONFIRMED, (IN_TIME,))
    assert refuted.state == LatenessState(max_us=101, unconfirmed=1)


def test_a_batch_without_records_leaves_what_is_held() -> None:
    held = LatenessState(max_us=100, held_us=500)
    judged = judge(LatenessRule(max_jump_us=50), held, [])
    assert (judged.released, judged.state) == (None, held)


def test_what_is_held_at_the_end_was_never_confirmed() -> None:
    assert end_of_sequence(LatenessState(max_us=1, held_us=9)) == LatenessState(
        max_us=1, unconfirmed=1
    )
    assert end_of_sequence(LatenessState(max_us=1)) == LatenessState(max_us=1)


def test_a_record_before_the_promised_boundary_is_late_though_its_sequence_allows_it() -> None:
    rule = LatenessRule(disorder_us=100)
    assert verdicts(rule, [50, 60, 59], promised_us=60) == [LATE, IN_TIME, LATE]


def test_a_held_record_before_the_boundary_has_no_effect() -> None:
    rule = LatenessRule(disorder_us=10, max_jump_us=50)
    judged = judge(rule, LatenessState(max_us=100, held_us=500), [505], promised_us=501)
    assert judged.released is UNCONFIRMED


def test_the_state_survives_json() -> None:
    for state in (LatenessState(), LatenessState(max_us=-5, held_us=7, late=2, unconfirmed=3)):
        assert LatenessState.from_json(state.to_json()) == state


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"max_us": 1}', '{"max_us": 1, "held_us": 2, "late": 0}',
        '{"max_us": "1", "held_us": null, "late": 0, "unconfirmed": 0}',
        '{"max_us": true, "held_us": null, "late": 0, "unconfirmed": 0}',
        '{"max_us": 1, "held_us": null, "late": null, "unconfirmed": 0}',
    ],
)  # fmt: skip
def test_a_malformed_state_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="state of lateness"):
        LatenessState.from_json(text)


def test_lengths_of_time_below_zero_are_refused() -> None:
    with pytest.raises(Refused, match="below 0"):
        LatenessRule(disorder_us=-1)


# what may be promised


def promised(
    rule: BoundaryRule,
    max_us: int | None,
    *,
    before: int | None = None,
    now_us: int = NOW,
    seen_us: int | None = None,
    has_all: bool = True,
) -> Boundary:
    return next_boundary(
        rule,
        LatenessState(max_us=max_us),
        promised_us=before,
        width_us=10 * S,
        now_us=now_us,
        seen_us=seen_us,
        has_all=has_all,
    )


def test_while_data_flows_the_boundary_is_the_maximum_less_the_disorder_on_the_grid() -> None:
    assert promised(BoundaryRule(disorder_us=60 * S), 175 * S).at_us == 110 * S


def test_nothing_is_promised_before_the_first_record() -> None:
    assert promised(BoundaryRule(idle_after_us=S), None).at_us is None


def test_a_boundary_never_moves_back() -> None:
    rule = BoundaryRule(disorder_us=60 * S, wall_time=True)
    assert promised(rule, None, now_us=100 * S).at_us == 40 * S
    assert promised(rule, None, before=40 * S, now_us=50 * S).at_us == 40 * S
    assert promised(rule, 70 * S, before=40 * S, now_us=50 * S).at_us == 40 * S


def test_wall_time_promises_by_the_clock_alone() -> None:
    rule = BoundaryRule(disorder_us=60 * S, wall_time=True, max_skew_us=5 * S)
    assert promised(rule, NOW - 3_600 * S).at_us == NOW - 60 * S


def test_time_alone_promises_nothing_while_records_wait_to_be_read() -> None:
    rule = BoundaryRule(disorder_us=60 * S, wall_time=True, idle_after_us=S)
    assert promised(rule, 175 * S, seen_us=NOW - 60 * S, has_all=False).at_us == 110 * S


def test_the_boundary_of_an_idle_source_moves_as_the_clock_does() -> None:
    rule = BoundaryRule(disorder_us=60 * S, idle_after_us=30 * S, max_skew_us=5 * S)
    quiet = promised(rule, 175 * S, seen_us=NOW - 29 * S)
    idle = promised(rule, 175 * S, seen_us=NOW - 50 * S, before=quiet.at_us)
    later = promised(rule, 175 * S, seen_us=NOW - 90 * S, before=idle.at_us)
    assert (quiet.at_us, idle.at_us, later.at_us) == (110 * S, 130 * S, 170 * S)
    assert "idle" in idle.because


def test_a_boundary_beyond_the_clock_and_its_skew_is_refused() -> None:
    rule = BoundaryRule(idle_after_us=S, max_skew_us=5 * S)
    far = promised(rule, IN_2099, before=7 * S, seen_us=NOW - 60 * S)
    assert far.at_us == 7 * S
    assert "beyond the clock" in far.because
    assert promised(rule, NOW + 5 * S).at_us == NOW
    assert promised(rule, NOW + 11 * S).at_us is None


def test_an_idle_source_never_promises_beyond_the_clock() -> None:
    rule = BoundaryRule(idle_after_us=S, max_skew_us=5 * S)
    assert promised(rule, NOW, seen_us=NOW - 3_600 * S).at_us == NOW


def test_a_recorded_source_may_promise_whatever_its_records_say() -> None:
    assert promised(BoundaryRule(), IN_2099).at_us == IN_2099
