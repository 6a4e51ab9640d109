"""Two homes in folders of their own, each served over TLS by a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import text

from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes
from pipelines.homes.signing_keys import make_key
from tests.catalog.homes_under_test import watcher_of, wipe
from tests.home_pool import home_pool

PARTNER_TABLES = "partner", "invitation", "party_key", "access_token", "used_assertion"


@dataclass(frozen=True)
class Office:
    """One participant's folder, contracts and server."""

    participant: Participant
    settings: Settings
    contracts: Path
    server: EmbeddedServer

    @property
    def environment(self) -> dict[str, str]:
        """That of a command that is typed here."""
        return self.settings.environment_of_child()

    def command(self, *arguments: str) -> list[str]:
        """A command of Medusa's."""
        return [sys.executable, "-m", "pipelines.cli.main", *arguments]

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """One command in a process of its own."""
        return subprocess.run(
            self.command(*arguments), env=self.environment, cwd=self.contracts.parent, input=stdin,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def sql(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """As the administrator of the server, whom no law of the home binds."""
        database = known_homes(self.settings.directory)[self.participant]
        with (
            watcher_of(self.server.superuser_url(database)) as watcher,
            watcher.connect() as connection,
        ):
            answer = connection.execute(text(statement), values)
            return [tuple(row) for row in answer] if answer.returns_rows else []

    def state_of(self, partner: str) -> str | None:
        """How the home counts a partner."""
        statement = "SELECT state FROM medusa_api.partners WHERE participant = :partner"
        found = self.sql(statement, partner=partner)
        return found[0][0] if found else None

    def contents(self) -> Mapping[str, object]:
        """All that joining may change: rows of partners, and files of contracts and keys."""
        rows = {
            name: sorted(self.sql(f"SELECT CAST(t AS text) FROM medusa_market.{name} AS t"))
            for name in PARTNER_TABLES
        }
        folders = (self.contracts, self.settings.directory / "keys")
        files = {
            str(path): sha256(path.read_bytes()).hexdigest()
            for folder in folders
            for path in folder.rglob("*")
            if path.is_file()
        }
        return {**rows, **files}

    def forget(self) -> None:
        """As if just made, but with the keys of this office."""
        database = known_homes(self.settings.directory)[self.participant]
        with watcher_of(self.server.superuser_url(database)) as watcher:
            wipe(watcher, self.participant)
        for file in (self.contracts / "participants").iterdir():
            if file.stem != self.participant:
                file.unlink()
        key = make_key(self.settings.directory, self.participant).public_key
        learn = "SELECT medusa_api.learn_key(:participant, :key)"
        self.sql(learn, participant=self.participant, key=key.hex())


@contextmanager
def office(server: EmbeddedServer, folder: Path, name: str) -> Iterator[Office]:
    """A home in a folder of its own, that is served as `localhost`."""
    participant = Participant(name)
    contracts = folder / "contracts"
    (contracts / "participants").mkdir(parents=True)
    (contracts / "participants" / f"{name}.yaml").write_text(f"participant: {name}\n")
    with home_pool(server, folder / "homes", participant) as lent:
        settings = replace(lent, exchange_name="localhost")
        made = Office(participant, settings, contracts, server)
        made.forget()
        with serving(made):
            yield made


@contextmanager
def serving(office: Office) -> Iterator[None]:
    """The office's exchange server, as long as the block runs."""
    command = [sys.executable, "-m", "pipelines.cli.main", "serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=office.environment)
    assert process.stdout is not None
    try:
        assert "serves its exchange at https://localhost:" in process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.communicate()
