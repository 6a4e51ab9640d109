"""What is written down of the process of a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import psutil
import pytest

from pipelines.base.process_table import look_at
from tests.waiting import until

ORPHANED = """
import os, time
from pipelines.base.process_table import look_at
from pipelines.platform.jobs.job_processes import own_process
while look_at(os.getsid(0)) is not None:
    time.sleep(0.01)
print(own_process().pid == os.getpid(), flush=True)
"""


def test_a_process_without_a_visible_leader_is_taken_alone(tmp_path: Path) -> None:
    output = tmp_path / "said"
    with output.open("w") as words:
        subprocess.run(
            ["sh", "-c", '"$0" -c "$1" &', sys.executable, ORPHANED],
            stdout=words, check=True, start_new_session=True,
        )  # fmt: skip
    until(lambda: output.read_text() != "", "it has said who it is")
    assert output.read_text() == "True\n"


def test_setting_the_clock_makes_no_process_another(monkeypatch: pytest.MonkeyPatch) -> None:
    before = look_at(os.getpid())
    boot_time = psutil._pslinux.boot_time
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot_time() + 3_600)
    assert look_at(os.getpid()) == before
    # The clock is set while the process is looked at: after each of the first readings in turn.
    for readings in range(6):
        steps = chain([0] * readings, repeat(7))
        monkeypatch.setattr(psutil._pslinux, "boot_time", lambda s=steps: boot_time() + next(s))
        assert look_at(os.getpid()) == before


def test_a_process_is_seen_until_it_has_ended_whether_it_is_reaped_or_not() -> None:
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    seen = look_at(child.pid)
    assert seen is not None
    assert (seen.group, seen.session, seen.is_frozen) == (child.pid, child.pid, False)
    child.send_signal(signal.SIGSTOP)
    until(lambda: look_at(child.pid) == replace(seen, is_frozen=True), "it is stopped")
    child.kill()
    until(lambda: look_at(child.pid) is None, "a process that is not reaped is not seen")
    child.wait(60)
    assert look_at(child.pid) is None


@pytest.mark.parametrize("pid", [-1, 0, 2**22 + 1, 2**64])
def test_a_number_without_a_process_is_none(pid: int) -> None:
    assert look_at(pid) is None
