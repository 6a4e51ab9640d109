"""`medusa down`: ends what `medusa up` has started, and nothing else; within a bound."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from medusa_core.errors import Unavailable
from pipelines.base import clock
from pipelines.base.settings import Settings

if TYPE_CHECKING:
    from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
    from pipelines.platform.airflow_components.process_sessions import Started

SUPERVISOR_S_MAX = 90.0
LOOK_AGAIN_S = 0.05


def run_down(settings: Settings) -> int:
    """End the platform of the folder with the jobs that it started; returns 0.

    Raises Unavailable if something cannot be ended.
    """
    from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
    from pipelines.platform.airflow_components.component_processes import end, marked
    from pipelines.platform.airflow_components.components import end_recorded
    from pipelines.platform.airflow_components.supervisor import JOBS_GRACE_MS

    folder = PlatformFolder(settings.directory)
    if not folder.is_made:
        print("nothing is up here")
        return 0
    was_up = _end_supervisor(folder)
    with folder.working(lambda: print("another `medusa up` or `down` works here; waiting for it")):
        # One that was started meanwhile is ended too: whoever says `down` last is obeyed.
        was_up = _end_supervisor(folder) or was_up
        with folder.supervising():
            left = end_recorded(folder)
            mark = folder.secrets(is_embedded=settings.catalog_url is None).mark
            left += end(lambda: marked(mark), grace_ms=JOBS_GRACE_MS)
            state = folder.state()
            if state.get("phase") not in (None, "ended", "failed"):
                folder.write_state({**state, "phase": "ended", "components": []})
    if was_up:
        print("down: all that was started has ended")
    elif left:
        print(f"down: ended {left} processes that a lost supervisor had left behind")
    else:
        print("nothing is up here")
    return 0


def _end_supervisor(folder: PlatformFolder) -> bool:
    """Ask the supervisor to end everything, and force it if it does not; whether there was one."""
    from pipelines.platform.airflow_components.component_processes import is_there

    if not folder.is_supervised():
        return False
    waits_until_s = clock.monotonic_s() + SUPERVISOR_S_MAX
    asked: Started | None = None
    while folder.is_supervised():
        supervisor = _supervisor(folder)
        # It may just have begun, and not have said who it is.
        if supervisor is not None and supervisor != asked and is_there(supervisor):
            _signal(supervisor, signal.SIGTERM)
            asked = supervisor
        if clock.monotonic_s() > waits_until_s:
            if asked is None or not is_there(asked):
                raise Unavailable(
                    f"the supervisor in {folder.root} does not say who it is: end it by hand"
                )
            _signal(asked, signal.SIGKILL)
            waits_until_s = clock.monotonic_s() + SUPERVISOR_S_MAX
        clock.sleep_s(LOOK_AGAIN_S)
    return True


def _supervisor(folder: PlatformFolder) -> Started | None:
    from pipelines.platform.airflow_components.process_sessions import Started

    told = folder.state().get("supervisor", {})
    pid, since = told.get("pid"), told.get("since")
    if isinstance(pid, int) and isinstance(since, str):
        return Started("supervisor", pid, since)
    return None


def _signal(supervisor: Started, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor.pid, number)


HELP = "end what `medusa up` has started, jobs of participants too"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa down`: none."""


def run(options: argparse.Namespace, settings: Settings) -> int:
    """End the platform."""
    return run_down(settings)
