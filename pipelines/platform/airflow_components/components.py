"""Airflow's components, each a program in a separate session, and its supervisor's handle.

Tasks run below the scheduler. No component serves logs: all components see the same folder.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.base.garbage_collection import YOUNG_OBJECTS_MAX
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.component_processes import end, left_of, start
from pipelines.platform.airflow_components.process_sessions import Process, Started

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
API_SERVER = "api-server"
MIGRATION = "migration"
CLEANING = "cleaning"
GRACE_MS = 10_000

PROGRAM = f"""
import gc, runpy, sys
gc.set_threshold({YOUNG_OBJECTS_MAX})
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Airflow's own command, in a process that collects garbage less often: each component imports a
thousand modules, and the API server and the triggerer build thousands of models of their calls."""


class Children:
    """What the supervisor has started and not yet written off, known to the folder at any time."""

    def __init__(
        self, folder: PlatformFolder, programs: Path, environment: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._program = (str(programs / "python"), "-P", "-c", PROGRAM, str(programs / "airflow"))
        self._environment = environment
        self._made: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, Started] = {}

    def log(self, name: str) -> Path:
        """What a component says."""
        return self._folder.logs / f"airflow-{name}.log"

    def pid(self, name: str) -> int | None:
        """The number of its process; None if it was not started or has been written off."""
        started = self._started.get(name)
        return started.pid if started else None

    def start(self, name: str, words: Sequence[str]) -> None:
        """Start `airflow WORDS`; nothing of an earlier life of it may be there any more."""
        assert name not in self._started, f"{name} was not written off"

        def write_down(started: Started) -> None:
            self._started[name] = started
            self._folder.write_started(list(self._started.values()))

        self._made[name] = start(
            name,
            [*self._program, *words],
            environment=self._environment,
            folder=self._folder.root,
            log=self.log(name),
            write_down=write_down,
        )

    def exit_code(self, name: str) -> int | None:
        """How its process ended; None while it runs."""
        return self._made[name].poll()

    def end(self, names: Sequence[str], *, grace_ms: int = GRACE_MS) -> int:
        """End some with all that they started in their sessions; returns how many were forced."""
        ended = [self._started[name] for name in names if name in self._started]

        def left() -> Sequence[Process]:
            for made in self._made.values():
                made.poll()
            return left_of(ended)

        forced = end(left, grace_ms=grace_ms) if ended else 0
        for name in names:
            self._started.pop(name, None)
            made = self._made.pop(name, None)
            if made is not None:
                made.wait()
        self._folder.write_started(list(self._started.values()))
        return forced

    def end_all(self) -> int:
        """End all of them, at the same time."""
        return self.end(list(self._started))


def end_recorded(folder: PlatformFolder) -> int:
    """End what a supervisor that is gone has left behind; returns how many processes that were.

    Only what is written down, by number, start and session.
    """
    recorded = [one for one in folder.started() if one.pid != os.getpid()]
    found = left_of(recorded)
    if found:
        end(lambda: left_of(recorded), grace_ms=GRACE_MS)
    if recorded:
        folder.write_started([])
    return len(found)
