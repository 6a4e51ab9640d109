"""Machines on one cable: network namespaces, made by root and removed at the end.

Each has a loopback of its own, one address, and a hosts file that names the others. The files of
this machine are shared, so each is given a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil
import pytest

HOSTS = Path("/etc/netns")
NETWORK = "10.213.77"
END_S = 60


@dataclass
class Machine:
    """A namespace with a host name and a folder; commands are typed in one shell after another."""

    name: str
    host: str
    address: str
    namespace: str
    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def command(self, script: str) -> list[str]:
        """A bash that goes on where the last one has stopped: its folder and its variables."""
        state = self.folder / ".shell"
        before = f'. {state}/variables; cd "$(cat {state}/folder)"; set -e\n'
        after = f"\nexport -p > {state}/variables; pwd > {state}/folder"
        return ["ip", "netns", "exec", self.namespace, "bash", "-c", before + script + after]

    def type(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run commands to their end."""
        return subprocess.run(
            self.command(script), capture_output=True, text=True, timeout=600, check=False
        )

    def start(self, script: str, printed: Path) -> subprocess.Popen[str]:
        """Run commands in another terminal, whose output is a file."""
        with printed.open("w") as output:
            process = subprocess.Popen(
                self.command(script), stdout=output, stderr=output, text=True,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def end(self) -> None:
        """End what is still running: by a signal, then what has not ended by it."""
        for process in self.processes:
            started = [process.pid, *(one.pid for one in _children(process.pid))]
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                for pid in started:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()


def _children(pid: int) -> Sequence[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return ()


@cache
def why_not() -> str | None:
    """Why namespaces cannot be made here; None: they can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root"
    name = f"medusa-{os.getpid():x}-t"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces cannot be made here: {error}"
    return None


@contextmanager
def machines(folder: Path, *names: str) -> Iterator[Mapping[str, Machine]]:
    """Machines of these names, each reached by the others as `NAME.example`."""
    if reason := why_not():
        pytest.skip(reason)
    prefix = f"medusa-{os.getpid():x}"
    made = {
        name: Machine(
            name=name,
            host=f"{name}.example",
            address=f"{NETWORK}.{number}",
            namespace=f"{prefix}-{name}",
            folder=folder / name,
        )
        for number, name in enumerate(names, start=1)
    }
    hosts = "".join(f"{one.address} {one.host}\n" for one in made.values())
    hosts += f"127.0.0.1 localhost {socket.gethostname()}\n"
    # The cable's other ends are in a namespace, too: nothing is added to this machine's network.
    switch = f"{prefix}-switch"
    with ExitStack() as stack:
        stack.callback(_remove_if_empty, HOSTS)
        _add(stack, switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for number, one in enumerate(made.values()):
            _prepare(one)
            stack.callback(shutil.rmtree, HOSTS / one.namespace)
            (HOSTS / one.namespace).mkdir(parents=True)
            (HOSTS / one.namespace / "hosts").write_text(hosts)
            _add(stack, one.namespace)
            port = f"port{number}"
            _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "cable",
                "netns", one.namespace)  # fmt: skip
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", one.namespace, "addr", "add", f"{one.address}/24", "dev", "cable")
            for device in ("cable", "lo"):
                _ip("-n", one.namespace, "link", "set", device, "up")
            stack.callback(one.end)
        yield made


def _prepare(machine: Machine) -> None:
    """Its folder, with `medusa` on the path and no variables of this test's."""
    state, programs = machine.folder / ".shell", machine.folder / ".bin"
    for one in (state, programs):
        one.mkdir(parents=True)
    medusa = programs / "medusa"
    medusa.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipelines.cli.main "$@"\n')
    medusa.chmod(0o755)
    dropped = [name for name in os.environ if name.startswith("MEDUSA_")]
    lines = [*(f"unset {name}" for name in dropped), f'export PATH="{programs}:$PATH"']
    (state / "variables").write_text("\n".join(lines) + "\n")
    (state / "folder").write_text(f"{machine.folder}\n")


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _add(stack: ExitStack, namespace: str) -> None:
    _ip("netns", "add", namespace)
    stack.callback(_ip, "netns", "del", namespace)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=60)
