"""A federation of four that runs, and everything it runs on killed, in any order; minutes.

The truth is in the catalogs: whatever is killed, cleared, marked or paused, each lane has its one
job again, and what is answered is right.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosting.killing import INTENT, JOB, POSTGRES, VICTIMS, Killing, table
from tests.hosting.live import ALPHA, BETA, ROLES, Live, live_federation
from tests.hosting.observing import Observer, observed
from tests.waiting import until

pytestmark = pytest.mark.airflow_long
TOGETHER = ("scheduler", "triggerer", "dag-processor", "api-server", POSTGRES)


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_federation() as made:
        yield made


@pytest.fixture(scope="module")
def observer(live: Live) -> Iterator[Observer]:
    with observed(live.owner_role_urls()) as made:
        yield made


def jobs_of(observer: Observer) -> dict[str, int]:
    """The number of each participant's job."""
    return {name: job.id for name in ROLES if (job := observer.job(name))}


@pytest.mark.parametrize("seed", [1, 2])
def test_after_any_kill_each_lane_has_its_one_job_again(
    live: Live, observer: Observer, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """One at a time in any order; then each with a job at once, which only Airflow can replace."""
    chance = random.Random(seed)
    killing = Killing(live, observer, chance)
    alone = [(victim,) for victim in chance.sample(VICTIMS, len(VICTIMS))]
    with_a_job = [(victim, JOB) for victim in chance.sample(TOGETHER, len(TOGETHER))]
    for victims in [*alone, *with_a_job]:
        killing.kill(*victims)
    through_us = live.stable_us(BETA, "lower")
    until(lambda: live.stable_us(BETA, "lower") != through_us, "answers go on", 60)
    assert live.certify() == {}
    told = table(killing.done, observer)
    Path(live.platform.home / "killed.md").write_text(told)
    with capsys.disabled():
        print(f"\nseed {seed}\n{told}")


def test_clearing_marking_and_running_at_once_change_nothing(
    live: Live, observer: Observer
) -> None:
    before = jobs_of(observer)
    assert set(before) == set(ROLES)
    first = live.trigger("medusa_supervise")
    live.wait("medusa_supervise", first)
    live.clear("medusa_supervise", first, "supervise")
    both = [live.trigger("medusa_supervise") for _ in range(2)]
    assert {live.wait("medusa_supervise", run)["state"] for run in [first, *both]} == {"success"}
    marked = live.trigger("medusa_supervise")
    live.mark_failed("medusa_supervise", marked)
    assert live.wait("medusa_supervise", marked)["state"] in ("failed", "success")
    assert live.run("medusa_supervise")["state"] == "success"
    assert jobs_of(observer) == before


def test_two_at_once_that_are_marked_failed_start_one_job(live: Live, observer: Observer) -> None:
    before = jobs_of(observer)
    job = observer.job(ALPHA)
    assert job is not None
    assert job.pid is not None
    os.kill(job.pid, signal.SIGKILL)
    runs = [live.trigger("medusa_supervise") for _ in range(2)]
    live.mark_failed("medusa_supervise", runs[0])
    live.clear("medusa_supervise", runs[1], "participants", "supervise")
    until(lambda: jobs_of(observer).get(ALPHA, 0) > before[ALPHA], "it is followed", 120)
    for run in runs:
        live.wait("medusa_supervise", run)
    assert jobs_of(observer)[BETA] == before[BETA]


def test_while_it_is_paused_nothing_is_started_and_what_runs_goes_on(
    live: Live, observer: Observer
) -> None:
    before = jobs_of(observer)
    with live.paused("medusa_supervise"):
        job = observer.job(ALPHA)
        assert job is not None
        assert job.pid is not None
        os.kill(job.pid, signal.SIGKILL)
        through = live.stable_us(ALPHA, "given")
        until(lambda: observer.job(ALPHA) is None, "it is gone")
        until(live.supervision_is_overdue, "it would have run again", 120)
        assert observer.job(ALPHA) is None
        assert live.stable_us(ALPHA, "given") == through
        assert {n: i for n, i in jobs_of(observer).items() if n != ALPHA} == {
            n: i for n, i in before.items() if n != ALPHA
        }
    until(lambda: jobs_of(observer).get(ALPHA, 0) > before[ALPHA], "it is started again", 120)
    until(lambda: live.stable_us(ALPHA, "given") != through, "it goes on", 120)
    assert live.certify() == {}


def test_a_supervision_that_is_killed_twice_on_the_way_makes_one_job(
    live: Live, observer: Observer
) -> None:
    killing = Killing(live, observer, random.Random(3))
    for _ in range(2):
        killing.kill(INTENT)
    assert live.certify() == {}
