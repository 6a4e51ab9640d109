"""The shipped federation as processes, in a separate folder with an embedded server.

Each participant is a `medusa run` in a separate process group, as an operator would start it. The
server is owned by the process that measures, so that participants can be killed one by one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.processes import REPOSITORY, ContenderFailed
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import SERVER, known_homes, storage_of
from pipelines.operations.contract_application import ApplyRequest, apply_contracts

CONTRACTS = REPOSITORY / "contracts" / "sites"
END_S_MAX = 60


@dataclass(slots=True)
class Federation:
    """Homes in a folder, and the participants that run in them now."""

    settings: Settings
    server: EmbeddedServer
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    prefixes: dict[str, Sequence[str]] = field(default_factory=dict)
    """What a process's command begins with, by its name: where it is to run (`bench/apart.py`)."""

    @property
    def participants(self) -> tuple[str, ...]:
        """All that have a home, in order of their names."""
        return tuple(sorted(known_homes(self.settings.directory)))

    @property
    def databases(self) -> Mapping[str, str]:
        """Participant -> database."""
        return {str(p): d for p, d in known_homes(self.settings.directory).items()}

    def storage(self, participant: str) -> Path:
        """Where a participant's files lie."""
        return storage_of(self.settings.directory, participant)  # type: ignore[arg-type]

    @property
    def postmaster(self) -> int:
        """The process id of the server that runs now."""
        lines = (self.server.directory / "cluster" / "data" / "postmaster.pid").read_text()
        return int(lines.splitlines()[0])

    def environment(self) -> dict[str, str]:
        """What a command needs to find these homes."""
        directory = str(self.settings.directory)
        return {**os.environ, "MEDUSA_DIR": directory, "MEDUSA_CATALOG_URL": ""}

    def start(self, participant: str, *more: str) -> subprocess.Popen[bytes]:
        """Run a participant from now on; what it says goes to a log beside its home's."""
        process = self.start_another(participant, *more)
        self.running[participant] = process
        return process

    def start_another(self, participant: str, *more: str) -> subprocess.Popen[bytes]:
        """The like, beside one that runs: it is the caller's to end."""
        with self.log(participant).open("ab") as log:
            return subprocess.Popen(
                [*self.prefix(participant), *_medusa("run"), "--participant", participant, *more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=REPOSITORY,
                env=self.environment(),
            )

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Carry out one command of Medusa's in these homes, to its end."""
        return subprocess.run(
            [*_medusa(*arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=REPOSITORY,
            env=self.environment(),
        )

    def prefix(self, name: str) -> Sequence[str]:
        """What the command of a process begins with."""
        return self.prefixes.get(name, ())

    def log(self, participant: str) -> Path:
        """What the processes of a participant said."""
        return self.settings.directory / f"{participant}.out"

    def check_all_run(self) -> None:
        """Raises ContenderFailed, with its last words, if a participant has ended."""
        for participant, process in self.running.items():
            if process.poll() is not None:
                raise ContenderFailed(
                    f"{participant} ended with {process.returncode}: {self.last_words(participant)}"
                )

    def last_words(self, participant: str) -> str:
        """The end of what a participant said."""
        return " | ".join(self.log(participant).read_text(errors="replace").splitlines()[-5:])

    def stop(self) -> None:
        """Tell all to stop, as an operator would; who does not is killed."""
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        for process in self.running.values():
            try:
                process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                kill_group(process)
        self.running.clear()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the whole group; its JVM ends because its input does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _medusa(*arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", "pipelines.cli.main", *arguments)


@contextmanager
def shipped_federation(folder: Path, contracts: Path = CONTRACTS) -> Iterator[Federation]:
    """Homes with these contracts applied and nobody running; all processes end with the block."""
    settings = replace(Settings.from_environment({}), directory=folder.absolute())
    with EmbeddedServer(settings.directory / SERVER) as server:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        federation = Federation(settings, server)
        try:
            yield federation
        finally:
            federation.stop()
