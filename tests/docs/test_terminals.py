"""What the tests of the pages type ends with them, also if their process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil

from pipelines.base.settings import REPOSITORY
from tests.terminals import terminal
from tests.waiting import until

TYPED = """
from pathlib import Path
from tests.terminals import terminal
with terminal("sleep 600 & echo $!; wait", Path(), {"PATH": "/usr/bin:/bin"}) as bash:
    bash.wait()
"""


def test_what_a_killed_test_has_typed_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TYPED], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as test:
        assert test.stdout is not None
        typed = psutil.Process(int(test.stdout.readline()))
        test.send_signal(signal.SIGKILL)
    until(lambda: has_ended(typed), "it goes on")


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ended between the two questions
        return True


def test_commands_end_by_themselves_and_are_read(tmp_path: Path) -> None:
    with terminal("echo one; sleep 0 & wait; echo two", tmp_path, {}, is_read=True) as bash:
        out, _ = bash.communicate(timeout=60)
    assert (out, bash.returncode) == ("one\ntwo\n", 0)
