"""Stop the platform of a folder with the jobs that it started, and nothing else; within a bound."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from medusa_core.errors import Unavailable
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.component_processes import end, is_there, marked
from pipelines.platform.airflow_components.components import end_recorded
from pipelines.platform.airflow_components.process_sessions import Started
from pipelines.platform.airflow_components.supervisor import JOBS_GRACE_MS

SUPERVISOR_S_MAX = 90.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformStop:
    """Whether a supervisor ran, and how many processes of a lost one were ended."""

    was_up: bool
    lost: int


def stop_platform(settings: Settings, observer: Callable[[str], None]) -> PlatformStop:
    """End all that runs; `observer` is called with a sentence while another command is waited for.

    Raises Unavailable if something cannot be ended.
    """
    folder = PlatformFolder(settings.directory)
    if not folder.is_made:
        return PlatformStop(was_up=False, lost=0)
    was_up = _end_supervisor(folder)
    waits = "another `medusa up` or `down` works here; waiting for it"
    with folder.working(lambda: observer(waits)):
        # One that was started meanwhile is ended too: the last command counts.
        was_up = _end_supervisor(folder) or was_up
        with folder.supervising():
            lost = end_recorded(folder)
            mark = folder.secrets(is_embedded=settings.catalog_url is None).mark
            lost += end(lambda: marked(mark), grace_ms=JOBS_GRACE_MS)
            state = folder.state()
            if state.get("phase") not in (None, "ended", "failed"):
                folder.write_state({**state, "phase": "ended", "components": []})
    return PlatformStop(was_up=was_up, lost=lost)


def _end_supervisor(folder: PlatformFolder) -> bool:
    """Ask the supervisor to end everything, and force it if it does not; whether there was one."""
    if not folder.is_supervised():
        return False
    waits_until_s = clock.monotonic_s() + SUPERVISOR_S_MAX
    signalled: Started | None = None
    while folder.is_supervised():
        supervisor = _supervisor(folder)
        # One that has just begun may not have written its identity yet.
        if supervisor is not None and supervisor != signalled and is_there(supervisor):
            _signal(supervisor, signal.SIGTERM)
            signalled = supervisor
        if clock.monotonic_s() > waits_until_s:
            if signalled is None or not is_there(signalled):
                raise Unavailable(
                    f"the supervisor in {folder.root} does not say who it is: end it by hand"
                )
            _signal(signalled, signal.SIGKILL)
            waits_until_s = clock.monotonic_s() + SUPERVISOR_S_MAX
        clock.sleep_s(POLL_S)
    return True


def _supervisor(folder: PlatformFolder) -> Started | None:
    written = folder.state().get("supervisor", {})
    pid, since = written.get("pid"), written.get("since")
    if isinstance(pid, int) and isinstance(since, str):
        return Started("supervisor", pid, since)
    return None


def _signal(supervisor: Started, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor.pid, number)
