"""A program that never outlives the process that started it, run as another user if required.

Nothing here depends on Postgres except its signals: SIGINT is its fast shutdown, SIGQUIT its
immediate one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from pipelines.base.foreign_documents import starting
from pipelines.base.owned_command import owned_command

STOP_MS_MAX = 30_000
# Nothing of the user's PG* variables or locale.
QUIET_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsAs:
    """The user that Postgres runs as; -1 stands for ours (only root can be somebody else)."""

    name: str
    uid: int = -1
    gid: int = -1

    def can(self, permission: str, path: Path) -> bool:
        """Whether that user may `-r`, `-w` or `-x` a path, tested as that user."""
        if self.uid < 0:
            return os.access(path, {"-r": os.R_OK, "-w": os.W_OK, "-x": os.X_OK}[permission])
        shell = ["/bin/sh", "-c", f'test {permission} "$0"', str(path)]
        with starting("/bin/sh"):
            return not subprocess.run(
                shell, user=self.uid, group=self.gid, extra_groups=[], cwd="/", check=False
            ).returncode


class OwnedProcess:
    """A program that ends when this process ends, with its words in a log.

    A thread of its own starts it and waits for it: Linux counts the *thread* that started a child
    as its parent, so a child of a short-lived thread would be ended much too early.
    """

    def __init__(self, command: list[str], runs_as: RunsAs, log: Path) -> None:
        self.ended = threading.Event()
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._command = owned_command(
            command, ends_by=signal.SIGINT, uid=runs_as.uid, gid=runs_as.gid
        )
        self._log = log
        threading.Thread(target=self._keep, name="owner of postgres", daemon=True).start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def _keep(self) -> None:
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    umask=0o077,
                    env=QUIET_ENVIRONMENT,
                    start_new_session=True,  # the terminal's Ctrl-C is for the owner alone
                )
        except OSError as error:
            self._failure = error
            return
        finally:
            self._started.set()
        self._process.wait()
        self.ended.set()

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def stop(self) -> None:
        """End it by a fast shutdown, then by SIGKILL; returns when it is gone."""
        assert self._process is not None
        for signal_number, wait_ms in (
            (signal.SIGINT, STOP_MS_MAX),
            (signal.SIGQUIT, 5_000),
            (signal.SIGKILL, 5_000),
        ):
            if self.ended.is_set():
                return
            self._process.send_signal(signal_number)
            if self.ended.wait(wait_ms / 1000):
                return
