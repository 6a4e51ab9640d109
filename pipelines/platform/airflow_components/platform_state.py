"""The state of the platform, written by its supervisor for `up`, `down` and `status`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from medusa_core.restart import RestartState
from pipelines.base import clock
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.component_processes import own
from pipelines.platform.airflow_components.components import Children


def now_ms() -> int:
    """This machine's clock, as in Airflow's heartbeats."""
    return clock.wall_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Shown:
    """A component to be shown, with the reason of what was decided about it last."""

    state: RestartState
    because: str = ""

    @property
    def condition(self) -> str:
        """In a word or two."""
        if self.state.is_given_up:
            return "given up"
        if self.state.started_ms is None:
            return "ended"
        return "starting" if self.state.well_ms is None else "runs"


class StateFile:
    """Writes `state.json` when something has changed, and where somebody has removed it.

    `write_line` writes a line of the supervisor's log.
    """

    def __init__(self, folder: PlatformFolder, write_line: Callable[[str], None]) -> None:
        self._folder = folder
        self._write_line = write_line
        self._written: dict[str, Any] = {}
        me = own("supervisor")
        self._state: dict[str, Any] = {
            "supervisor": {"pid": os.getpid(), "since": me.since},
            "phase": "starting",
            "doing": "",
            "began_ms": now_ms(),
            "components": [],
        }

    @property
    def was_up(self) -> bool:
        """Whether everything has come up once."""
        return "took_ms" in self._state

    @property
    def phase(self) -> str:
        """starting, up, stopping, ended or failed."""
        return str(self._state["phase"])

    def log(self, sentence: str) -> None:
        """Write a sentence, with the time, into the supervisor's log."""
        self._write_line(f"{clock.now_utc():%Y-%m-%dT%H:%M:%SZ} {sentence}")

    def say(self, phase: str, doing: str = "", **more: object) -> None:
        """Say which phase it is, and what is being done in it."""
        if phase in ("ended", "failed"):
            self._state["components"] = []
        self._state.update(phase=phase, doing=doing, **more)
        self._write()

    def note(self, **more: object) -> None:
        """Add fields to the state."""
        self._state.update(more)
        self._write()

    def show(
        self, components: Iterable[Shown], children: Children, *, database_answers: bool
    ) -> None:
        """Say how the components are."""
        self._state["database_answers"] = database_answers
        self._state["components"] = [
            {
                "name": one.state.name,
                "condition": one.condition,
                "pid": children.pid(one.state.name),
                "since_ms": one.state.started_ms,
                "restarts": one.state.restarts,
                "because": one.because,
            }
            for one in components
        ]
        self._write()

    def _write(self) -> None:
        # `down` finds a supervisor by this file.
        if self._state == self._written and self._folder.has_state:
            return
        self._folder.write_state(self._state)
        self._written = dict(self._state)
