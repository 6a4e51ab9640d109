"""The demo's participants: contracts, home and Postgres of each, and `medusa run` as a process.

Each has a folder of its own, as on a machine of its own, and knows the others as partners that have
joined by an invitation. Each process runs in a separate session, so that the demo passes on Ctrl-C;
Linux ends them if the demo is killed. Their output is written to `NAME.out` in the folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
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
from pipelines.homes.exchange_addresses import read_address
from pipelines.homes.home import SERVER, without_login
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.operations.fault_injection import CutRequest, HealRequest, inject_fault
from pipelines.operations.partner_invitation import (
    AcceptRequest,
    InvitationMade,
    InviteRequest,
    accept_invitation,
    invite_partner,
)
from pipelines.operations.partner_management import export_partner
from pipelines.operations.project_files import write_project
from pipelines.platform.airflow_components.ports import free_port
from pipelines.platform.drills.run_processes import running_in
from pipelines.report.next_steps import near

TEMPLATES = Path(__file__).with_name("templates") / "demo"
CONTRACTS = "contracts"
HOST = "localhost"
COMPUTES, OTHERS = Participant("alpha"), (Participant("beta"), Participant("gamma"))
ALL = (COMPUTES, *OTHERS)
CUT = OTHERS[-1]
"""Whose link to the one that computes is cut."""

START_S_MAX = 240.0
END_S_MAX = 30
LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who takes part in a scene, and the folder with a template of each participant's contracts.

    The one that computes joins the others, and is ended first: it would answer without them.
    """

    templates: Path
    computes: Participant
    others: tuple[Participant, ...]

    @property
    def all(self) -> tuple[Participant, ...]:
        """All of them."""
        return (self.computes, *self.others)


CUT_OFF = Cast(templates=TEMPLATES, computes=COMPUTES, others=OTHERS)
"""The participants of the second scene."""


@dataclass(slots=True)
class DemoFederation:
    """The participants' homes, each in a folder of its own below `folder`, and who runs now."""

    folder: Path
    cast: Cast
    settings: Mapping[Participant, Settings]
    running: dict[Participant, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, participant: Participant, *more: str, command: str = "run") -> None:
        """Run a participant, or with another command serve it, from now on."""
        medusa = [sys.executable, "-P", "-m", "pipelines.cli.main", command, *more]
        variables = without_login(self.settings[participant]).environment_of_child()
        variables.pop("MEDUSA_METRICS_PORT", None)  # one port does not serve three
        with self.log(participant).open("ab") as log, starting(f"medusa {command}"):
            self.running[participant] = subprocess.Popen(
                owned_command(medusa, ends_by=signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=variables,
            )

    def contracts(self, participant: Participant) -> Path:
        """A participant's folder of contracts."""
        return self.settings[participant].directory / CONTRACTS

    def log(self, participant: Participant) -> Path:
        """What a participant's processes say."""
        return self.folder / f"{participant}.out"

    def check(self) -> None:
        """Raises Unavailable, naming the log, if a participant has ended."""
        for participant, process in self.running.items():
            code = process.poll()
            if code is not None:
                raise Unavailable(
                    f"{participant} ended with exit code {code}, so the demo ends: its output is "
                    f"in {near(self.log(participant))}"
                )

    def is_served(self, participant: Participant) -> bool:
        """Whether partners reach a participant."""
        with suppress(Unavailable):
            read_address(self.settings[participant].directory, participant)
            return True
        return False

    def drives(self, participant: Participant) -> bool:
        """Whether a participant has its leases and works."""
        self.check()
        return any(
            process.participant == participant and not process.waits
            for process in running_in(self.settings[participant].directory)
        )

    def cut(self, one: Participant, other: Participant) -> str:
        """Cut the link between two participants at one's end; what was done, in a line."""
        return render(inject_fault(self.settings[one], CutRequest(one=one, other=other)))

    def heal(self, one: Participant, other: Participant) -> str:
        """Heal the link between two participants; what was done, in a line."""
        return render(inject_fault(self.settings[one], HealRequest(participants=(one, other))))

    def stop(self) -> None:
        """End all participants, the one that computes first."""
        for participant in [p for p in self.cast.all if p in self.running]:
            _end(self.running.pop(participant))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Tell a process to end, and kill its group if it does not."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(END_S_MAX)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def demo_federation(
    settings: Settings, folder: Path, cast: Cast = CUT_OFF
) -> Iterator[DemoFederation]:
    """Homes in a new folder with the scene's contracts applied; every process ends with the block.

    Raises Unavailable if the folder cannot be written.
    """
    homes = {
        participant: replace(
            settings,
            directory=folder / participant,
            exchange_name=HOST,
            exchange_port=free_port(HOST),
        )
        for participant in cast.all
    }
    files = {
        str(path.relative_to(cast.templates)): path.read_text(encoding="utf-8")
        for path in sorted(cast.templates.rglob("*"))
        if path.suffix in (".py", ".yaml")
    }
    try:
        write_project(folder, files)
    except Refused as error:
        raise Unavailable(f"the folder of the demo is not empty: {error}") from error
    with ExitStack() as stack:
        for own in homes.values():
            if own.catalog_url is None:
                stack.enter_context(EmbeddedServer(own.directory / SERVER))
        federation = DemoFederation(folder, cast, homes)
        stack.callback(federation.stop)
        for participant in cast.all:
            apply(federation, participant, only_homes=True)
        _join(federation)
        yield federation


def _join(federation: DemoFederation) -> None:
    """Let the one that computes join the others."""
    computes, others = federation.cast.computes, federation.cast.others
    for participant in others:
        federation.start(participant, command="serve")
    is_served = federation.is_served
    wait_until(federation, lambda: all(map(is_served, others)), "all are served", START_S_MAX)
    for participant in others:
        own, contracts = federation.settings[participant], federation.contracts(participant)
        request = InviteRequest(partner=computes, contracts=contracts, is_waiting=False)
        made: list[InvitationMade] = []
        invite_partner(own, request, made.append)
        accepted = AcceptRequest(code=made[0].code, contracts=federation.contracts(computes))
        accept_invitation(federation.settings[computes], accepted)
        export_partner(own, None, computes, contracts)
        apply(federation, participant)
    apply(federation, computes)
    federation.stop()


def apply(
    federation: DemoFederation, participant: Participant, *, only_homes: bool = False
) -> None:
    """Apply a participant's contracts to its home."""
    request = ApplyRequest(contracts=federation.contracts(participant), only_homes=only_homes)
    apply_contracts(federation.settings[participant], request)


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
                f"too busy; the output of participants is in {near(federation.folder)}"
            )
        clock.sleep_s(LOOK_S)
