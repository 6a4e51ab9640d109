"""`medusa fault cut` between two machines drops packets, of that link alone, and for its time."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from sqlalchemy import text

from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.exchange_addresses import ServerAddress, write_address
from pipelines.homes.home import open_home
from pipelines.homes.signing_keys import make_key
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.platform.drills.link_faults import FILE, read_faults
from tests.home_pool import home_pool
from tests.networks.linked_homes import ALPHA, BETA, PORT, database_on
from tests.networks.namespaces import Machine, Network, inside, network
from tests.waiting import until

OTHER_PORT = 9_000
ADD = text("SELECT medusa_api.add_partner(:partner, :key, :url, :pin)")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Network]:
    with network(tmp_path / "machines", "alpha", "beta") as made:
        yield made


@pytest.fixture
def settings(postgres_server: EmbeddedServer, tmp_path: Path, made: Network) -> Iterator[Settings]:
    """The home of alpha, whose partner beta has its server on the other machine."""
    with home_pool(postgres_server, tmp_path / "homes", ALPHA) as settings, ExitStack() as stack:
        (tmp_path / "contracts" / "participants").mkdir(parents=True)
        key = make_key(tmp_path / "elsewhere", BETA).public_key.hex()
        (tmp_path / "contracts" / "participants" / "alpha.yaml").write_text("participant: alpha\n")
        apply_contracts(settings, ApplyRequest(contracts=tmp_path / "contracts"))
        url = f"https://{made.machines['beta'].address}:{PORT}"
        with (
            open_home(settings, ALPHA, as_owner=True) as home,
            home.catalog.engine.begin() as connection,
        ):
            connection.execute(ADD, {"partner": BETA, "key": key, "url": url, "pin": "1" * 64})
        own = ServerAddress(url=f"https://{made.machines['alpha'].address}:{PORT}", pin="0" * 64)
        write_address(settings.directory, ALPHA, own)
        stack.enter_context(database_on(made.machines["alpha"], postgres_server))
        for machine in made.machines.values():
            for port in (PORT, OTHER_PORT):
                with inside(machine):
                    stack.enter_context(socket.create_server((machine.address, port)))
        yield settings


def fault(settings: Settings, machine: Machine, *arguments: str) -> str:
    """What `medusa fault` prints on a machine."""
    done = subprocess.run(
        ["ip", "netns", "exec", machine.namespace, sys.executable, "-m", "pipelines.cli.main",
         "fault", *arguments],
        env=settings.environment_of_child(), capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_reached(made: Network, sender: str, receiver: str, port: int = PORT) -> bool:
    with inside(made.machines[sender]):
        try:
            with socket.create_connection((made.machines[receiver].address, port), timeout=2):
                return True
        except TimeoutError:
            return False


def droppers(settings: Settings) -> list[psutil.Process]:
    """The processes that drop packets for this folder."""
    return [
        one for one in psutil.process_iter(["cmdline"])
        if "pipelines.platform.drills.packet_cut" in (one.info["cmdline"] or ())
        and str(settings.directory) in " ".join(one.info["cmdline"])
    ]  # fmt: skip


@pytest.mark.long
def test_packets_of_a_cut_link_are_dropped_and_no_others_until_it_is_healed(
    settings: Settings, made: Network
) -> None:
    alpha = made.machines["alpha"]
    until(lambda: is_reached(made, "alpha", "beta"), "the cable carries")
    printed = fault(settings, alpha, "cut", "alpha", "beta")
    assert "the packets between the two machines are dropped" in printed
    assert not is_reached(made, "alpha", "beta")
    assert not is_reached(made, "beta", "alpha")
    assert is_reached(made, "alpha", "beta", OTHER_PORT)
    assert is_reached(made, "beta", "alpha", OTHER_PORT)
    assert "packets lost" in fault(settings, alpha, "list")
    fault(settings, alpha, "heal", "alpha", "beta")
    until(lambda: is_reached(made, "alpha", "beta"), "the link is whole again")
    until(lambda: not droppers(settings), "nothing is left of the drill")


@pytest.mark.long
def test_the_drop_ends_with_its_time_and_with_its_process(
    settings: Settings, made: Network
) -> None:
    alpha = made.machines["alpha"]
    until(lambda: is_reached(made, "alpha", "beta"), "the cable carries")
    fault(settings, alpha, "cut", "beta", "alpha", "--one-way", "--for", "20s")
    assert not is_reached(made, "alpha", "beta")
    until(lambda: is_reached(made, "alpha", "beta"), "the drill is over", 60)
    fault(settings, alpha, "cut", "alpha", "beta")
    assert not is_reached(made, "alpha", "beta")
    (dropper,) = droppers(settings)
    os.kill(dropper.pid, signal.SIGKILL)
    until(lambda: is_reached(made, "alpha", "beta"), "the kernel has removed the rules")


@pytest.mark.long
def test_a_user_who_may_not_drop_packets_cuts_the_calls_of_its_own_processes(
    settings: Settings, made: Network
) -> None:
    command = [sys.executable, "-m", "pipelines.cli.main", "fault", "cut", "alpha", "beta"]
    bare = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]
    done = subprocess.run(
        ["ip", "netns", "exec", made.machines["alpha"].namespace, *bare, *command],
        env=settings.environment_of_child(), capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "only calls from here fail, because packets cannot be dropped here" in done.stdout
    assert is_reached(made, "alpha", "beta")
    faults = read_faults(settings.directory / FILE)
    assert (len(faults.lost), len(faults.packets)) == (2, 0)
    listed = json.loads(fault(settings, made.machines["alpha"], "list", "--json"))
    assert len(listed["lost"]) == 2
