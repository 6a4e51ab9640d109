"""Without a bilateral contract a loop neither loads the market nor sends its statements."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from medusa_core.names import Participant
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import role_url
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from tests.agreements.building import INSERT, Login
from tests.federation.building import federation_of, write_replicated
from tests.federation.looping import TURNS_S_MAX
from tests.federation.processes import Installation, kill
from tests.waiting import until

SECONDS = 7.0
"""Longer than a door waits before it asks again."""
SOON_S = 0.5
REPORT_S_MAX = 180 + SECONDS + TURNS_S_MAX
"""A loop that never waits tells so after the latter two; before, its process has to start."""

OWN_KEY = "SELECT public_key FROM medusa_api.party_keys WHERE participant = 'alpha'"
OF_OTHERS = "record_load", "is_current_key"
"""Samples of load and partners are in the schema of the market, with or without a market."""


@pytest.fixture
def installed(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Installation]:
    """Beta counts what alpha lands, and alpha does not run: there is nothing to compute."""
    contracts = write_replicated(tmp_path / "contracts", counting=("beta",))
    with federation_of(postgres_server, tmp_path / "homes") as settings:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield Installation(settings, postgres_server)


class Looping:
    """A loop of a participant in a process of its own."""

    def __init__(self, installed: Installation, name: str) -> None:
        command = [sys.executable, "-m", "tests.federation.looping"]
        self.process = subprocess.Popen(
            [*command, str(installed.folder), name, str(SECONDS)],
            env={**os.environ, "MEDUSA_CATALOG_URL": installed.settings.catalog_url or ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def close(self) -> None:
        kill(self.process)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def report(self) -> Mapping[str, Any]:
        assert self.process.stdout is not None
        # It prints one line for each that it is asked for: nothing is left in the reader's buffer.
        ready, _, _ = select.select([self.process.stdout], [], [], REPORT_S_MAX)
        assert ready, f"the loop has told nothing within {REPORT_S_MAX} s"
        line = self.process.stdout.readline()
        assert line, "the loop has ended"
        found: Mapping[str, Any] = json.loads(line)
        return found

    def go_on(self) -> None:
        assert self.process.stdin is not None
        print(SOON_S, file=self.process.stdin)
        self.process.stdin.flush()


def edit_a_contract(installed: Installation) -> None:
    """What the owner of beta's home does in psql."""
    alpha, beta = (
        Login(role_url(installed.folder, installed.server.address, name, "owner"))
        for name in map(Participant, ("alpha", "beta"))
    )
    try:
        ((key,),) = alpha(OWN_KEY)
        beta("SELECT medusa_api.learn_key('alpha', %s)", key)
        beta(INSERT)
    finally:
        alpha.connection.close()
        beta.connection.close()


def of_the_market(report: Mapping[str, Any]) -> dict[str, int]:
    return {
        text: count
        for text, count in report["statements"].items()
        if "medusa_market" in text and not any(other in text for other in OF_OTHERS)
    }


@pytest.mark.long
def test_a_loop_opens_the_market_with_its_first_contract_and_not_before(
    installed: Installation,
) -> None:
    looping = Looping(installed, "beta")
    try:
        closed = looping.report()
        assert closed["turns"] > 3
        assert closed["modules"] == []
        ((statement, times),) = of_the_market(closed).items()
        assert "contract_revision" in statement
        assert times <= 1 + closed["seconds"] // 5.0, "at the beginning, and then every 5 s"

        edit_a_contract(installed)

        def is_open() -> bool:
            looping.go_on()
            report = looping.report()
            sent = " ".join(of_the_market(report))
            return "pipelines.market.rounds.round_tick" in report["modules"] and (
                "medusa_market.outbox" in sent
            )

        until(is_open, "the edit of a contract opens the market", 120)
    finally:
        looping.close()
