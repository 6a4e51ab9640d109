"""docs/two-machines.md is true: two machines that share nothing run one network together."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.docs.pages import Block, blocks_of, difference, page
from tests.networks.namespaces import Machine, network
from tests.waiting import until

CODE = re.compile(r"medusa-invitation-1\.[^\s`]+")
CONNECT = "exec 3<>/dev/tcp/{host}/{port}"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Mapping[str, Machine]]:
    """The machines of the page; a home's socket needs a short path."""
    with network(tmp_path, "shop", "analysis") as made:
        yield made.machines
    for name, machine in made.machines.items():
        EmbeddedServer(machine.folder / name / ".medusa" / "postgres").discard()


class Reader:
    """Who follows the page: types its blocks, passes the code on, and compares what is printed."""

    def __init__(self, two: Mapping[str, Machine], folder: Path) -> None:
        self._machines = two
        self._folder = folder
        self._code = ""
        self._inviting: subprocess.Popen[str] | None = None

    def follow(self, block: Block) -> None:
        for name in block.machines:
            if block.is_meanwhile:
                self._start(self._machines[name], block)
            else:
                self._type(self._machines[name], block)

    def _start(self, machine: Machine, block: Block) -> None:
        printed = self._folder / f"{machine.name}-{len(machine.processes)}.txt"
        process = machine.start(block.commands, printed)
        if "medusa run" in block.commands:
            address = machine.folder / machine.name / ".medusa" / "exchange" / machine.name
            until(address.exists, f"{machine.name} serves its exchange")
        if block.shown:
            until(lambda: CODE.search(printed.read_text()) or process.poll(), "a code is printed")
            found = CODE.search(printed.read_text())
            assert found, printed.read_text()
            self._code, self._inviting = found[0], process

    def _type(self, machine: Machine, block: Block) -> None:
        commands = CODE.sub(self._code, block.commands)
        ended: list[subprocess.CompletedProcess[str]] = []

        def is_as_shown() -> bool:
            ended.append(machine.type(commands))
            return difference(block.shown, ended[-1].stdout) is None

        if "medusa read" in commands:
            until(is_as_shown, f"{commands} prints what the page shows")
        else:
            assert is_as_shown(), (commands, ended[-1])
        assert ended[-1].returncode == block.exit_code, (commands, ended[-1])
        if commands != block.commands:
            assert self._inviting is not None
            assert self._inviting.wait(60) == 0


def is_connected(machine: Machine, host: str, port: int) -> bool:
    return machine.type(CONNECT.format(host=host, port=port)).returncode == 0


@pytest.mark.long
def test_two_machines_become_partners_as_the_page_says(
    two: Mapping[str, Machine], tmp_path: Path
) -> None:
    reader = Reader(two, tmp_path)
    blocks = [block for block in blocks_of(page("two-machines")) if block.machines]
    assert len(blocks) >= 10
    for block in blocks:
        reader.follow(block)
        if "medusa read" in block.commands:
            only_the_exchange_is_reached(two)
    refused = two["analysis"].type("medusa partner rotate")
    assert "learns of it later" in refused.stderr


def only_the_exchange_is_reached(two: Mapping[str, Machine]) -> None:
    """Of the ports on which processes of a machine listen, the other machine reaches one."""
    for machine, other in ((two["shop"], two["analysis"]), (two["analysis"], two["shop"])):
        listed = machine.type("cat /proc/net/tcp /proc/net/tcp6").stdout
        ports = {
            int(fields[1].rpartition(":")[2], 16)
            for fields in map(str.split, listed.splitlines())
            if len(fields) > 3 and fields[3] == "0A"
        }
        assert len(ports) > 1
        reached = {port for port in ports if is_connected(other, machine.host, port)}
        assert reached == {8443}
