"""Start the platform of a folder, Airflow and its database, in the background or foreground."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Conflict, Refused
from pipelines.base import clock
from pipelines.base.foreign_documents import starting
from pipelines.base.settings import Settings
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.components import end_recorded
from pipelines.platform.airflow_components.ports import require_port
from pipelines.platform.airflow_components.supervisor import (
    PlatformOptions,
    chosen_address,
    supervise,
)

POLL_S = 0.1
END_S_MAX = 60.0

Observer = Callable[[str], None]
"""Called with a sentence about what is being started, or waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRequest:
    """Where Airflow listens; None: as before, at first 127.0.0.1 and 8080.

    `foreground` is the command of a supervisor in the foreground, which a start in the background
    runs as a process of its own.
    """

    port: int | None = None
    host: str | None = None
    foreground: Sequence[str] = ()

    def check(self) -> None:
        """Refused for a host that cannot be an address."""
        host = self.host
        if host is None:
            return
        if not host or any(c.isspace() or c in "/?#@'\"\\" or not c.isprintable() for c in host):
            raise Refused(
                f"--host {host!r} is not a valid address: write 127.0.0.1, or 0.0.0.0 for all"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformStart:
    """A platform that is up, as its supervisor reports it.

    `password` is of Airflow's user if this start made it; else it is in the file of passwords.
    """

    folder: PlatformFolder
    state: Mapping[str, Any]
    was_up: bool
    password: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStart:
    """A platform that did not come up: why, and the exit code of its supervisor."""

    sentence: str
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    """The password of Airflow's user, and whether it was made now."""

    folder: PlatformFolder
    text: str
    is_new: bool


def start_platform(
    settings: Settings, request: PlatformRequest, observer: Observer
) -> PlatformStart | FailedStart:
    """Start what is not up in the background; returns when all of it is up, or has failed.

    Raises Conflict if it is up at another address, or if the port is in use.
    """
    request.check()
    folder = PlatformFolder(settings.directory)
    folder.make()
    waits = "another `medusa up` or `down` works here; waiting for it"
    with folder.working(lambda: observer(waits)):
        if folder.is_supervised():
            return _running(folder, request)
        return _started(folder, settings, request, observer)


def hold_platform(
    settings: Settings,
    request: PlatformRequest,
    observer: Callable[[Password], None],
    write_line: Callable[[str], None],
) -> None:
    """Supervise the platform in this process until it is interrupted.

    `observer` is called with the password before anything is started, `write_line` with each line
    of the supervisor's log. Raises Conflict if the port
    is in use, Unavailable if the platform does not come up.
    """
    request.check()
    folder = PlatformFolder(settings.directory)
    folder.make()
    text, is_new = folder.password()
    observer(Password(folder=folder, text=text, is_new=is_new))
    # A terminal that is closed ends it as Ctrl-C does.
    signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))
    try:
        supervise(settings, _options_of(request), write_line)
    except KeyboardInterrupt:
        return


def _options_of(request: PlatformRequest) -> PlatformOptions:
    return PlatformOptions(port=request.port, host=request.host)


def _started(
    folder: PlatformFolder, settings: Settings, request: PlatformRequest, observer: Observer
) -> PlatformStart | FailedStart:
    # Processes that a lost supervisor left behind may hold the port.
    with folder.supervising():
        end_recorded(folder)
        require_port(*chosen_address(folder, _options_of(request)))
    password, is_new = folder.password()
    child = _start(folder, settings, request)
    try:
        state = _followed(folder, child, observer)
    except BaseException:
        _end(child)
        raise
    if state["phase"] != "up":
        return FailedStart(
            sentence=state.get("sentence", _last_line(folder)),
            exit_code=int(state.get("exit_code", child.returncode or 4)),
        )
    return PlatformStart(
        folder=folder, state=state, was_up=False, password=password if is_new else None
    )


def _running(folder: PlatformFolder, request: PlatformRequest) -> PlatformStart:
    """The platform that runs already, once it is up."""
    while (state := folder.state()).get("phase") == "starting" and folder.is_supervised():
        clock.sleep_s(POLL_S)
    if not folder.is_supervised() or state.get("phase") != "up":
        raise Conflict("the platform is just ending: `medusa up` again starts it")
    chosen = folder.chosen()
    for name, value in (("port", request.port), ("host", request.host)):
        if value is not None and value != chosen.get(name):
            raise Conflict(
                f"it is up already, on {name} {chosen.get(name)}: `medusa down` first, then "
                f"`medusa up --{name} {value}`"
            )
    return PlatformStart(folder=folder, state=state, was_up=True, password=None)


def _start(
    folder: PlatformFolder, settings: Settings, request: PlatformRequest
) -> subprocess.Popen[bytes]:
    with folder.supervisor_log.open("ab") as log, starting("medusa up"):
        return subprocess.Popen(
            request.foreground,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder.directory,
            env=settings.environment_of_child(),
            start_new_session=True,
        )


def _followed(
    folder: PlatformFolder, child: subprocess.Popen[bytes], observer: Observer
) -> Mapping[str, Any]:
    """Follow the supervisor until all is up or it has ended; returns its last state."""
    last = ""
    while True:
        has_ended = child.poll() is not None
        state = folder.state()
        # The state of an earlier supervisor does not count.
        if state.get("supervisor", {}).get("pid") != child.pid:
            state = {"phase": "starting"}
        if state["phase"] == "up" or has_ended:
            return state
        if state["phase"] == "starting" and last != state.get("doing", ""):
            last = state["doing"]
            observer(f"starting {last}")
        clock.sleep_s(POLL_S)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(timeout=END_S_MAX)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _last_line(folder: PlatformFolder) -> str:
    """The supervisor's last line, for one that ended without a sentence in its state."""
    try:
        lines = folder.supervisor_log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    last = lines[-1].removeprefix("medusa: ") if lines else "its log is empty"
    return f"the platform does not come up: {last}"
