"""Jobs as real processes: what is desired runs, once, whatever is killed on the way."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from medusa_core.commits import Lane, Lease, LeaseKey
from medusa_core.errors import Conflict
from medusa_core.segments import Producer
from medusa_core.supervising import (
    JOB_RESTARTS,
    Close,
    JobPolicy,
    Keep,
    Kill,
    Start,
    Stop,
    Wait,
    lane_of,
)
from medusa_core.supervision import ProcessState
from pipelines.base.failpoints import FILE, POINT
from pipelines.homes.home import open_home
from pipelines.platform.jobs.job_processes import (
    host_here,
    inspect_process,
    own_process,
    signal_process,
)
from pipelines.platform.jobs.supervision_tick import SupervisionTick, supervise_home
from pipelines.spark.deployment import FIRST_EPOCH
from tests.supervising.conftest import ALPHA, Supervised
from tests.waiting import until

SOON_S = 180

HURRIED = JobPolicy(restart=replace(JOB_RESTARTS, silent_ms_max=1_000))


def live(turn: SupervisionTick) -> type[object]:
    """How it stands with the live lane."""
    return type(next(one for one in turn.pending if lane_of(one) is Lane.LIVE))


def test_what_is_desired_runs_and_again_if_it_is_killed_until_it_is_desired_no_more(
    supervised: Supervised,
) -> None:
    supervised.wants()
    started = supervised.tick()
    assert [type(one) for one in started.done] == [Start]
    first = supervised.begun()
    (holder,) = supervised.taken()
    assert holder.startswith(first.holder)
    assert first.host == host_here()
    assert live(supervised.tick()) is Keep
    signal_process(first, signal.SIGKILL)
    until(lambda: inspect_process(first) is ProcessState.GONE, "it is gone")
    # What the killed process had started may hold the lane a moment longer than it did.
    done = [type(one) for one in supervised.tick().done]
    until(
        lambda: Start in done or done.extend(type(one) for one in supervised.tick().done),
        "a second job",
        SOON_S,
    )
    assert done == [Close, Start]
    second = supervised.begun()
    assert second.id != first.id
    until(
        lambda: any(h.startswith(second.holder) for h in supervised.holders()),
        "the second has leases of its own", SOON_S,
    )  # fmt: skip
    supervised.wants(False)
    assert [type(one) for one in supervised.tick().done] == [Stop]
    until(lambda: inspect_process(second) is ProcessState.GONE, "it ends", SOON_S)
    supervised.tick()
    assert supervised.open_job() is None
    assert not supervised.holders(), "it gave its leases back"


@pytest.mark.long
@pytest.mark.parametrize("point", ["supervise.spawned", "supervise.intended"])
def test_a_supervisor_that_is_killed_on_the_way_leaves_no_second_job_and_no_orphan(
    supervised: Supervised, point: str, tmp_path: Path
) -> None:
    supervised.wants()
    announced = tmp_path / "reached"
    killed = supervised.supervisor(
        "--once", "--participant", ALPHA, **{POINT: point, FILE: str(announced)}
    )
    try:
        until(lambda: announced.exists() or killed.poll() is not None, point, SOON_S)
        assert announced.exists(), killed.communicate()
    finally:
        killed.kill()
        killed.communicate()
    intent = supervised.open_job()
    assert intent is not None
    if point == "supervise.intended":
        tick = supervised.tick(policy=JobPolicy(spawn_ms_max=600_000))
        assert live(tick) is Wait, "it may be on its way"
        assert tick.done == ()
        is_late = supervised.store().end(intent.id, None, "a test lets the time pass")
        assert is_late
        assert [type(one) for one in supervised.tick().done] == [Start]
        assert supervised.begun().id != intent.id
    else:
        assert supervised.begun().id == intent.id, "the process says itself who it is"
        assert live(supervised.tick()) is Keep


@pytest.mark.long
def test_a_lane_whose_leases_another_driver_holds_gets_no_job_until_they_end(
    supervised: Supervised,
) -> None:
    landing = LeaseKey(fragment="landing/given", producer=Producer(ALPHA))
    with open_home(supervised.settings, ALPHA) as home:
        leases: list[Lease] = []

        def is_held() -> bool:
            # The lease of a job that was killed before lasts a moment longer than the job.
            with suppress(Conflict):
                leases.append(
                    home.catalog.acquire_lease(landing, FIRST_EPOCH, "there-1-abc", ttl_ms=600_000)
                )
            return bool(leases)

        until(is_held, "the lease is free", SOON_S)
        (held,) = leases
        supervised.wants()
        tick = supervised.tick()
        assert tick.done == ()
        assert supervised.open_job() is None
        wait = next(one for one in tick.pending if lane_of(one) is Lane.LIVE)
        assert isinstance(wait, Wait)
        assert (wait.lane, wait.until_ms) == (Lane.LIVE, held.expires_at_ms)
        home.catalog.release_lease(held)
    assert [type(done) for done in supervised.tick().done] == [Start]
    assert supervised.open_job() is not None


def test_leases_of_one_lane_hold_back_no_job_of_the_other(supervised: Supervised) -> None:
    landing = LeaseKey(fragment="landing/given", producer=Producer(ALPHA))
    with open_home(supervised.settings, ALPHA) as home:
        held = home.catalog.acquire_lease(landing, FIRST_EPOCH, "there-1-abc", ttl_ms=600_000)
        supervised.wants(lane=Lane.BACKLOG, lasting=False)
        assert [type(done) for done in supervised.tick().done] == [Start]
        home.catalog.release_lease(held)


@pytest.mark.long
def test_two_supervisors_at_once_make_one_job(supervised: Supervised) -> None:
    supervised.wants()
    both = [supervised.supervisor("--once", "--participant", ALPHA) for _ in range(2)]
    told = [one.communicate(timeout=SOON_S) for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    job = supervised.begun()
    made = [one.id for one in supervised.all_jobs() if one.desired == job.desired]
    assert made == [job.id]


def test_the_second_of_two_who_saw_the_same_may_not_intend_it(supervised: Supervised) -> None:
    number = supervised.wants()
    supervised.store().intend(number, "first")
    with pytest.raises(Conflict, match="another supervisor"):
        supervised.store().intend(number, "second")
    open_ = supervised.open_job()
    assert open_ is not None
    supervised.store().end(open_.id, None, "a test")


def test_what_is_not_desired_any_more_is_not_intended(supervised: Supervised) -> None:
    number = supervised.wants()
    supervised.wants(False)
    with pytest.raises(Conflict, match="has changed"):
        supervised.store().intend(number, "late")


@pytest.mark.long
def test_a_process_whose_job_was_closed_ends_by_itself(supervised: Supervised) -> None:
    supervised.wants()
    supervised.tick()
    job = supervised.begun()
    supervised.wants(False)
    supervised.store().end(job.id, None, "given up by a supervisor of another host")
    until(lambda: inspect_process(job) is ProcessState.GONE, "it ends when it hears of it", SOON_S)


@pytest.mark.long
def test_a_process_that_comes_too_late_does_nothing(supervised: Supervised) -> None:
    number = supervised.wants()
    intent = supervised.store().intend(number, "slow")
    supervised.store().end(intent, None, "no process took it up")
    desired = next(d for d in supervised.store().read().desired if d.number == number)
    process = supervised.launch.make(ALPHA, desired, intent)
    log = supervised.launch.log(ALPHA, Lane.LIVE)
    until(lambda: f"job {intent} is not for this process" in log.read_text(), "it ends", SOON_S)
    own = f"{process.host}-{process.pid}-"
    assert not any(holder.startswith(own) for holder in supervised.holders())
    assert process.host == host_here()


def test_nothing_but_the_process_that_was_written_down_is_signalled(
    supervised: Supervised,
) -> None:
    number = supervised.wants()
    intent = supervised.store().intend(number, "a test")
    own = own_process()
    assert supervised.store().take_up(intent, own.host, own.pid, "another start", begins=False)
    job = next(job for job in supervised.all_jobs() if job.id == intent)
    assert inspect_process(job) is ProcessState.GONE
    signal_process(job, signal.SIGKILL)
    supervised.store().end(intent, None, "a test")


@pytest.mark.long
def test_a_frozen_job_is_left_alone_for_a_moment_and_then_ended_and_followed(
    supervised: Supervised,
) -> None:
    supervised.wants()
    supervised.tick()
    job = supervised.begun()
    signal_process(job, signal.SIGSTOP)
    until(lambda: inspect_process(job) is ProcessState.FROZEN, "it stands still")
    assert live(supervised.tick()) is Keep, "drills may be short"

    def is_killed() -> bool:
        tick = supervise_home(
            ALPHA,
            supervised.store(),
            supervised.launch,
            HURRIED,
        )
        return [one.job for one in tick.done if isinstance(one, Kill)] != []

    until(is_killed, "it is ended", SOON_S)
    assert inspect_process(job) is ProcessState.GONE
    # What it had started may hold the lane a moment longer than it did.
    until(lambda: supervised.tick() and supervised.open_job(), "another job is started", SOON_S)
    assert supervised.begun().id != job.id


@pytest.mark.long
def test_the_backlog_lane_is_done_when_it_has_ended_well(supervised: Supervised) -> None:
    supervised.wants(lane=Lane.BACKLOG, lasting=False)
    supervised.tick()

    def is_done() -> bool:
        tick = supervised.tick()
        return any("is done" in one.because for one in tick.pending if isinstance(one, Keep))

    until(is_done, "it corrects nothing and ends", SOON_S)
