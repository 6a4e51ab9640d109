"""A platform under test: a folder of its own, a free port, the command as users type it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from medusa_core.errors import Conflict
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.component_processes import all_processes, marked
from pipelines.platform.airflow_components.components import COMPONENTS
from pipelines.platform.airflow_components.ports import require_port
from pipelines.platform.airflow_components.process_sessions import Process
from tests.conftest import folder_on_memory
from tests.waiting import until

COMMAND_S_MAX = 400
HEALED_S_MAX = 240
PORTS = range(20_000, 32_000)
"""By Linux' default connections take ports from 32768 on only: where that was not changed, one of
these that is free now is still free when it is bound."""
PORTS_TRIED = 100


def port_of_ones_own() -> int:
    """A free port, which is bound later."""
    for port in random.SystemRandom().sample(PORTS, PORTS_TRIED):
        with suppress(Conflict):
            require_port("127.0.0.1", port)
            return port
    raise AssertionError(f"each of {PORTS_TRIED} ports is said to be in use")


class Platform:
    """`medusa` in a folder; `remove` ends and removes whatever is left of it."""

    def __init__(self, home: Path | None = None) -> None:
        self.base = folder_on_memory("medusa-platform-") if home is None else home
        self.home = self.base / "home"
        self.port = port_of_ones_own()
        self.folder = PlatformFolder(self.home)
        self.user: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        dropped = ("AIRFLOW", "MEDUSA_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        return {**kept, "MEDUSA_DIR": str(self.home)}

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            user=self.user,
            extra_groups=[] if self.user else None,
        )

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        return finished(self.begin(*words))

    def succeed(self, *words: str) -> str:
        done = self.type(*words)
        assert done.returncode == 0, done.stderr + self.words()
        return done.stdout

    def up(self) -> str:
        return self.succeed("up", "--port", str(self.port))

    def words(self) -> str:
        """What the supervisor has said."""
        return self.folder.supervisor_log.read_text() if self.folder.supervisor_log.exists() else ""

    # ------------------------------------------------------------ how it stands

    def components(self) -> Mapping[str, Mapping[str, Any]]:
        return {one["name"]: one for one in self.folder.state().get("components", ())}

    def pid(self, name: str) -> int:
        """The number of a component's process; 0 while it has none."""
        return int(self.components()[name]["pid"] or 0)

    def is_well(self) -> bool:
        state = self.folder.state()
        return (
            state.get("phase") == "up"
            and state.get("database_answers") is True
            and [one["condition"] for one in state["components"]] == ["runs"] * len(COMPONENTS)
        )

    def kill(self, *names: str) -> None:
        """End these components' processes as the system does; number 0 would be our own group."""
        numbers = [self.pid(name) for name in names]
        assert all(numbers), dict(zip(names, numbers, strict=True))
        for number in numbers:
            os.kill(number, signal.SIGKILL)

    def heals(self, is_changed: Callable[[], bool]) -> None:
        until(lambda: is_changed() and self.is_well(), "it is well again", HEALED_S_MAX)

    def postmaster(self) -> int:
        """The number of the database's server; 0 while there is none."""
        found = self.home / "postgres" / "cluster" / "data" / "postmaster.pid"
        try:
            return int(found.read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return 0

    def login(self, password: str) -> int:
        """The status of the API's answer."""
        try:
            self._token(password)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        return 201

    def dags(self, password: str) -> list[dict[str, Any]]:
        """The DAGs that Airflow shows."""
        return list(self.ask(password, "dags?limit=100")["dags"])

    def dags_answer(self, password: str) -> bool:
        """Whether Airflow tells what it has in its database."""
        try:
            return self.dags(password) is not None
        except OSError:
            return False

    def ask(
        self, password: str, path: str, body: Mapping[str, Any] | None = None, method: str = ""
    ) -> dict[str, Any]:
        """What Airflow's API answers; OSError while it does not."""
        request = urllib.request.Request(
            self._url(f"api/v2/{path}"),
            data=None if body is None else json.dumps(body).encode(),
            method=method or ("GET" if body is None else "POST"),
            headers={
                "Authorization": f"Bearer {self._token(password)}",
                "Content-Type": "application/json",
            },
        )
        return self._ask(request)

    def _token(self, password: str) -> str:
        login = json.dumps({"username": "admin", "password": password}).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url("auth/token"), data=login, headers=kind)
        return str(self._ask(request)["access_token"])

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def _ask(self, request: urllib.request.Request) -> dict[str, Any]:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.load(answer))

    # ------------------------------------------------------------ what runs

    def mark(self) -> str:
        return self.folder.secrets(is_embedded=True).mark

    def sessions(self, names: Sequence[str] = tuple(COMPONENTS)) -> set[int]:
        return {self.pid(name) for name in names}

    def remove(self) -> None:
        """End and remove all of it; fails where `down` does, or has left something running."""
        try:
            if self.home.exists():
                self.succeed("down")
                assert self.folder.started() == ()
                assert not (self.folder.root / "secrets.json").exists() or not marked(self.mark())
        finally:
            shutil.rmtree(self.base, ignore_errors=True)


def finished(command: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    try:
        out, err = command.communicate(timeout=COMMAND_S_MAX)
    except subprocess.TimeoutExpired:
        command.send_signal(signal.SIGTERM)
        command.communicate()
        raise
    return subprocess.CompletedProcess(command.args, command.returncode, out, err)


def in_sessions(sessions: set[int]) -> list[Process]:
    return [one for one in all_processes() if one.session in sessions]


def lives(pid: int) -> bool:
    return any(one.pid == pid for one in all_processes())


def nothing_is_left(platform: Platform, sessions: set[int], postmaster: int) -> None:
    assert in_sessions(sessions) == []
    assert marked(platform.mark()) == ()
    until(lambda: not lives(postmaster), "the database's server has ended")
    assert platform.folder.started() == ()
