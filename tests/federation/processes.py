"""Participants as processes: started, stopped at a named point, killed, run to the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from medusa_core.knowledge import Limits
from pipelines.base.failpoints import FILE, POINT
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import SERVER, known_homes
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.home_session import open_session
from tests.conftest import folder_on_memory
from tests.exchange.served import served_home
from tests.waiting import until

END_S_MAX = 180
STEP_RECORDS = Limits(records_per_step_max=3_000)
"""What a participant takes at once here, as a process or in the test's own."""
LEASE_S = 2.0


@dataclass(frozen=True)
class Installation:
    """Homes in a folder; no participant owns their database server, nor their exchange servers."""

    settings: Settings
    server: EmbeddedServer
    exchanges: ExitStack = field(default_factory=ExitStack)

    @property
    def folder(self) -> Path:
        return self.settings.directory

    def start(
        self, name: str, *more: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """`medusa run` of a participant, in a process group of its own."""
        command = [
            sys.executable, "-m", "pipelines.cli.main", "run", "--participant", name,
            "--lease", str(LEASE_S),
            "--records-per-step-max", str(STEP_RECORDS.records_per_step_max), *more,
        ]  # fmt: skip
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={
                **os.environ,
                "MEDUSA_DIR": str(self.folder),
                "MEDUSA_CATALOG_URL": self.settings.catalog_url or "",
                **(environment or {}),
            },
        )

    def run_to_the_end(self, name: str) -> None:
        """Run a participant until all that it does has ended."""
        process = self.start(name, "--until-ended")
        try:
            _, errors = process.communicate(timeout=END_S_MAX)
        finally:
            kill(process)
        assert process.returncode == 0, errors

    def kill_at(self, name: str, point: str) -> bool:
        """Run a participant up to a point and kill it there; False if it ended before."""
        announced = self.folder / f"reached-{name}"
        announced.unlink(missing_ok=True)
        process = self.start(
            name, "--until-ended", environment={POINT: point, FILE: str(announced)}
        )
        try:
            until(
                lambda: announced.exists() or process.poll() is not None,
                f"{name} reaches {point}",
                seconds_max=END_S_MAX,
            )
            return announced.exists()
        finally:
            kill(process)
            announced.unlink(missing_ok=True)

    def keep(self) -> Path:
        """A copy of all homes as they are, for `put_back`; nobody runs there."""
        self.exchanges.close()
        self.server.stop()
        kept = self.folder.with_name(f"{self.folder.name}-kept")
        copy(self.folder, kept)
        return kept

    def put_back(self, kept: Path) -> None:
        """Make all homes what they were when they were kept; nobody runs there."""
        self.exchanges.close()
        self.server.stop()
        shutil.rmtree(self.folder)
        copy(kept, self.folder)
        self.server.__enter__()
        self.serve()

    def serve(self) -> None:
        """Serve the exchange of each home until `exchanges` is closed."""
        for name in known_homes(self.folder):
            self.exchanges.enter_context(served_home(self.settings, name))


def copy(folder: Path, to: Path) -> None:
    """A copy with the owners of its files: as root, Postgres runs as another user."""
    assert not (folder / SERVER / "cluster").is_symlink(), "the copy would be the same database"
    subprocess.run(["cp", "-a", folder, to], check=True)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the whole group, from outside; nothing of it is asked."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    if process.stderr is not None:
        process.stderr.close()


@contextmanager
def installation(contracts: Path) -> Iterator[Installation]:
    """Homes with these contracts applied; all is gone at the end."""
    folder = folder_on_memory("medusa-federation-")
    settings = replace(Settings.from_environment({}), directory=folder)
    server = EmbeddedServer(folder / SERVER)
    try:
        with server:
            apply_contracts(settings, ApplyRequest(contracts=contracts))
            installed = Installation(settings, server)
            with installed.exchanges:
                installed.serve()
                yield installed
    finally:
        server.discard()
        if folder.exists():  # not after a `put_back` that failed
            shutil.rmtree(folder)


def contents(installed: Installation, name: str) -> dict[str, object]:
    """All that a home promises: every live segment with its lineage, and the quarantine."""
    with open_session(installed.settings, name) as session:  # type: ignore[arg-type]
        catalog = session.home.catalog
        found: dict[str, object] = {}
        for status in catalog.streams():
            stream = status.stream.name
            segments = catalog.segments(stream, producer=status.producer)
            found[f"{stream} by {status.producer}"] = (
                status.boundary_us,
                [
                    (s.range, s.stability, s.version, s.plan, dict(s.buckets), catalog.lineage(s))
                    for s in segments
                ],
            )
        found["quarantine"] = sorted(
            (q.stream, q.origin, q.position or 0, q.reason) for q in catalog.quarantined()
        )
        return found
