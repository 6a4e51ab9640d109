"""`medusa up`: the platform started in the background, or held in the foreground; told how it went.

In the background a second process of the same command is the supervisor, in a session of its own;
this one follows what it writes until everything is up, and says where.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Conflict, Refused
from pipelines.base import clock
from pipelines.base.foreign_documents import starting
from pipelines.base.settings import Settings
from pipelines.cli import arguments

if TYPE_CHECKING:
    from pipelines.platform.airflow_components.airflow_folder import PlatformFolder

if TYPE_CHECKING:
    from pipelines.platform.airflow_components.supervisor import Wanted

LOOK_AGAIN_S = 0.1
END_S_MAX = 60.0


def run_up(settings: Settings, *, port: int | None, host: str | None, is_foreground: bool) -> int:
    """Start what is not up yet; returns 0 when all of it is up (in the foreground: has ended).

    Conflict: it is up at another address, or the port is in use. Unavailable: it does not come up.
    """
    from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
    from pipelines.platform.airflow_components.supervisor import Wanted

    folder = PlatformFolder(settings.directory)
    folder.make()
    wanted = Wanted(port=port, host=host)
    if is_foreground:
        return _in_foreground(folder, settings, wanted)
    with folder.working(lambda: _say("another `medusa up` or `down` works here; waiting for it")):
        if folder.is_supervised():
            return _as_it_is(folder, wanted)
        return _in_background(folder, settings, wanted)


def _in_foreground(folder: PlatformFolder, settings: Settings, wanted: Wanted) -> int:
    from pipelines.platform.airflow_components.airflow_folder import USER
    from pipelines.platform.airflow_components.supervisor import supervise

    password, is_new = folder.password()
    if is_new and sys.stdout.isatty():
        _say(f"user {USER}, password {password} (kept in {folder.passwords})")
    else:
        # What a container says is kept for long, and by others.
        _say(f"user {USER}, password in {folder.passwords}")
    # A terminal that is closed ends it as well as Ctrl-C does.
    signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))
    try:
        supervise(settings, wanted, _say)
    except KeyboardInterrupt:
        return 0


def _in_background(folder: PlatformFolder, settings: Settings, wanted: Wanted) -> int:
    # What a lost supervisor left behind may be what has the port.
    from pipelines.platform.airflow_components.components import end_recorded
    from pipelines.platform.airflow_components.ports import require_port
    from pipelines.platform.airflow_components.supervisor import chosen_address

    with folder.supervising():
        end_recorded(folder)
        require_port(*chosen_address(folder, wanted))
    password, is_new = folder.password()
    child = _start(folder, settings, wanted)
    try:
        state = _followed(folder, child)
    except BaseException:
        _ended(child)
        raise
    if state["phase"] != "up":
        print(f"medusa: {state.get('sentence', _last_words(folder))}", file=sys.stderr)
        return int(state.get("exit_code", child.returncode or 4))
    _tell(folder, state, shown=password if is_new else None)
    return 0


def _as_it_is(folder: PlatformFolder, wanted: Wanted) -> int:
    """Say where what runs already is, once it is up."""
    while (state := folder.state()).get("phase") == "starting" and folder.is_supervised():
        clock.sleep_s(LOOK_AGAIN_S)
    if not folder.is_supervised() or state.get("phase") != "up":
        raise Conflict("the platform is just ending: `medusa up` again starts it")
    chosen = folder.chosen()
    for name, value in (("port", wanted.port), ("host", wanted.host)):
        if value is not None and value != chosen.get(name):
            raise Conflict(
                f"it is up already, on {name} {chosen.get(name)}: `medusa down` first, then "
                f"`medusa up --{name} {value}`"
            )
    _say("up already")
    _tell(folder, state, shown=None)
    return 0


def _start(folder: PlatformFolder, settings: Settings, wanted: Wanted) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "pipelines.cli.main", "up", "--foreground"]
    command += ["--port", str(wanted.port)] if wanted.port else []
    command += ["--host", wanted.host] if wanted.host else []
    environment = {
        **os.environ,
        "MEDUSA_DIR": str(settings.directory),
        "MEDUSA_CATALOG_URL": settings.catalog_url or "",
    }
    with folder.supervisor_log.open("ab") as log, starting("medusa up"):
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder.directory,
            env=environment,
            start_new_session=True,
        )


def _followed(folder: PlatformFolder, child: subprocess.Popen[bytes]) -> Mapping[str, Any]:
    """Tell what the supervisor does until all is up or it has ended; returns what it wrote last."""
    told = ""
    while True:
        has_ended = child.poll() is not None
        state = folder.state()
        # What an earlier supervisor wrote is of no interest.
        if state.get("supervisor", {}).get("pid") != child.pid:
            state = {"phase": "starting"}
        if state["phase"] == "up" or has_ended:
            return state
        if state["phase"] == "starting" and told != state.get("doing", ""):
            told = state["doing"]
            _say(f"starting {told}")
        clock.sleep_s(LOOK_AGAIN_S)


def _ended(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(timeout=END_S_MAX)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _tell(folder: PlatformFolder, state: Mapping[str, Any], *, shown: str | None) -> None:
    from pipelines.platform.airflow_components.airflow_folder import USER

    for note in state.get("notes", ()):
        _say(note)
    secret = f"password {shown} (shown this once)" if shown else f"password in {folder.passwords}"
    psql = state.get("psql") or "there is no home yet; after `medusa apply`, `medusa up` tells"
    print(f"Airflow  {state['url']}  user {USER}, {secret}")
    print(f"psql     {psql}")
    print(f"reports  {folder.directory / 'reports'}", flush=True)


def _last_words(folder: PlatformFolder) -> str:
    """What the supervisor said last, for one that ended without a word in its state."""
    try:
        lines = folder.supervisor_log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    last = lines[-1].removeprefix("medusa: ") if lines else "it said nothing"
    return f"the platform does not come up: {last}"


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def checked_host(text: str) -> str:
    """An address to listen on; Refused for what can be none."""
    if not text or any(c.isspace() or c in "/?#@'\"\\" or not c.isprintable() for c in text):
        raise Refused(f"--host {text!r} is no address: write 127.0.0.1, or 0.0.0.0 for all")
    return text


HELP = "start Airflow and a database, and keep them running"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa up`."""
    port = "of Airflow's pages and API (default: as before, at first 8080)"
    parser.add_argument("--port", type=arguments.port, metavar="N", help=port)
    host = "the address they listen on (default: as before, at first 127.0.0.1)"
    parser.add_argument("--host", metavar="ADDRESS", help=host)
    stays = "stay here until interrupted, as containers and service managers want it"
    parser.add_argument("--foreground", action="store_true", help=stays)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Start the platform, in the background or in the foreground."""
    return run_up(
        settings,
        port=options.port,
        host=None if options.host is None else checked_host(options.host),
        is_foreground=options.foreground,
    )
