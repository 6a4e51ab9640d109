"""Machines on one cable: network namespaces, made by root and removed at the end.

Each has a loopback of its own, one address, and a hosts file that names the others. The files of
this machine are shared, so each is given a folder of its own. What the cable between them carries
is passed on by a process (`cable.py`), which delays it, loses it or cuts it as a test orders.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.networks.cable import Conditions, changes_of
from tests.terminals import install_medusa

HOSTS = Path("/etc/netns")
NETWORK = "10.213.77"
END_S = 60
CLONE_NEWNET = 0x40000000
SIOCETHTOOL = 0x8946
CHECKSUMS, SEGMENTS = 0x17, (0x1F, 0x24)
"""What a network card may do for the kernel, by the numbers of ETHTOOL_S…."""


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


class Cable:
    """What connects all machines. Conditions are those of frames from one machine to another."""

    def __init__(self, process: subprocess.Popen[str], ports: Mapping[str, str]) -> None:
        self._orders, self._answers = process.stdin, process.stdout
        self._ports = ports

    def between(self, one: str, other: str, conditions: Conditions) -> None:
        """Set the conditions of both directions."""
        self._order((one, other, conditions), (other, one, conditions))

    def toward(self, receiver: str, sender: str, conditions: Conditions) -> None:
        """Set the conditions of what a machine receives of another."""
        self._order((sender, receiver, conditions))

    def heal(self) -> None:
        """Carry all at once, as in the beginning."""
        names = list(self._ports)
        self._order(*((a, b, Conditions()) for a in names for b in names if a != b))

    def counts(self) -> Counter[str]:
        """Frames that were carried, lost, cut and reset so far, in all directions."""
        return self._order()

    def _order(self, *changes: tuple[str, str, Conditions]) -> Counter[str]:
        ports = [(self._ports[a], self._ports[b], c) for a, b, c in changes]
        _of(self._orders).write(changes_of(ports))
        _of(self._orders).flush()
        total: Counter[str] = Counter()
        for _, _, counts in json.loads(_of(self._answers).readline()):
            total.update(counts)
        return total


def _of(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@dataclass(frozen=True)
class Network:
    """Machines by their names, and the cable between them."""

    machines: Mapping[str, Machine]
    cable: Cable


@cache
def why_not() -> str | None:
    """Why namespaces cannot be made here; None: they can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root"
    if shutil.which("ip") is None:
        return "network namespaces are made with ip, of the package iproute2, which is missing"
    name = f"medusa-{os.getpid():x}-t"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces cannot be made here: {error}"
    return None


def require_namespaces() -> None:
    """Skip the test where none can be made; fail where all tests are to run (CI=true)."""
    if reason := why_not():
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(reason)
        pytest.skip(reason)


@contextmanager
def inside(machine: Machine) -> Iterator[None]:
    """Sockets that this thread makes in the block are the machine's; threads that it starts stay
    there."""
    with (
        open("/proc/thread-self/ns/net") as before,
        open(f"/run/netns/{machine.namespace}") as there,
    ):
        _enter(there)
        try:
            yield
        finally:
            _enter(before)


def _enter(namespace: IO[str]) -> None:
    if LIBC.setns(namespace.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def network(folder: Path, *names: str) -> Iterator[Network]:
    """Machines of these names, each reached by the others as `NAME.example`."""
    require_namespaces()
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
    ports = {name: f"port{number}" for number, name in enumerate(names)}
    hosts = "".join(f"{one.address} {one.host}\n" for one in made.values())
    hosts += f"127.0.0.1 localhost {socket.gethostname()}\n"
    # The cable's other ends are in a namespace, too: nothing is added to this machine's network.
    switch = f"{prefix}-switch"
    with ExitStack() as stack:
        stack.callback(_remove_if_empty, HOSTS)
        _add(stack, switch)
        for one in made.values():
            _prepare(one)
            stack.callback(shutil.rmtree, HOSTS / one.namespace)
            (HOSTS / one.namespace).mkdir(parents=True)
            (HOSTS / one.namespace / "hosts").write_text(hosts)
            _add(stack, one.namespace)
            _ip("-n", switch, "link", "add", ports[one.name], "type", "veth", "peer", "name",
                "cable", "netns", one.namespace)  # fmt: skip
            _ip("-n", switch, "link", "set", ports[one.name], "up")
            _ip("-n", one.namespace, "addr", "add", f"{one.address}/24", "dev", "cable")
            for device in ("cable", "lo"):
                _ip("-n", one.namespace, "link", "set", device, "up")
            with inside(one):
                _leave_frames_as_they_are("cable")
            stack.callback(one.end)
        cable = stack.enter_context(_process(switch, list(ports.values())))
        yield Network(made, Cable(cable, ports))


@contextmanager
def _process(namespace: str, ports: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """The process that carries frames between these ports; it ends with its input."""
    command = ["ip", "netns", "exec", namespace, sys.executable, "-m", "tests.networks.cable"]
    with subprocess.Popen(
        [*command, *ports], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process


def _leave_frames_as_they_are(device: str) -> None:
    """Let the kernel complete each segment and its checksum: the cable is a wire, not a card."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for what in (CHECKSUMS, *SEGMENTS):
            value = ctypes.create_string_buffer(struct.pack("II", what, 0))
            request = struct.pack("16sP", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def _prepare(machine: Machine) -> None:
    """Its folder, with `medusa` on the path and no variables of this test's."""
    state, programs = machine.folder / ".shell", machine.folder / ".bin"
    state.mkdir(parents=True)
    install_medusa(programs)
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
