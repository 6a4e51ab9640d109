"""Calls to a catalog as a client sees them: they take time, wait for locks, and can lose the reply.

A call that writes is a transaction that stays open for a while: other participants' calls come
between its statement and its end. The end is the server's: a client that dies or freezes meanwhile
holds no lock. What is short and alone is one event.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeVar

from medusa_core.commits import Commit, Committed, Lease
from medusa_core.errors import MedusaError, OutcomeUnknown
from pipelines.catalog.memory import MemoryCatalog
from pipelines.catalog.memory_store import Waiting
from pipelines.driver import COMMIT_TRIES
from pipelines.simulation.homes import Flight, SimulatedHome
from pipelines.simulation.processes import Process, Rest

if TYPE_CHECKING:
    from pipelines.simulation.world import World

T = TypeVar("T")
LOCK_WAIT_MS = 3
SERVER_MS = (2, 30)
REPLY_MS = 2


def write(
    world: World,
    process: Process,
    home: SimulatedHome,
    lease: Lease,
    call: Callable[[MemoryCatalog], T],
) -> Generator[Rest, None, T]:
    """A call under a lease, in a transaction of its own; after it, S8 is looked at."""

    def looked_at(catalog: MemoryCatalog) -> T:
        is_allowed = world.laws.may_write(home, lease)
        answer = call(catalog)
        world.laws.after_write(home, lease, answer, is_allowed)
        return answer

    return (yield from transaction(world, process, home, looked_at))


def transaction(
    world: World,
    process: Process,
    home: SimulatedHome,
    call: Callable[[MemoryCatalog], T],
    *,
    notifies: bool = True,
) -> Generator[Rest, None, T]:
    """A writing call in a transaction of its own that is open for some milliseconds.

    Raises what the call raises, Unavailable before it, OutcomeUnknown if its end is not known.
    """
    while True:
        session = home.session()
        session.begin()
        try:
            answer = call(session.catalog)
        except Waiting:
            session.end(keep=False)
            yield Rest(LOCK_WAIT_MS)
            continue
        except MedusaError:
            session.end(keep=False)
            raise
        break
    flight = Flight(session, notifies)
    home.flights.append(flight)
    server_ms = world.chance.randint(*SERVER_MS)
    world.after(server_ms, lambda: land_flight(world, process, home, flight))
    yield Rest(server_ms + REPLY_MS, gap="in 5")
    while flight.is_kept is None:
        yield Rest(REPLY_MS)
    if not flight.is_answered:
        raise OutcomeUnknown(f"the connection to the catalog of {home.participant} broke")
    return answer


def land_flight(world: World, process: Process, home: SimulatedHome, flight: Flight) -> None:
    """The server ends a transaction: COMMIT, unless its client broke off and it came to know."""
    if flight.is_kept is not None:
        return
    keep = True
    if not process.is_alive:
        keep = world.chance.random() < 0.5
    elif world.takes_order("lost reply", home.participant):
        keep, flight.is_answered = world.chance.random() < 0.7, False
        world.emit(process.name, "reply lost", "committed" if keep else "rolled back")
    end_flight(world, home, flight, keep=keep)


def end_flight(world: World, home: SimulatedHome, flight: Flight, *, keep: bool) -> None:
    """End a transaction and, if it was kept, tell those who listen."""
    flight.is_kept = keep
    flight.session.end(keep=keep)
    home.flights.remove(flight)
    if keep and flight.notifies:
        world.ring(home)


def commit_until_known(
    world: World, process: Process, home: SimulatedHome, commit: Commit
) -> Generator[Rest, None, Committed]:
    """Commit (5) as `pipelines.driver.commit_until_known` does: the same again after a lost reply.

    Raises OutcomeUnknown if the catalog stays away, Conflict if the lease was lost.
    """
    for _ in range(COMMIT_TRIES - 1):
        try:
            return (
                yield from write(world, process, home, commit.lease, lambda c: c.commit(commit))
            )
        except OutcomeUnknown:
            yield Rest(REPLY_MS)
    return (yield from write(world, process, home, commit.lease, lambda c: c.commit(commit)))


def short(call: Callable[[], T]) -> Generator[Rest, None, T]:
    """A call that is one event, made again while it would wait for a lock."""
    while True:
        try:
            return call()
        except Waiting:
            yield Rest(LOCK_WAIT_MS)
