"""Which jobs are started, stopped, ended, waited for and given up: values in, values out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import Lane
from medusa_core.supervising import (
    Close,
    GiveUp,
    JobPolicy,
    Keep,
    Kill,
    Start,
    Stop,
    SupervisingDecision,
    Wait,
    decide_supervision,
)
from medusa_core.supervision import DesiredJob, HeldLane, Job, ProcessState, Supervision

NOW = 10_000_000
POLICY = JobPolicy()
FAILURES_MAX = 6
WANTED = DesiredJob(
    number=7, lane=Lane.LIVE, is_desired=True, is_lasting=True, since_ms=0, who="ann",
    because="a test",
)  # fmt: skip
UNWANTED = replace(WANTED, number=8, is_desired=False)
RUNNING = Job(
    id=1, lane=Lane.LIVE, desired=7, intended_at_ms=NOW - 90_000, host="here", pid=42,
    started="then", begun_at_ms=NOW - 80_000, heard_at_ms=NOW - 1_000,
)  # fmt: skip


def ended(ago_ms: int, *, ran_ms: int, code: int | None = None, number: int = 1) -> Job:
    return replace(
        RUNNING, id=number, begun_at_ms=NOW - ago_ms - ran_ms, ended_at_ms=NOW - ago_ms,
        exit_code=code,
    )  # fmt: skip


def decide(
    *jobs: Job,
    desired: DesiredJob | None = WANTED,
    seen: ProcessState = ProcessState.RUNS,
    former: ProcessState = ProcessState.GONE,
    reachable_since_ms: int = 0,
    held: tuple[HeldLane, ...] = (),
    occupied_ms: int | None = None,
) -> SupervisingDecision:
    (decided,) = decide_supervision(
        Supervision(
            now_ms=NOW,
            reachable_since_ms=reachable_since_ms,
            desired={} if desired is None else {desired.lane: desired},
            jobs=jobs,
            seen={job.id: seen if job.ended_at_ms is None else former for job in jobs},
            held=held,
            occupied={} if occupied_ms is None else {Lane.LIVE: occupied_ms},
        ),
        POLICY,
    )
    return decided


def test_what_is_wanted_and_has_no_job_is_started() -> None:
    decided = decide()
    assert isinstance(decided, Start)
    assert decided.because == "ann wants it: a test"


def test_what_runs_as_it_shall_is_left_alone() -> None:
    assert isinstance(decide(RUNNING), Keep)


def test_what_is_not_wanted_any_more_is_asked_to_stop_and_ended_if_it_does_not() -> None:
    assert isinstance(decide(RUNNING, desired=UNWANTED), Stop)
    asked = replace(RUNNING, stop_requested_at_ms=NOW - 1_000)
    assert isinstance(decide(asked, desired=UNWANTED), Wait)
    long_ago = replace(RUNNING, stop_requested_at_ms=NOW - POLICY.stop_ms_max - 1)
    assert isinstance(decide(long_ago, desired=UNWANTED), Kill)


def test_what_was_never_wanted_here_is_asked_to_stop() -> None:
    assert isinstance(decide(RUNNING, desired=None), Stop)


def test_an_intent_without_a_process_is_waited_for_and_then_closed() -> None:
    intent = Job(id=2, lane=Lane.LIVE, desired=7, intended_at_ms=NOW - 1_000)
    waits = decide(intent, seen=ProcessState.NONE)
    assert isinstance(waits, Wait)
    assert waits.until_ms == NOW - 1_000 + POLICY.spawn_ms_max
    old = replace(intent, intended_at_ms=NOW - POLICY.spawn_ms_max - 1)
    assert isinstance(decide(old, seen=ProcessState.NONE), Close)


def test_a_process_that_is_gone_is_written_down_at_once() -> None:
    assert isinstance(decide(RUNNING, seen=ProcessState.GONE), Close)


@pytest.mark.parametrize("seen", [ProcessState.FROZEN, ProcessState.RUNS])
def test_a_process_that_is_there_and_says_nothing_is_ended(seen: ProcessState) -> None:
    assert isinstance(decide(RUNNING, seen=seen), Keep), "a short drill is no reason"
    silent = replace(RUNNING, heard_at_ms=NOW - POLICY.restart.silent_ms_max - 1)
    assert isinstance(decide(silent, seen=seen), Kill)


def test_a_process_elsewhere_that_is_silent_is_given_up_not_signalled() -> None:
    silent = replace(RUNNING, heard_at_ms=NOW - POLICY.restart.silent_ms_max - 1)
    assert isinstance(decide(silent, seen=ProcessState.ELSEWHERE), Close)
    assert isinstance(decide(RUNNING, seen=ProcessState.ELSEWHERE), Keep)


def test_no_partner_counts_as_silent_while_the_catalog_was_unavailable() -> None:
    silent = replace(RUNNING, heard_at_ms=NOW - 3_600_000)
    assert isinstance(decide(silent, reachable_since_ms=NOW - 2_000), Keep)


def test_the_first_job_that_was_killed_is_followed_at_once() -> None:
    assert isinstance(decide(ended(100, ran_ms=5_000)), Start)


def test_one_that_ran_well_is_followed_at_once_however_it_ended() -> None:
    assert isinstance(decide(ended(100, ran_ms=600_000, code=70)), Start)
    assert isinstance(decide(ended(100, ran_ms=POLICY.restart.stable_ms, code=70)), Start)
    assert isinstance(decide(ended(100, ran_ms=POLICY.restart.stable_ms - 1, code=70)), Wait)


def test_jobs_that_fail_one_after_the_other_are_waited_with_for_longer_and_given_up() -> None:
    waits = []
    for failures in range(1, FAILURES_MAX):
        jobs = [ended(1 + n, ran_ms=500, code=4, number=90 - n) for n in range(failures)]
        decided = decide(*jobs)
        assert isinstance(decided, Wait)
        waits.append(decided.until_ms)
    assert waits == sorted(waits)
    assert waits[-1] - waits[0] > POLICY.restart.back_off_ms
    jobs = [ended(1 + n, ran_ms=500, code=4, number=90 - n) for n in range(FAILURES_MAX)]
    given_up = decide(*jobs)
    assert isinstance(given_up, GiveUp)
    assert "exit code 4" in given_up.because


def test_a_run_that_went_well_makes_earlier_failures_forgotten() -> None:
    failures = [ended(600_000 + n, ran_ms=500, code=4, number=80 - n) for n in range(9)]
    assert isinstance(decide(ended(100, ran_ms=90_000), *failures), Start)


@pytest.mark.parametrize("code", [2, 6])
def test_what_a_person_has_to_mend_is_given_up_at_once(code: int) -> None:
    assert isinstance(decide(ended(3_600_000, ran_ms=500, code=code)), GiveUp)


def test_a_job_that_was_given_up_is_tried_again_when_it_is_desired_again() -> None:
    again = replace(WANTED, number=9)
    assert isinstance(decide(ended(100, ran_ms=500, code=2), desired=again), Start)


def test_a_driver_that_nobody_supervises_is_left_to_it_until_its_lease_ends() -> None:
    held = (HeldLane(Lane.LIVE, "there-1-abc", NOW + 9_000),)
    decided = decide(held=held)
    assert isinstance(decided, Wait)
    assert decided.until_ms == NOW + 9_000
    assert isinstance(decide(ended(1, ran_ms=500, code=3), held=held), Wait)
    other_lane = (HeldLane(Lane.BACKLOG, "there-1-abc", NOW + 9_000),)
    assert isinstance(decide(held=other_lane), Start)


def test_leases_that_a_killed_job_has_left_do_not_delay_the_next() -> None:
    held = (HeldLane(Lane.LIVE, "here-42-abc", NOW + 9_000),)
    assert isinstance(decide(ended(1, ran_ms=90_000), held=held), Start)


def test_one_that_found_another_at_work_has_not_failed() -> None:
    jobs = [ended(20_000 + n, ran_ms=500, code=3, number=90 - n) for n in range(30)]
    assert isinstance(decide(*jobs), Start)


def test_a_job_that_shall_end_is_done_once_it_has_ended_well() -> None:
    backlog = replace(WANTED, lane=Lane.BACKLOG, is_lasting=False)
    done = replace(ended(1, ran_ms=500, code=0), lane=Lane.BACKLOG)
    assert isinstance(decide(done, desired=backlog), Keep)
    failed = replace(ended(1, ran_ms=500, code=4), lane=Lane.BACKLOG)
    assert isinstance(decide(failed, desired=backlog), Wait)


def test_a_lasting_job_that_ends_well_is_started_again() -> None:
    assert isinstance(decide(ended(1, ran_ms=90_000, code=0)), Start)


@pytest.mark.parametrize("former", [ProcessState.RUNS, ProcessState.FROZEN])
@pytest.mark.parametrize("desired", [WANTED, UNWANTED, None])
def test_none_is_started_while_the_process_of_the_last_job_has_yet_to_end(
    former: ProcessState, desired: DesiredJob | None
) -> None:
    job = ended(POLICY.stop_ms_max, ran_ms=90_000, code=4)
    waits = decide(job, desired=desired, former=former, occupied_ms=0)
    assert waits == Wait(lane=Lane.LIVE, until_ms=NOW, because="process 42 of job 1 has yet to end")
    late = replace(job, ended_at_ms=NOW - POLICY.stop_ms_max - 1)
    decided = decide(late, desired=desired, former=former)
    assert isinstance(decided, Kill)
    assert decided.because == "process 42 is there, and its job ended 20.001 s ago"


def test_what_became_of_a_process_on_another_host_is_not_known() -> None:
    job = ended(1_000, ran_ms=90_000, code=4)
    assert isinstance(decide(job, former=ProcessState.ELSEWHERE), Start)


def test_none_is_started_while_a_process_that_no_job_names_is_there() -> None:
    job = ended(90_000, ran_ms=90_000)
    assert isinstance(decide(job), Start)
    waits = decide(job, occupied_ms=500_000)
    assert isinstance(waits, Wait), "its job ended a while ago"
    assert waits.until_ms == NOW - 90_000 + POLICY.restart.start_ms_max
    old = ended(900_000, ran_ms=90_000)
    assert isinstance(decide(old, occupied_ms=50), Wait), "it is being made now"
    given_up = decide(old, occupied_ms=130_000)
    assert given_up == GiveUp(
        lane=Lane.LIVE,
        because="for 130 s a process has been there that no job names: find it, and end it",
    )
    assert isinstance(decide(old, desired=UNWANTED, occupied_ms=130_000), Keep)


def test_a_process_that_has_not_begun_yet_has_more_time_than_one_that_falls_silent() -> None:
    new = replace(
        RUNNING,
        intended_at_ms=NOW - POLICY.restart.start_ms_max,
        begun_at_ms=None,
        heard_at_ms=None,
    )
    assert isinstance(decide(new), Keep), "a busy machine takes long to start a program"
    assert isinstance(decide(replace(new, intended_at_ms=new.intended_at_ms - 1)), Kill)
