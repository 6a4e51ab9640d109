"""What is done about a component follows from how it stands, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

from pipelines.platform.airflow_components.restart_decisions import (
    GiveUp,
    Leave,
    Patience,
    Standing,
    Start,
    StartAnew,
    after_end,
    after_giving_up,
    after_sign,
    after_start,
    back_off_ms,
    decide,
)

PATIENCE = Patience(
    silent_ms_max=100,
    start_ms_max=500,
    steady_ms=1_000,
    back_off_ms=10,
    back_off_ms_max=80,
    failures_max=3,
)
NEW = Standing(name="scheduler")
RUNS = after_start(NEW, 1_000)


def decided(standing: Standing, now_ms: int, since_ms: int | None = 0) -> object:
    return decide(standing, now_ms=now_ms, judged_since_ms=since_ms, patience=PATIENCE)


def ended(standing: Standing, now_ms: int, *, is_at_fault: bool = True) -> Standing:
    return after_end(standing, now_ms, is_at_fault=is_at_fault, patience=PATIENCE)


# ---------------------------------------------------------------- starting


def test_a_component_is_started_once_the_database_answers() -> None:
    assert isinstance(decided(NEW, 5, None), Leave)
    assert isinstance(decided(NEW, 5, 5), Start)


def test_one_that_ended_is_started_again_at_once_and_later_after_longer_and_longer_waits() -> None:
    assert [back_off_ms(failures, PATIENCE) for failures in range(8)] == [
        0, 0, 10, 20, 40, 80, 80, 80,
    ]  # fmt: skip
    first = ended(RUNS, 1_100)
    assert isinstance(decided(first, 1_100), Start)
    second = ended(after_start(first, 1_100), 1_200)
    assert isinstance(decided(second, 1_209), Leave)
    assert isinstance(decided(second, 1_210), Start)


def test_no_number_of_failures_makes_the_wait_too_long() -> None:
    assert back_off_ms(10**9, PATIENCE) == PATIENCE.back_off_ms_max


def test_one_that_fails_again_and_again_is_given_up_and_stays_so() -> None:
    standing = NEW
    starts = 0
    for now_ms in range(0, 10_000, 100):
        match decided(standing, now_ms):
            case Start():
                starts += 1
                standing = ended(after_start(standing, now_ms), now_ms)
            case GiveUp():
                standing = after_giving_up(standing)
    assert starts == PATIENCE.failures_max + 1
    assert isinstance(decided(standing, 10**9), Leave)


def test_failures_are_forgotten_of_one_that_was_well_for_long() -> None:
    failing = replace(RUNS, failures=3)
    assert ended(after_sign(failing, 1_900), 2_000).failures == 4
    assert ended(after_sign(failing, 2_000), 2_100).failures == 1


def test_what_ends_while_the_database_is_away_has_not_failed() -> None:
    assert ended(RUNS, 1_100, is_at_fault=False).failures == 0


def test_restarts_are_counted_and_the_first_start_is_none() -> None:
    assert RUNS.restarts == 0
    assert after_start(ended(RUNS, 1_100), 1_200).restarts == 1


# ---------------------------------------------------------------- signs of life


def test_one_that_gives_no_sign_of_life_is_started_anew() -> None:
    well = after_sign(RUNS, 1_050)
    assert isinstance(decided(well, 1_150), Leave)
    assert isinstance(decided(well, 1_151), StartAnew)


def test_a_first_sign_may_take_longer() -> None:
    assert isinstance(decided(RUNS, 1_500), Leave)
    assert isinstance(decided(RUNS, 1_501), StartAnew)


def test_silence_counts_only_since_somebody_could_have_told_of_a_sign() -> None:
    well = after_sign(RUNS, 1_050)
    assert isinstance(decided(well, 10_000, None), Leave)
    assert isinstance(decided(well, 10_000, 9_950), Leave)
    assert isinstance(decided(well, 10_051, 9_950), StartAnew)


def test_a_sign_from_before_the_start_is_of_an_earlier_life() -> None:
    assert after_sign(RUNS, 999).well_ms is None
    assert after_sign(after_sign(RUNS, 1_200), 1_100).well_ms == 1_200
