"""Two participants that run as operators run them; one may hand a fragment to the other."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.market.moves import MoveState
from pipelines.base import clock
from pipelines.base.time_text import parse_time_us
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.operations.fragment_moves import MoveRequest, begin_move, end_move
from pipelines.operations.partner_management import export_partner
from pipelines.platform.drills.link_faults import NOTHING, Lost, write_faults
from tests.federation.test_definitions_of_partners import running
from tests.federation.test_moves import ALPHA, COUNTS, LIVE
from tests.federation.test_moves_by_contract import CONTRACT, IN_FORCE, WINDOW_US, rows, steps_of
from tests.federation.test_partner_streams import apply, join, write
from tests.partners.offices import Office, office
from tests.waiting import until

SECONDS_MAX = 300
LASTS_S = 4.0
STATE = """SELECT state FROM medusa_market.move WHERE is_given = :is_given
    ORDER BY number DESC LIMIT 1"""


@dataclass
class Participants:
    """Alpha, which pays, and beta; what was killed is started again."""

    payer: Office
    provider: Office
    folder: Path
    runs: dict[str, ExitStack] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, office: Office) -> None:
        stack = self.runs[office.participant] = ExitStack()
        log = self.folder / f"{office.participant}-{len(list(self.folder.iterdir()))}.log"
        self.processes[office.participant] = stack.enter_context(running(office, log))

    def close(self) -> None:
        for stack in self.runs.values():
            stack.close()

    def lose(self, office: Office) -> None:
        """It is killed, and nobody starts it again."""
        process = self.processes.pop(office.participant)
        process.kill()
        process.wait(SECONDS_MAX)

    def state(self, *, is_given: bool = True) -> MoveState | None:
        found = (self.payer if is_given else self.provider).sql(STATE, is_given=is_given)
        return MoveState(found[0][0]) if found else None

    def until_state(self, *states: MoveState, is_given: bool = True) -> None:
        until(lambda: self.state(is_given=is_given) in states, f"it is one of {states}",
              SECONDS_MAX)  # fmt: skip

    def suffer(self, fault: str) -> None:
        """The fault happens and is over."""
        words = fault.split()
        office = self.payer if "payer" in fault else self.provider
        process = self.processes[office.participant]
        match words[0]:
            case "kill":
                process.kill()
                process.wait(SECONDS_MAX)
                self.runs[office.participant].close()
                self.start(office)
            case "freeze":
                process.send_signal(signal.SIGSTOP)
                self._wait()
                process.send_signal(signal.SIGCONT)
            case _:
                ends = self.payer.participant, self.provider.participant
                lost = [Lost(*ends), Lost(ends[1], ends[0])]
                if words[-1] == "sends":
                    lost = [row for row in lost if row.sender == office.participant]
                for each in (self.payer, self.provider):
                    write_faults(each.settings.directory, NOTHING.with_lost(*lost))
                self._wait()
                for each in (self.payer, self.provider):
                    write_faults(each.settings.directory, NOTHING)

    @staticmethod
    def _wait() -> None:
        ends_s = clock.monotonic_s() + LASTS_S
        until(lambda: clock.monotonic_s() >= ends_s, "the fault has lasted", SECONDS_MAX)


@contextmanager
def participants(
    server: EmbeddedServer, folder: Path, contract: str = CONTRACT
) -> Iterator[Participants]:
    """Both run, and the contract is in force."""
    with ExitStack() as stack:
        alpha, beta = (
            stack.enter_context(office(server, folder / name, name)) for name in ("alpha", "beta")
        )
        write(alpha, "participants/alpha.yaml", ALPHA)
        write(alpha, "networks/counts.py", COUNTS)
        write(alpha, "streams/connections.yaml", LIVE)
        for one in (alpha, beta):
            apply(one)
        join(alpha, beta)
        export_partner(alpha.settings, None, "beta", alpha.contracts)
        for one in (alpha, beta):
            write(one, "bilateral/load_of_alpha.yaml", contract)
            apply(one)
        (folder / "logs").mkdir()
        both = Participants(alpha, beta, folder / "logs")
        stack.callback(both.close)
        for one in (alpha, beta):
            both.start(one)
        wait_for("it is in force", lambda: all(one.sql(IN_FORCE) for one in (alpha, beta)))
        wait_for("alpha computes", lambda: len(steps_of(alpha)) > 2)
        yield both


def wait_for(what: str, is_done: Callable[[], bool]) -> None:
    until(is_done, what, SECONDS_MAX)


def a_move(both: Participants, state: MoveState, suffer: Callable[[], None]) -> None:
    """The fragment moves, if it can, and comes back; the fault comes in this state."""
    payer = both.payer.settings
    begin_move(payer, MoveRequest(participant="alpha", fragment="main", to="beta"))
    if state in (MoveState.ACCEPTED, MoveState.STARTED):
        both.until_state(state, MoveState.RELEASED, MoveState.ENDED)
        suffer()
    both.until_state(MoveState.RELEASED, MoveState.ENDED)
    if state is MoveState.RELEASED:
        suffer()
    try:
        end_move(payer, "alpha", "main")
    except Refused:
        assert both.state() is MoveState.ENDED
    if state is MoveState.RETURNING:
        suffer()
    both.until_state(MoveState.ENDED)
    both.until_state(MoveState.ENDED, is_given=False)


def check(both: Participants) -> None:
    """All that is final is what has landed, once; one owner for each bucket (S12, S15)."""
    counted = Counter(
        (parse_time_us("", row["window_start"]), row["orig_h"], row["n"])
        for row in rows(both.payer, "counted")
    )
    assert set(counted.values()) == {1}
    found = {(start_us, host): n for start_us, host, n in counted}
    last_us = max(start_us for start_us, _ in found)
    expected = Counter(
        (int(row["ts_us"]) // WINDOW_US * WINDOW_US, row["orig_h"])
        for row in rows(both.payer, "connections")
    )
    assert found == {key: n for key, n in expected.items() if key[0] <= last_us}
    assert not both.payer.sql(
        "SELECT FROM medusa.segment AS s JOIN medusa.stream_producer AS p USING (line_id)"
        " WHERE p.stream = 'counted' AND p.participant = 'alpha' AND s.stability <> 'stable'"
    )
    log = both.payer.sql("SELECT epoch FROM medusa.fragment_owner ORDER BY epoch")
    assert [epoch for (epoch,) in log] == list(range(1, len(log) + 1))
