"""A home's catalog as a client sees it: calls take time, wait for locks, and can lose the reply.

A call that writes is a transaction that stays open for a while: other participants' calls happen
between its statement and its end. The server ends it: a client that dies or freezes meanwhile
holds no lock. A short call is one event. Around every write under a lease, S8 is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from medusa_core.commits import Commit, CommitResult, LandedBatch, Lease
from medusa_core.errors import Diverged, MedusaError, OutcomeUnknown, Refused
from medusa_core.exchange import LineNews
from medusa_core.fragments import Fragment
from medusa_core.imports import ChosenRows, ImportKnowledge, commits_of
from medusa_core.knowledge import Knowledge, Limits
from medusa_core.line_revisions import NO_REACH, RevisionReach
from medusa_core.names import PlanId, StreamName
from medusa_core.recalls import RecallResult
from medusa_core.revisions import RevisionRequest
from medusa_core.segments import Producer
from medusa_core.trims import TrimResult
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import Transaction, Waiting
from pipelines.catalog.memory.tables import LineRow
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.move_laws import OwnerLog, owners_in
from pipelines.simulation.faults.simulated_homes import Flight, LineKey, SimulatedHome
from pipelines.simulation.faults.simulated_processes import OPEN, READ, Process

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

T = TypeVar("T")
LOCK_WAIT_MS = 3
SERVER_MS = (2, 30)
READ_MS, REPLY_MS = 4, 2


class CatalogClient(MemoryCatalog):
    """The catalog of a process's own home; what is not written out below is a short call.

    `knowledge` is what was last read through it, `seen` what was committed then, `owners` the log
    of owners.
    """

    def __init__(self, world: World, process: Process) -> None:
        home = world.homes[process.participant]
        super().__init__(process.participant, home.clock, home.store)
        self._world = world
        self._process = process
        self._home = home
        self.seen: Mapping[LineKey, LineRow] = {}
        self.knowledge: Knowledge | None = None
        self.owners: OwnerLog = {}

    def run(self, call: Callable[[Transaction], T]) -> T:
        """A call that is one event; Unavailable while the home does not answer."""
        return short(self._world, lambda: self._home.reach().run(call))

    def read_knowledge(self, fragments: Mapping[str, Fragment], limits: Limits) -> Knowledge:
        """See `Deployments.read_knowledge` (1)."""
        limits = replace(limits, capacity=self._world.capacity.get(self.participant, 1.0))
        knowledge = short(self._world, lambda: self._home.reach().read_knowledge(fragments, limits))
        self.knowledge, self.seen = knowledge, self._home.lines()
        self.owners = owners_in(self._home)
        self._world.emit(self._process.name, "read")
        self._world.rest(READ_MS, gap=READ)
        return knowledge

    def commit(self, commit: Commit) -> CommitResult:
        """See `Steps.commit` (5); S5 is looked at before it."""
        world, process = self._world, self._process
        world.laws.check_lineage(process.participant, commit, self.seen)
        if world.scenario.moves.occur:
            world.laws.moves.check_commit(self._home, commit, self.seen, self.owners)
        committed = self._write(commit.lease, lambda c: c.commit(commit))
        what = ", ".join(f"{s.stream} {s.range}" for s in commit.segments)
        world.emit(process.name, "commit", what, f"v{max(committed.versions.values())}")
        if world.takes_order("commit again", process.participant):
            world.send_again(self._home, commit)
        return committed

    def read_imports(self, limits: Limits) -> tuple[ImportKnowledge, ...]:
        """See `Imports.read_imports`."""
        found = short(self._world, lambda: self._home.reach().read_imports(limits))
        self.seen = self._home.lines()
        self._world.rest(READ_MS, gap=READ)
        return found

    def commit_choice(self, lease: Lease, chosen: ChosenRows) -> CommitResult | None:
        """See `Imports.commit_choice`; S5 is looked at before it, and what was passed by."""
        world, process = self._world, self._process
        for commit in commits_of(lease, chosen):
            world.laws.check_lineage(process.participant, commit, self.seen)
        world.choices.check_seen(self._home, chosen, self.seen)
        committed = self._write(lease, lambda c: c.commit_choice(lease, chosen))
        what = ", ".join(f"{c.stream} {c.range}" for c in chosen.rows)
        world.emit(process.name, "choice", what or chosen.stream)
        return committed

    def land(self, lease: Lease, batch: LandedBatch) -> bool:
        """See `Landing.land`."""
        is_new = self._write(lease, lambda c: c.land(lease, batch))
        why = f"{sum(batch.counts.values())} records" if is_new else "landed before"
        self._world.emit(self._process.name, "land", f"{batch.stream} {batch.batch_id}", why)
        return is_new

    def promise(self, lease: Lease, stream: StreamName, *, origin_us: int, boundary_us: int,
                end_us: int | None) -> None:  # fmt: skip
        """See `Landing.promise`."""
        world, home = self._world, self._home

        def call() -> None:
            catalog = home.reach()
            is_allowed = world.laws.may_write(home, lease)
            catalog.promise(
                lease, stream, origin_us=origin_us, boundary_us=boundary_us, end_us=end_us
            )
            world.laws.after_write(home, lease, True, is_allowed)

        short(world, call)
        world.ring(home)
        world.emit(self._process.name, "promise", f"{stream} through {boundary_us}")
        world.rest(REPLY_MS)

    def import_line(self, lease: Lease, news: LineNews, plan: PlanId,
                    reach: RevisionReach = NO_REACH) -> bool:  # fmt: skip
        """See `Imports.import_line`."""
        try:
            is_new = self._write(lease, lambda c: c.import_line(lease, news, plan, reach))
        except (Refused, Diverged) as error:
            # The importer passes by what a partner tells wrongly; here nobody does.
            if news.replaced and f"--follow {news.producer.participant}" in str(error):
                raise  # an operator is to agree first
            raise Violation("REFUSED", str(error)) from error
        self._world.emit(
            self._process.name,
            "import",
            f"{news.stream} v{news.after} to v{news.version}",
            f"{len(news.segments)} segments" if is_new else "brought before",
        )
        return is_new

    def revise(self, request: RevisionRequest) -> RecallResult:
        """See `Recalls.revise`."""
        world, process, home = self._world, self._process, self._home
        made = transaction(world, process, home, lambda c: c.revise(request), notifies=True)
        world.emit(
            process.name,
            "revise",
            f"{request.stream} {', '.join(map(str, request.ranges))}",
            f"generation {made.generation}: {made.because}",
        )
        if world.takes_order("revision again", process.participant):
            world.revise_again(home, request, made)
        return made

    def trim(self, stream: StreamName, producer: Producer, before_us: int, *,
             needed: Mapping[str, int], segments_max: int,
             explain: bool = False) -> TrimResult:  # fmt: skip
        """See `Trims.trim`."""
        return transaction(
            self._world,
            self._process,
            self._home,
            lambda c: c.trim(
                stream,
                producer,
                before_us,
                needed=needed,
                segments_max=segments_max,
                explain=explain,
            ),
            notifies=False,
        )

    def _write(self, lease: Lease, call: Callable[[MemoryCatalog], T]) -> T:
        world, home = self._world, self._home

        def looked_at(catalog: MemoryCatalog) -> T:
            is_allowed = world.laws.may_write(home, lease)
            answer = call(catalog)
            world.laws.after_write(home, lease, answer, is_allowed)
            return answer

        return transaction(world, self._process, home, looked_at, notifies=True)


def short(world: World, call: Callable[[], T]) -> T:
    """A call that is one event, made again while it would wait for a lock."""
    while True:
        try:
            return call()
        except Waiting:
            world.rest(LOCK_WAIT_MS)


def transaction(
    world: World,
    process: Process,
    home: SimulatedHome,
    call: Callable[[MemoryCatalog], T],
    *,
    notifies: bool,
    gap: str = OPEN,
) -> T:
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
            world.rest(LOCK_WAIT_MS)
            continue
        except MedusaError:
            session.end(keep=False)
            raise
        break
    flight = Flight(session, notifies)
    home.flights.append(flight)
    server_ms = world.chance.randint(*SERVER_MS)
    world.after(server_ms, lambda: land_flight(world, process, home, flight))
    world.rest(server_ms + REPLY_MS, gap=gap)
    while flight.is_kept is None:
        world.rest(REPLY_MS)
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
