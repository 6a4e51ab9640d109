"""Each process of the platform killed, one at a time and in any order; minutes."""

from __future__ import annotations

import os
import pwd
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.catalog.server.server_process import RunsAs
from pipelines.platform.airflow_components.component_processes import all_processes, left_of
from pipelines.platform.airflow_components.components import COMPONENTS
from tests.conftest import folder_on_memory
from tests.hosting.platforms import (
    HEALED_S_MAX,
    Platform,
    finished,
    in_sessions,
    lives,
    nothing_is_left,
)
from tests.waiting import until

pytestmark = pytest.mark.airflow_long


@pytest.fixture
def platform() -> Iterator[Platform]:
    made = Platform()
    yield made
    made.remove()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_killed_process_is_restarted(platform: Platform, seed: int) -> None:
    platform.up()
    victims = [*COMPONENTS, "worker", "postgres", "supervisor"]
    random.Random(seed).shuffle(victims)
    for victim in victims:
        until(platform.is_well, "all is well before", HEALED_S_MAX)
        old = platform.sessions()
        if victim == "supervisor":
            os.kill(platform.folder.state()["supervisor"]["pid"], signal.SIGKILL)
            until(lambda: not platform.folder.is_supervised(), "the supervisor is gone")
            assert "up already" not in platform.succeed("up")
            assert in_sessions(old) == []
        elif victim == "postgres":
            killed = platform.postmaster()
            assert killed
            os.kill(killed, signal.SIGKILL)
            platform.heals(lambda killed=killed: platform.postmaster() not in (0, killed))
        elif victim == "worker":
            scheduler = platform.pid("scheduler")
            assert scheduler
            workers = [one.pid for one in in_sessions({scheduler}) if one.pid != scheduler]
            os.kill(workers[0], signal.SIGKILL)
            until(lambda gone=workers[0]: not lives(gone), "the worker is gone")
        else:
            killed = platform.pid(victim)
            platform.kill(victim)
            platform.heals(lambda name=victim, killed=killed: platform.pid(name) not in (0, killed))
            assert in_sessions({killed}) == []
    sessions, postmaster = platform.sessions(), platform.postmaster()
    platform.succeed("down")
    nothing_is_left(platform, sessions, postmaster)


def test_a_component_that_hangs_is_restarted(platform: Platform) -> None:
    platform.up()
    frozen = platform.pid("triggerer")
    assert frozen
    os.kill(frozen, signal.SIGSTOP)
    platform.heals(lambda: platform.components()["triggerer"]["restarts"] > 0)
    assert not lives(frozen)


def test_old_runs_are_forgotten_once_a_day(platform: Platform) -> None:
    platform.folder.make()
    platform.folder.choose(cleaned_ms=1)
    platform.up()
    log = platform.folder.logs / "airflow-cleaning.log"
    until(log.exists, "it begins to clean", 240)
    until(
        lambda: "cleaning" not in [one.name for one in platform.folder.started()],
        "it has cleaned",
        240,
    )
    assert "Performing Delete" in log.read_text() or "Found 0 rows" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert platform.folder.chosen()["cleaned_ms"] > 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_in_the_foreground_it_ends_all_when_it_is_told_to(
    platform: Platform, number: signal.Signals
) -> None:
    command = platform.begin("up", "--foreground", "--port", str(platform.port))
    until(lambda: platform.folder.is_made and platform.folder.started(), "a process began", 240)
    started = platform.folder.started()
    command.send_signal(number)
    done = finished(command)
    assert done.returncode == 0, done.stderr
    assert "password in" in done.stdout
    assert left_of(started) == ()
    assert platform.folder.state()["phase"] == "ended"


def test_a_down_ends_an_up_that_has_just_begun(platform: Platform) -> None:
    command = platform.begin("up", "--port", str(platform.port))
    until(lambda: platform.folder.is_made and platform.folder.is_supervised(), "it begins", 240)
    platform.succeed("down")
    assert finished(command).returncode != 0
    assert platform.folder.started() == ()
    assert not platform.folder.is_supervised()


def test_a_user_who_is_not_root_has_it_all(platform: Platform) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    nobody = pwd.getpwnam("nobody")
    if not RunsAs(name="nobody", uid=nobody.pw_uid, gid=nobody.pw_gid).can(
        "-x", Path(sys.executable)
    ):
        pytest.skip("this environment is in a folder that others cannot enter")
    theirs = folder_on_memory("medusa-theirs-")
    os.chown(theirs, nobody.pw_uid, nobody.pw_gid)
    other = Platform(theirs)
    other.user = "nobody"
    try:
        assert "shown this once" in other.up()
        sessions, postmaster = other.sessions(), other.postmaster()
        owners = {one.user for one in all_processes() if one.session in sessions}
        assert owners == {nobody.pw_uid}
        other.succeed("down")
        assert in_sessions(sessions) == []
        until(lambda: not lives(postmaster), "the database's server has ended")
    finally:
        other.remove()
