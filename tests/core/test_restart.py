"""What is supervised is restarted, waited with, ended and given up by one policy."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.restart import (
    EndSilent,
    LeaveRunning,
    LeaveUnjudged,
    RestartLater,
    RestartNever,
    RestartNow,
    RestartPolicy,
    RestartState,
    decide_restart,
    decide_silence,
    decide_state,
)

FAILURES = st.integers(0, 10**9)
POLICY = RestartPolicy(
    back_off_ms=10,
    back_off_ms_max=80,
    failures_max=3,
    stable_ms=1_000,
    start_ms_max=500,
    silent_ms_max=100,
)
NEW = RestartState(name="scheduler")
RUNS = NEW.after_start(1_000)


def decided(state: RestartState, now_ms: int, since_ms: int | None = 0) -> object:
    return decide_state(state, POLICY, now_ms=now_ms, judged_since_ms=since_ms)


def ended(state: RestartState, now_ms: int, *, is_at_fault: bool = True) -> RestartState:
    return state.after_end(now_ms, POLICY, was_killed=False, is_at_fault=is_at_fault)


# Waits


def test_the_first_waits_are_these() -> None:
    policy = RestartPolicy(back_off_ms=500, back_off_ms_max=10_000)
    waits = [policy.wait_ms(failures) for failures in range(8)]
    assert waits == [0, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]


@given(FAILURES, st.integers(1, 10**6), st.integers(0, 10**9))
def test_a_wait_never_shrinks_and_stays_below_its_most(
    failures: int, first_ms: int, more: int
) -> None:
    policy = RestartPolicy(back_off_ms=first_ms, back_off_ms_max=first_ms + more)
    wait_ms = policy.wait_ms(failures)
    assert wait_ms <= policy.wait_ms(failures + 1) <= first_ms + more
    assert (wait_ms == 0) == (failures == 0)


@pytest.mark.parametrize(
    ("failures", "was_killed", "wait_ms"),
    [(0, False, 0), (1, False, 10), (1, True, 0), (2, False, 20), (2, True, 20)],
)
def test_only_the_first_failure_of_a_killed_process_has_no_wait(
    failures: int, was_killed: bool, wait_ms: int
) -> None:
    def at(now_ms: int) -> object:
        return decide_restart(
            POLICY, failures=failures, ended_ms=500, now_ms=now_ms, was_killed=was_killed
        )

    later = RestartLater(failures=failures, wait_ms=wait_ms, until_ms=500 + wait_ms)
    assert wait_ms == 0 or at(500 + wait_ms - 1) == later
    assert at(500 + wait_ms) == RestartNow(failures=failures)


def test_a_clock_that_was_set_back_delays_nothing() -> None:
    decision = decide_restart(POLICY, failures=2, ended_ms=10**9, now_ms=500)
    assert decision == RestartNow(failures=2)


def test_without_a_limit_nothing_is_given_up() -> None:
    policy = replace(POLICY, failures_max=None)
    decision = decide_restart(policy, failures=10**9, ended_ms=0, now_ms=80)
    assert decision == RestartNow(failures=10**9)


# Failures


def test_failures_are_forgotten_after_a_stable_run_which_is_not_a_failure() -> None:
    failing = replace(RUNS, failures=2)
    assert ended(failing.after_sign(1_999), 2_000).failures == 3
    assert ended(failing.after_sign(2_000), 2_100).failures == 0


def test_what_ends_while_its_dependency_is_away_has_not_failed() -> None:
    assert ended(RUNS, 1_100, is_at_fault=False).failures == 0


@given(
    st.integers(0, 100),
    st.integers(0, 500),
    st.one_of(st.none(), st.integers(1, 6)),
    st.lists(st.tuples(st.integers(0, 120), st.booleans(), st.booleans()), max_size=20),
    st.integers(1, 40),
)
def test_restarts_are_as_far_apart_as_the_policy_says_and_end_with_it(
    first_ms: int,
    more_ms: int,
    failures_max: int | None,
    runs: list[tuple[int, bool, bool]],
    look_ms: int,
) -> None:
    """A supervisor that looks every so often, over runs of drawn lengths and ends."""
    policy = replace(
        POLICY,
        back_off_ms=first_ms,
        back_off_ms_max=first_ms + more_ms,
        failures_max=failures_max,
        stable_ms=100,
    )
    state, now_ms, in_a_row = NEW, 0, 0
    for ran_ms, was_killed, is_at_fault in runs:
        ended_ms = now_ms
        while not isinstance(
            decision := decide_state(state, policy, now_ms=now_ms, judged_since_ms=0), RestartNow
        ):
            if isinstance(decision, RestartNever):
                assert decision.failures == in_a_row == failures_max
                return
            assert isinstance(decision, RestartLater)
            assert decision.until_ms == ended_ms + decision.wait_ms > now_ms
            now_ms += look_ms
        assert decision.failures == in_a_row
        assert failures_max is None or in_a_row < failures_max
        # The oracle: doubled one by one.
        wait_ms = first_ms if in_a_row else 0
        for _ in range(in_a_row - 1):
            wait_ms = wait_ms * 2
        wait_ms = min(wait_ms, first_ms + more_ms)
        if in_a_row == 1 and state.was_killed:
            wait_ms = 0
        assert ended_ms + wait_ms <= now_ms < ended_ms + wait_ms + look_ms
        state = state.after_start(now_ms).after_sign(now_ms + ran_ms)
        now_ms += ran_ms
        state = state.after_end(now_ms, policy, was_killed=was_killed, is_at_fault=is_at_fault)
        in_a_row = 0 if ran_ms >= 100 else in_a_row + is_at_fault


# Signs of life


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.booleans())
def test_what_is_silent_for_longer_than_the_limit_is_ended(
    now_ms: int, heard_ms: int, judged_since_ms: int, has_begun: bool
) -> None:
    decision = decide_silence(
        POLICY,
        now_ms=now_ms,
        heard_ms=heard_ms,
        has_begun=has_begun,
        judged_since_ms=judged_since_ms,
    )
    limit_ms = 100 if has_begun else 500
    is_silent = heard_ms + limit_ms < now_ms and judged_since_ms + limit_ms < now_ms
    silent_ms = min(now_ms - heard_ms, now_ms - judged_since_ms)
    if is_silent:
        assert decision == EndSilent(silent_ms=silent_ms, limit_ms=limit_ms)
    else:
        assert decision == LeaveRunning(silent_ms=silent_ms)


def test_a_first_sign_may_take_longer() -> None:
    assert isinstance(decided(RUNS, 1_500), LeaveRunning)
    assert isinstance(decided(RUNS, 1_501), EndSilent)
    well = RUNS.after_sign(1_050)
    assert isinstance(decided(well, 1_150), LeaveRunning)
    assert isinstance(decided(well, 1_151), EndSilent)


def test_silence_counts_only_since_a_sign_could_be_seen() -> None:
    well = RUNS.after_sign(1_050)
    assert decided(well, 10_000, None) == LeaveUnjudged(is_running=True)
    assert isinstance(decided(well, 10_000, 9_950), LeaveRunning)
    assert isinstance(decided(well, 10_051, 9_950), EndSilent)


def test_a_sign_from_before_the_start_is_of_an_earlier_life() -> None:
    assert RUNS.after_sign(999).well_ms is None
    assert RUNS.after_sign(1_200).after_sign(1_100).well_ms == 1_200


# One thing over its lives


def test_it_is_started_once_its_dependency_answers() -> None:
    assert decided(NEW, 5, None) == LeaveUnjudged(is_running=False)
    assert decided(NEW, 5, 5) == RestartNow(failures=0)


def test_it_is_started_after_longer_and_longer_waits_and_then_given_up() -> None:
    state, starts = NEW, []
    for now_ms in range(10_000):
        match decided(state, now_ms):
            case RestartNow():
                starts.append(now_ms)
                state = ended(state.after_start(now_ms), now_ms)
            case RestartNever():
                state = state.after_giving_up()
    assert [later - earlier for earlier, later in pairwise(starts)] == [10, 20]
    assert state.is_given_up
    assert decided(state, 10**9) == RestartNever(failures=3)
    assert decided(state, 10**9, None) == RestartNever(failures=3)


def test_restarts_are_counted_and_the_first_start_is_not_one() -> None:
    assert RUNS.restarts == 0
    assert ended(RUNS, 1_100).after_start(1_200).restarts == 1


@pytest.mark.parametrize(
    ("decision", "numbers"),
    [
        (RestartNow(failures=2), "2 in a row failed"),
        (RestartLater(failures=2, wait_ms=2_500, until_ms=9), "2 in a row failed.* waits 2.5 s"),
        (RestartNever(failures=6), "6 in a row failed"),
        (EndSilent(silent_ms=31_000, limit_ms=30_000), "no sign of life for 31 s"),
    ],
)
def test_a_reason_names_its_numbers(
    decision: RestartNow | RestartLater | RestartNever | EndSilent, numbers: str
) -> None:
    assert re.match(numbers, decision.because)
