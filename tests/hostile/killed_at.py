"""Run a command of Medusa and end it with SIGKILL at its Nth step outside of the process.

A step is a change of the file system below a folder, the start of a program, or a statement to a
database. `python -m tests.hostile.killed_at FOLDER N words…` kills before step N. With N = 0 the
command runs to its end, or to the file of the replay, and prints how many steps that took; with
N = -1 it runs to its end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions

from pipelines.cli.main import main

CHANGES = frozenset(
    f"os.{name}"
    for name in ("mkdir", "rmdir", "rename", "link", "symlink", "remove", "chmod", "chown")
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
LAST_FILE = "replay.json"
"""Behind it a replay has a whole home, and starts Spark."""


class Steps:
    """Counts steps, and ends the process before the one that it is given."""

    def __init__(self, folder: str, kill_at: int) -> None:
        self.taken = 0
        self._folder = folder
        self._kill_at = kill_at

    def take(self) -> None:
        """One more."""
        self.taken += 1
        if self.taken == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What Python tells before it asks the system for something."""
        if event == "subprocess.Popen":
            self.take()
            return
        is_opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
        if not is_opened and event not in CHANGES:
            return
        paths = [os.fspath(p) for p in arguments[:2] if isinstance(p, str | os.PathLike)]
        if any(str(path).startswith(self._folder) for path in paths):
            self.take()
        if event == "os.rename" and str(paths[-1]).endswith(LAST_FILE) and not self._kill_at:
            print(self.taken, flush=True)
            os._exit(0)


def count_statements(steps: Steps) -> None:
    """Make each statement of this process one step."""

    class Counted(psycopg2.extensions.cursor):
        def execute(self, *given: Any) -> None:
            steps.take()
            super().execute(*given)

    connect = psycopg2.connect

    def counted(*given: Any, **named: Any) -> Any:
        return connect(*given, **{"cursor_factory": Counted, **named})

    psycopg2.connect = counted


def run(arguments: Sequence[str]) -> int:
    """See the module; returns the exit code of the command."""
    folder, kill_at, *words = arguments
    steps = Steps(str(Path(folder)), int(kill_at))
    count_statements(steps)
    sys.addaudithook(steps.audit)
    code = main(words)
    print(steps.taken, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
