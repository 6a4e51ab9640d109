"""The demo's federation as a user runs it: a partner is cut off, and all is well in the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.cli.demo_federation import ALL
from pipelines.platform.drills.run_processes import Running, running_in
from tests.cli.test_demo import MEDUSA, environment, processes_of
from tests.report.test_page import Seen
from tests.waiting import until

SCENE_S_MAX = 900
DIED = 4


@contextmanager
def scene(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """The scene by itself, without a home folder of the user's and without test data."""
    command = [str(MEDUSA), "demo", "--scene", "federation"]
    nothing = {"HOME": "", "MEDUSA_TEST_DATA": str(directory / "none")}
    with subprocess.Popen(
        command, env={**environment(directory), **nothing}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as demo:  # fmt: skip
        try:
            yield demo
        finally:
            if demo.poll() is None:
                os.killpg(demo.pid, signal.SIGINT)


def participants(directory: Path) -> list[Running]:
    homes = directory / "demo" / "federation"
    return [running for participant in ALL for running in running_in(homes / participant)]


def is_all_gone(directory: Path, were: list[Running]) -> bool:
    return not processes_of(directory) and not any(process.is_there for process in were)


@pytest.mark.long
def test_a_partner_that_is_cut_off_is_done_without_in_time_and_corrected_in_the_end(
    server_folder: Path,
) -> None:
    directory = server_folder.parent / "it's here"
    with scene(directory) as demo:
        told, output = demo.communicate(timeout=SCENE_S_MAX)
    assert demo.returncode == 0, (told, output)
    assert is_all_gone(directory, participants(directory))
    in_order = (
        r"scanning_sources \S+ stable, all 3 inputs there",
        r"fault cut alpha gamma: nothing goes between",
        r"scanning_sources \S+ tentative, without connections_c \(2 of 3 inputs\), \S+ s of 5 s",
        r"fault heal alpha gamma: whole again",
        r"alpha: STABLE, nothing is tentative",
        r"scanning_sources corrected through",
        r"Corrected rows: [\d,]+ before -> [\d,]+ after",
    )
    assert re.search(".*".join(in_order), told, re.DOTALL), told
    verdict = re.search(r"buckets +(\d+) tentative, (\d+) corrected", told)
    assert verdict is not None
    assert int(verdict[1]) == int(verdict[2]) >= 10
    page = (directory / "demo" / "federation.html").read_text(encoding="utf-8")
    assert len(page) < 2_000_000
    words = " ".join(Seen(page).words)
    for shown in ("cut", "heal", "nothing of connections_c", "corrected", "converged", "S12"):
        assert shown in words
    following = told.partition("What to type next:")[2].strip().splitlines()
    ran = subprocess.run(following[0], shell=True, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "orig_h" in ran.stdout


@pytest.mark.long
def test_whatever_ends_the_scene_leaves_nothing_behind_and_it_can_be_played_again(
    server_folder: Path,
) -> None:
    directory = server_folder.parent / "ended"

    def so_many_run(number: int) -> list[Running]:
        until(lambda: len(participants(directory)) == number, f"{number} participants run", 300)
        return participants(directory)

    with scene(directory) as demo:
        were = so_many_run(1)
        if sys.platform == "linux":  # which alone tells a child of the end of its parent
            demo.kill()
            demo.communicate(timeout=60)
            until(lambda: is_all_gone(directory, were), "its participants end with it", 60)
        else:
            os.killpg(demo.pid, signal.SIGINT)
            demo.communicate(timeout=120)
    with scene(directory) as demo:
        were = so_many_run(1)
        were[0].signal(signal.SIGKILL)
        _, output = demo.communicate(timeout=120)
    assert demo.returncode == DIED, output
    (sentence,) = [line for line in output.splitlines() if line.startswith("medusa:")]
    assert "alpha ended with exit code -9" in sentence
    assert "alpha.out" in sentence
    assert is_all_gone(directory, were)
    with scene(directory) as demo:
        were = so_many_run(3)
        os.killpg(demo.pid, signal.SIGINT)
        _, output = demo.communicate(timeout=120)
    assert demo.returncode == 130
    assert "no process is left" in output
    assert is_all_gone(directory, were)
