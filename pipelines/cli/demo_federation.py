"""The demo's participants: their contracts, their homes, and `medusa run` of each as a process.

Each runs in a separate session, so that the demo passes on Ctrl-C; Linux ends them if the demo is
killed. Their output is written to `NAME.out` in the folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.foreign_documents import starting
from pipelines.base.owned_command import owned_command
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.fault import render
from pipelines.homes.home import SERVER, without_login
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.operations.fault_injection import CutRequest, HealRequest, inject_fault
from pipelines.operations.project_files import write_project
from pipelines.platform.drills.run_processes import running_in
from pipelines.report.next_steps import near

CONTRACTS = Path(__file__).with_name("templates") / "demo" / "contracts"
COMPUTES, OTHERS = Participant("alpha"), (Participant("beta"), Participant("gamma"))
CUT = OTHERS[-1]
"""Whose link to the one that computes is cut."""

END_S_MAX = 30
LOOK_S = 0.25


@dataclass(slots=True)
class DemoFederation:
    """Homes in a folder and the participants that run in them now."""

    settings: Settings
    running: dict[Participant, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, participant: Participant, *more: str) -> None:
        """Run a participant from now on."""
        medusa = [sys.executable, "-P", "-m", "pipelines.cli.main", "run"]
        # One port serves neither the exchange nor the metrics of three.
        settings = replace(without_login(self.settings), exchange_port=None)
        variables = settings.environment_of_child()
        variables.pop("MEDUSA_METRICS_PORT", None)
        with self.log(participant).open("ab") as log, starting("medusa run"):
            self.running[participant] = subprocess.Popen(
                owned_command(
                    [*medusa, "--participant", participant, *more], ends_by=signal.SIGTERM
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=variables,
            )  # fmt: skip

    def log(self, participant: Participant) -> Path:
        """What a participant's process says."""
        return self.settings.directory / f"{participant}.out"

    def check(self) -> None:
        """Raises Unavailable, naming the log, if a participant has ended."""
        for participant, process in self.running.items():
            code = process.poll()
            if code is not None:
                raise Unavailable(
                    f"{participant} ended with exit code {code}, so the demo ends: its output is "
                    f"in {near(self.log(participant))}"
                )

    def drives(self, participant: Participant) -> bool:
        """Whether a participant has its leases and works."""
        self.check()
        return any(
            process.participant == participant and not process.waits
            for process in running_in(self.settings.directory)
        )

    def cut(self, one: Participant, other: Participant) -> str:
        """Cut the link between two participants; what was done, in a line."""
        return render(inject_fault(self.settings, CutRequest(one=one, other=other)))

    def heal(self, one: Participant, other: Participant) -> str:
        """Heal the link between two participants; what was done, in a line."""
        return render(inject_fault(self.settings, HealRequest(participants=(one, other))))

    def stop(self) -> None:
        """End all participants, the one that computes first: it would answer without the others."""
        for participant in [p for p in (COMPUTES, *OTHERS) if p in self.running]:
            _end(self.running.pop(participant))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Tell a process to end, and kill its group if it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(END_S_MAX)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def demo_federation(settings: Settings, folder: Path) -> Iterator[DemoFederation]:
    """Homes in a new folder with the demo's contracts applied; every process ends with the block.

    Raises Unavailable if the folder cannot be written.
    """
    own = replace(settings, directory=folder)
    files = {
        f"contracts/{path.relative_to(CONTRACTS)}": path.read_text(encoding="utf-8")
        for path in sorted(CONTRACTS.rglob("*"))
        if path.suffix in (".py", ".yaml")
    }
    try:
        write_project(folder, files)
    except Refused as error:
        raise Unavailable(f"the folder of the demo is not empty: {error}") from error
    with contextlib.ExitStack() as stack:
        if own.catalog_url is None:
            stack.enter_context(EmbeddedServer(folder / SERVER))
        apply_contracts(own, ApplyRequest(contracts=folder / "contracts"))
        federation = DemoFederation(own)
        stack.callback(federation.stop)
        yield federation


def wait_until(
    federation: DemoFederation, is_so: Callable[[], bool], what: str, seconds_max: float
) -> None:
    """Look again and again; Unavailable if a participant ends, or if it does not come to be so."""
    gives_up_s = clock.monotonic_s() + seconds_max
    while not is_so():
        federation.check()
        if clock.monotonic_s() > gives_up_s:
            raise Unavailable(
                f"within {seconds_max:g} s it did not come so far that {what}: the machine may be "
                f"too busy; the output of participants is in {near(federation.settings.directory)}"
            )
        clock.sleep_s(LOOK_S)
