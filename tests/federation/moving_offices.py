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
from pipelines.platform.drills.link_faults import NOTHING, Lost, write_faults
from tests.federation.counting_pair import agree, counting_pair
from tests.federation.test_definitions_of_partners import running
from tests.federation.test_moves_by_contract import (
    CONTRACT,
    IN_FORCE,
    WINDOW_US,
    check_bills,
    contract,
    rows,
    steps_of,
)
from tests.partners.offices import Office
from tests.waiting import until

SECONDS_MAX = 300
LASTS_S = 4.0
STATE = """SELECT state FROM medusa_market.move WHERE is_given = :is_given
    ORDER BY number DESC LIMIT 1"""
REASONS = "SELECT number, state, reason FROM medusa_market.move ORDER BY number DESC LIMIT 1"


@dataclass
class Participants:
    """Who pays, who provides, and who lands what the fragment reads; what was killed is started
    again."""

    payer: Office
    provider: Office
    folder: Path
    origins: tuple[Office, ...] = ()
    fragment: str = "counts/main"
    runs: dict[str, ExitStack] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def offices(self) -> tuple[Office, ...]:
        """All of them."""
        return (self.payer, self.provider, *self.origins)

    @property
    def steps(self) -> list[str]:
        """What the payer did for the fragment."""
        return steps_of(self.payer, self.fragment)

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
        def is_there() -> bool:
            state = self.state(is_given=is_given)
            has_ended = is_given and state is MoveState.ENDED and state not in states
            assert not has_ended, self.payer.sql(REASONS)
            return state in states

        until(is_there, f"it is one of {states}", SECONDS_MAX)

    def suffer(self, fault: str) -> None:
        """The fault happens and is over. Payer, provider, or an origin by its name."""
        words = fault.split()
        office = next((one for one in self.origins if one.participant in words), self.provider)
        office = self.payer if "payer" in words else office
        process = self.processes[office.participant]
        match words[0]:
            case "kill":
                process.kill()
                process.wait(SECONDS_MAX)
                self.runs[office.participant].close()
                self.start(office)
            case "freeze":
                process.send_signal(signal.SIGSTOP)
                try:
                    self._wait()
                finally:
                    # One that is left stopped would never end.
                    process.send_signal(signal.SIGCONT)
            case _:
                lost = self._lost_rows(office, only_sent=words[-1] == "sends")
                for each in self.offices:
                    write_faults(each.settings.directory, NOTHING.with_lost(*lost))
                self._wait()
                for each in self.offices:
                    write_faults(each.settings.directory, NOTHING)

    def _lost_rows(self, office: Office, *, only_sent: bool) -> list[Lost]:
        """What is lost where an office is cut off from the parties of the move."""
        others = [one for one in (self.payer, self.provider) if one != office]
        ends = [(office.participant, other.participant) for other in others]
        back = [] if only_sent else [(receiver, sender) for sender, receiver in ends]
        return [Lost(*each) for each in (*ends, *back)]

    @staticmethod
    def _wait() -> None:
        ends_s = clock.monotonic_s() + LASTS_S
        until(lambda: clock.monotonic_s() >= ends_s, "the fault has lasted", SECONDS_MAX)


@contextmanager
def participants(
    server: EmbeddedServer, folder: Path, terms: str = CONTRACT
) -> Iterator[Participants]:
    """Both run, and the contract is in force."""
    with counting_pair(server, folder) as (alpha, beta):
        agree(alpha, beta, "load_of_alpha", contract(terms))
        with running_offices(Participants(alpha, beta, folder / "logs")) as both:
            yield both


@contextmanager
def running_offices(all_: Participants) -> Iterator[Participants]:
    """They run, their contract is in force, and the payer computes."""
    all_.folder.mkdir()
    try:
        for one in all_.offices:
            all_.start(one)
        parties = (all_.payer, all_.provider)
        wait_for("it is in force", lambda: all(one.sql(IN_FORCE) for one in parties))
        wait_for("the payer computes", lambda: len(all_.steps) > 2)
        yield all_
    finally:
        all_.close()


def wait_for(what: str, is_done: Callable[[], bool]) -> None:
    until(is_done, what, SECONDS_MAX)


def a_move(both: Participants, state: MoveState, suffer: Callable[[], None]) -> None:
    """The fragment moves, if it can, and comes back; the fault comes in this state."""
    settings, payer = both.payer.settings, both.payer.participant
    name = both.fragment.partition("/")[2]
    request = MoveRequest(participant=payer, fragment=name, to=both.provider.participant)
    begin_move(settings, request)
    if state in (MoveState.ACCEPTED, MoveState.STARTED):
        both.until_state(state, MoveState.RELEASED, MoveState.ENDED)
        suffer()
    both.until_state(MoveState.RELEASED, MoveState.ENDED)
    if state is MoveState.RELEASED:
        suffer()
    try:
        end_move(settings, payer, name)
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
    check_bills(both.payer, both.provider)
