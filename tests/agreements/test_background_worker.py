"""Turns beside a participant's loop: made by themselves, and never waited for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from medusa_core.market.envelopes import Envelope
from medusa_core.names import Participant
from pipelines.exchange.exchange_port import Awaited
from pipelines.exchange.nonblocking import NonBlockingTransport
from pipelines.homes.signing_keys import key_path, make_key
from pipelines.market.rounds.round_assembly import market_worker
from pipelines.market.sync.background_worker import (
    AGAIN_S,
    REPORTED_AGAIN_S,
    WAITS_S,
    BackgroundWorker,
)
from pipelines.market.sync.contract_sync import ContractSync, SyncResult
from pipelines.operations.agreement_application import FolderTransport
from tests.agreements.building import INSERT, Party
from tests.waiting import until

WAITS_FOR_BETA = (
    "SELECT 1 FROM medusa_api.outbox WHERE receiver = 'beta' AND acknowledged_at IS NULL"
)


class Clock:
    """Passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


Making = Callable[[Party, list[Exception]], BackgroundWorker]


@pytest.fixture
def beside(clock: Clock) -> Iterator[Making]:
    """Turns of a party beside the test, which is the loop."""
    made: list[BackgroundWorker] = []

    def make(party: Party, told: list[Exception]) -> BackgroundWorker:
        heard: deque[Exception] = deque()
        contract_sync = ContractSync(
            party.agreements, lambda: party.key, party.post, heard.append, to_all=True
        )
        made.append(BackgroundWorker(contract_sync, heard, told.append, now_s=clock))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


def test_two_loops_agree_on_what_both_owners_edit(
    alpha: Party, beta: Party, beside: Making, clock: Clock
) -> None:
    told: list[Exception] = []
    worker = [beside(party, told) for party in (alpha, beta)]
    for party in (alpha, beta):
        party.sql(INSERT)

    def are_agreed() -> bool:
        clock.now_s += WAITS_S
        for one in worker:
            one.look()
        return alpha.shows()[0] == beta.shows()[0] == "agreed"

    until(are_agreed, "both have agreed")
    assert told == []


def test_an_unavailable_partner_is_reported_once_in_a_while(
    alpha: Party, beta: Party, beside: Making, clock: Clock
) -> None:
    told: list[Exception] = []
    worker = beside(alpha, told)
    alpha.post.cut.add(beta.name)
    alpha.sql(INSERT)

    def looks(times: int) -> None:
        for _ in range(times):
            clock.now_s += AGAIN_S
            worker.look()
            until(lambda: worker._tick is None or worker._tick.done(), "the tick has ended")
            worker.look()

    looks(4)
    assert [str(error) for error in told] == ["beta is cut off"]
    clock.now_s += REPORTED_AGAIN_S
    looks(2)
    assert len(told) == 2


@pytest.mark.long(quick=True)
def test_a_partner_that_never_answers_delays_no_tick(
    alpha: Party, beta: Party, gamma: Party
) -> None:
    class Silent:
        """A way on which beta's answer does not come before it is let go."""

        def __init__(self) -> None:
            self.let_go = Event()

        def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
            if partner == beta.name:
                self.let_go.wait()
            return alpha.post.deliver(partner, envelopes)

        def close(self) -> None:
            self.let_go.set()

    silent = Silent()
    post = NonBlockingTransport(silent, moment_s=0.01)
    contract_sync = ContractSync(alpha.agreements, lambda: alpha.key, post, alpha.told.append)
    alpha.sql(INSERT)
    alpha.sql(INSERT.replace("'beta'", "'gamma'").replace("'spare_load'", "'other'"))
    until(lambda: contract_sync.tick().waiting == 1, "gamma has its message")
    assert alpha.told
    assert {type(error) for error in alpha.told} == {Awaited}
    gamma.contract_sync.tick()
    assert gamma.shows("other")[0] == "requested"
    silent.let_go.set()

    def has_come() -> bool:
        contract_sync.tick()
        return beta.sql("SELECT count(*) FROM medusa_api.inbox") == [(1,)]

    until(has_come, "beta has its own")

    def has_heard() -> bool:
        contract_sync.tick()
        return alpha.sql(WAITS_FOR_BETA) == []

    until(has_heard, "alpha has heard that it has come")
    beta.contract_sync.tick()
    assert beta.shows()[0] == "requested"
    assert beta.sql("SELECT repeats FROM medusa_api.inbox") == [(0,)], "it was sent once"
    post.close()


def test_a_tick_that_never_ends_does_not_keep_a_program_from_ending(clock: Clock) -> None:
    begun, let_go = Event(), Event()

    class Hanging:
        def tick(self) -> SyncResult:
            begun.set()
            let_go.wait()
            return SyncResult()

    told: list[Exception] = []
    worker = BackgroundWorker(Hanging(), deque(), told.append, now_s=clock, closes_s=0.05)
    worker.look()
    assert begun.wait(30)
    worker.close()
    assert "has not ended within" in str(told.pop())
    let_go.set()


@pytest.mark.parametrize(
    ("error", "said"),
    [(KeyError(), "KeyError"), (ValueError("no\nnumber"), "ValueError: no number")],
)
def test_an_internal_error_is_reported_as_one_and_stops_no_ticks(
    clock: Clock, error: Exception, said: str
) -> None:
    class Faulty:
        ticks = 0

        def tick(self) -> SyncResult:
            self.ticks += 1
            raise error

    faulty, told = Faulty(), list[Exception]()
    worker = BackgroundWorker(faulty, deque(), told.append, now_s=clock)

    def is_made_again() -> bool:
        clock.now_s += AGAIN_S
        worker.look()
        return faulty.ticks > 1

    until(is_made_again, "the next tick is made")
    worker.close()
    assert str(told[0]) == f"a fault of Medusa's own in the contract synchronisation: {said}"
    assert told[0].__cause__ is error


@pytest.mark.long(quick=True)
def test_a_home_ticks_once_it_has_a_key_that_is_its_own(
    alpha: Party, beta: Party, tmp_path: Path
) -> None:
    told: list[Exception] = []

    def opened(party: Party) -> BackgroundWorker | None:
        transport = NonBlockingTransport(FolderTransport(party.name, party.exchanges.get))
        return market_worker(tmp_path, party.name, party.urls.job, transport, told.append)

    assert opened(alpha) is None, "it has none"
    for party in (alpha, beta):
        public_key = make_key(tmp_path, party.name).public_key.hex()
        for home in (alpha, beta):
            home.sql("SELECT medusa_api.replace_key(%s, %s)", party.name, public_key)
    path = key_path(tmp_path, alpha.name)
    path.chmod(0o644)
    assert opened(alpha) is None
    assert "may be read by others" in str(told.pop())
    path.chmod(0o600)
    worker = [found for found in map(opened, (alpha, beta)) if found is not None]
    for party in (alpha, beta):
        party.sql(INSERT)

    def are_agreed() -> bool:
        for one in worker:
            one.look()
        stand = {alpha.shows()[0], beta.shows()[0]}
        return len(worker) == 2 and stand <= {"agreed", "in force"}

    until(are_agreed, "both have agreed")
    for one in worker:
        one.close()
