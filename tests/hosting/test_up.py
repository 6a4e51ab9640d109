"""`medusa up` and `down` with a real Airflow and Postgres, started once for these tests.

They tell one story in order: each leaves the platform up but for the last.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from pipelines.base.settings import REPOSITORY
from pipelines.platform.airflow_components.component_processes import MARK
from pipelines.platform.airflow_components.components import COMPONENTS
from tests.hosting.killing import BOUND_S, JOB, Killing
from tests.hosting.live import DELTA, ROLES, Live
from tests.hosting.observing import Observer, observed
from tests.hosting.platforms import (
    HEALED_S_MAX,
    Platform,
    finished,
    in_sessions,
    lives,
    nothing_is_left,
)
from tests.sweeps import IS_LONG
from tests.waiting import until

# Of these, what needs participants that run below the platform takes minutes, and holds promises to
# their bounds, which a machine that runs other tests beside cannot: it is `airflow_long`.


STARTED_AT_ONCE = 2 if IS_LONG else 1


class Up:
    """A platform that is up, and what the commands that started it said."""

    def __init__(self, platform: Platform, told: list[str]) -> None:
        self.platform = platform
        self.told = told

    @property
    def password(self) -> str:
        (shown,) = re.findall(r"password (\S+) \(shown this once\)", "".join(self.told))
        return shown

    @property
    def live(self) -> Live:
        """Its federation of four, once it is deployed."""
        return Live(self.platform, self.password)


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    platform = Platform()
    try:
        commands = [
            platform.begin("up", "--port", str(platform.port)) for _ in range(STARTED_AT_ONCE)
        ]
        done = [finished(command) for command in commands]
        assert not any(one.returncode for one in done), (done, platform.words())
        yield Up(platform, [one.stdout for one in done])
    finally:
        platform.remove()


@pytest.fixture(scope="module")
def observer(up: Up) -> Iterator[Observer]:
    with observed(up.live.owner_role_urls()) as made:
        yield made


@pytest.mark.long
def test_two_that_start_it_at_once_both_end_with_the_three_lines(up: Up) -> None:
    for told in up.told:
        first, second, third = told.splitlines()[-3:]
        assert first.startswith(f"Airflow  http://127.0.0.1:{up.platform.port}  user admin, ")
        assert second.startswith("psql     ")
        assert third == f"reports  {up.platform.home / 'reports'}"
    assert sum("up already" in told for told in up.told) == 1


def test_the_password_is_shown_once_and_opens_airflow(up: Up) -> None:
    assert up.platform.login(up.password) == 201
    assert up.platform.login("another") == 401
    again = up.platform.succeed("up")
    assert "up already" in again
    assert up.password not in again
    assert up.password not in up.platform.words()


def test_every_dag_of_ours_is_read_and_not_paused(up: Up) -> None:
    # A slow machine may be up before it has read them all, and says so.
    notes = up.platform.folder.state()["notes"]
    assert [note for note in notes if "was not read in time" not in note] == []
    ours = {path.name for path in (REPOSITORY / "dags").glob("medusa_*.py")}

    def read() -> set[str]:
        return {dag["relative_fileloc"] for dag in up.platform.dags(up.password)}

    until(lambda: len(read()) >= len(ours), "every DAG is read", HEALED_S_MAX)
    assert read() == ours
    assert not any(dag["is_paused"] for dag in up.platform.dags(up.password))


@pytest.mark.long
def test_status_shows_the_components(up: Up) -> None:
    platform = json.loads(up.platform.succeed("status", "--json"))["platform"]
    assert platform["phase"] == "up"
    assert [one["name"] for one in platform["components"]] == list(COMPONENTS)
    told = up.platform.succeed("status")
    assert all(f"  {name} " in told for name in COMPONENTS)


@pytest.mark.long
def test_another_folder_is_told_who_has_the_port_before_anything_is_started(up: Up) -> None:
    other = Platform()
    other.port = up.platform.port
    try:
        done = other.type("up", "--port", str(other.port))
        assert done.returncode == 3
        assert re.search(rf"port {other.port} is in use.*`medusa up --port \d+`", done.stderr)
        assert not (other.home / "postgres").exists()
    finally:
        other.remove()


@pytest.mark.long
def test_one_that_is_up_does_not_move_to_another_port_unasked(up: Up) -> None:
    done = up.platform.type("up", "--port", str(up.platform.port + 1))
    assert done.returncode == 3
    assert "`medusa down` first" in done.stderr


@pytest.mark.airflow_long
def test_what_a_dag_deploys_runs_below_it_and_what_is_typed_wrong_is_a_note_of_the_run(
    up: Up,
) -> None:
    up.live.deploy()
    run = up.live.run("medusa_drill", participant="alpha; DROP TABLE medusa.job", lasts="-5s")
    assert run["state"] == "failed"
    assert "there is no participant 'alpha; DROP TABLE medusa.job'" in run["note"]


@pytest.mark.airflow_long
def test_a_job_and_who_would_replace_it_are_killed_and_each_lane_has_its_one_job_again(
    up: Up, observer: Observer
) -> None:
    killing = Killing(up.live, observer, random.Random(7))
    killing.kill("scheduler", JOB)


@pytest.mark.airflow_long
def test_clearing_marking_failed_and_two_at_once_start_nothing_twice(
    up: Up, observer: Observer
) -> None:
    before = {name: observer.job(name) for name in ROLES}
    runs = [up.live.trigger("medusa_supervise") for _ in range(2)]
    up.live.mark_failed("medusa_supervise", runs[1])
    assert up.live.wait("medusa_supervise", runs[0])["state"] == "success"
    up.live.clear("medusa_supervise", runs[0], "supervise")
    assert up.live.wait("medusa_supervise", runs[0])["state"] == "success"
    assert {name: observer.job(name) for name in ROLES} == before


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(["triggerer"], id="one", marks=pytest.mark.long),
        pytest.param(list(COMPONENTS), id="all", marks=pytest.mark.long),
    ],
)
def test_killed_components_are_restarted_and_their_remains_are_ended(
    up: Up, killed: Sequence[str]
) -> None:
    until(up.platform.is_well, "all is well before", HEALED_S_MAX)
    old, before = up.platform.sessions(killed), up.platform.components()
    up.platform.kill(*killed)

    def are_restarted() -> bool:
        now = up.platform.components()
        return all(now[name]["restarts"] > before[name]["restarts"] for name in killed)

    up.platform.heals(are_restarted)
    assert in_sessions(old) == []


@pytest.mark.long
def test_a_killed_database_is_restarted_where_it_was(up: Up) -> None:
    until(up.platform.is_well, "all is well before", HEALED_S_MAX)
    killed = up.platform.postmaster()
    assert killed
    os.kill(killed, signal.SIGKILL)
    until(lambda: not lives(killed), "the server has ended")
    up.platform.heals(
        lambda: up.platform.postmaster() != killed and up.platform.dags_answer(up.password)
    )


@pytest.mark.airflow_long
def test_after_all_of_it_each_participant_goes_on_and_what_it_answered_is_right(
    up: Up, observer: Observer
) -> None:
    through_us = up.live.stable_us(DELTA, "pages")
    until(lambda: all(map(observer.job, ROLES)), "each has its job", BOUND_S)
    until(lambda: up.live.stable_us(DELTA, "pages") != through_us, "it goes on", BOUND_S)
    assert up.live.certify() == {}
    assert not observer.wrong, observer.wrong


@pytest.mark.long
def test_after_a_lost_supervisor_down_ends_all_that_it_had_started_and_nothing_else(
    up: Up,
) -> None:
    platform = up.platform
    # For longer than `down` may take: one that is gone was ended.
    sleeps = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    with contextlib.ExitStack() as stack:
        # As a task of Airflow starts a participant's job; and as a user starts one by hand.
        of_ours, of_the_user = (
            stack.enter_context(subprocess.Popen(sleeps, env=environment, start_new_session=True))
            for environment in ({**os.environ, MARK: platform.mark()}, dict(os.environ))
        )
        stack.callback(of_the_user.kill)
        stack.callback(of_ours.kill)
        sessions, postmaster = platform.sessions(), platform.postmaster()
        supervisor = platform.folder.state()["supervisor"]["pid"]
        os.kill(supervisor, signal.SIGKILL)
        until(lambda: not platform.folder.is_supervised(), "the supervisor is gone")
        assert "lost" in platform.succeed("status")

        assert "lost supervisor" in platform.succeed("down")
        assert of_ours.wait(60) == -signal.SIGTERM
        assert of_the_user.poll() is None
        nothing_is_left(platform, sessions, postmaster)
    assert platform.succeed("down") == "nothing is up here\n"
