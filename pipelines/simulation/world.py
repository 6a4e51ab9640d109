"""The world of one schedule: virtual time, homes, processes, what comes next.

Nothing here asks a clock or for chance: time is the time of the next event, chance comes from the
seed, and what happens at one time happens in the order in which it was asked for. So a seed gives
the same events, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from random import Random

from medusa_core.commits import Commit, Lane
from medusa_core.decide import Decision, explain
from medusa_core.errors import Conflict, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.knowledge import Knowledge
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer
from pipelines.catalog.memory_store import Waiting
from pipelines.simulation import drivers, feeding, housekeeping, importing, reading, waiting
from pipelines.simulation.calls import end_flight
from pipelines.simulation.evaluate import Evaluator
from pipelines.simulation.events import Event, Violation
from pipelines.simulation.homes import SimulatedHome, open_home
from pipelines.simulation.laws import Laws
from pipelines.simulation.processes import Ended, Process, Rest, Thread, Work
from pipelines.simulation.scenario import Scenario, deployment_for, landing_of

Tell = Callable[[Event], None]
COMPUTE_MS = (20, 300)
RESTART_MS = (200, 2_000)
AGAIN_MS = (20, 9_000)


class World:
    """Homes and processes of one schedule, and the queue of what comes next."""

    def __init__(self, scenario: Scenario, tell: Tell | None = None) -> None:
        self.scenario = scenario
        self.chance = Random(f"world {scenario.seed}")
        self.now_ms = 0
        self.homes = {p: open_home(p, scenario.clock_offsets_ms[p]) for p in scenario.participants}
        self.imports = {p: scenario.imports(p) for p in scenario.participants}
        self.laws = Laws(scenario, self.homes)
        self.evaluators = {name: Evaluator(f) for name, f in scenario.fragments.items()}
        self.late_news: dict[tuple[Participant, StreamName], list[LineNews]] = {}
        self.kinds: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.slow: dict[Participant, int] = {}
        self.cut: set[frozenset[Participant]] = set()
        self.traps: list[Trap] = []
        self.orders: dict[tuple[str, Participant], Callable[[], None]] = {}
        self._tell = tell
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._ties = count()
        self._numbers = count(1)
        for participant, home in self.homes.items():
            home.catalog.deploy(deployment_for(scenario, participant))
        housekeeping.hold_for_readers(self)
        for participant in scenario.participants:
            self.start(participant, Lane.LIVE)
            if participant in scenario.backlog:
                self.start(participant, Lane.BACKLOG)

    # time

    def run(self, until: Callable[[], bool]) -> None:
        """One event after another, the laws after each, until `until` or until nothing is left."""
        while self._queue and not until():
            at_ms, _, action = heappop(self._queue)
            if at_ms > self.now_ms:
                for home in self.homes.values():
                    home.clock.advance(at_ms - self.now_ms)
                self.now_ms = at_ms
            action()
            self.laws.check()

    def after(self, in_ms: int, action: Callable[[], None]) -> None:
        """Do something in so many milliseconds."""
        heappush(self._queue, (self.now_ms + in_ms, next(self._ties), action))

    def next_number(self) -> int:
        """A number that was never given before."""
        return next(self._numbers)

    def compute_ms(self) -> int:
        """How long a step's job takes."""
        return self.chance.randint(*COMPUTE_MS)

    # telling

    def emit(self, who: str, kind: str, what: str = "", why: str = "") -> None:
        """Something happened."""
        self.kinds[kind] += 1
        if self._tell is not None:
            self._tell(Event(self.now_ms, who, kind, what, why))

    def emit_decisions(self, who: str, decisions: Iterable[Decision]) -> None:
        """Something was decided; the words are those of `explain`."""
        self.kinds["decide"] += 1
        if self._tell is not None:
            for line in explain(decisions):
                what, _, why = line.partition(": ")
                if what == "wait":
                    of, _, why = why.partition(": ")
                    what = f"wait: {of}"
                self._tell(Event(self.now_ms, who, "decide", what, why))

    # reading and links

    def read(self, home: SimulatedHome) -> Knowledge:
        """What a participant knows now (1)."""
        return home.reach().read_knowledge(self.scenario.fragments, self.scenario.limits)

    def check_link(self, one: Participant, other: Participant) -> None:
        """Raises Unavailable while the link between two participants is cut."""
        if frozenset((one, other)) in self.cut:
            raise Unavailable(f"{other} does not answer: the link is cut")

    # processes

    def start(self, participant: Participant, lane: Lane, *, is_double: bool = False) -> Process:
        """Start a process and its threads."""
        mark = "b" if lane is Lane.BACKLOG else ""
        process = Process(
            participant=participant,
            name=f"{participant}.{mark}{self.next_number()}",
            lane=lane,
            is_double=is_double,
        )
        self.processes.append(process)
        self.emit(process.name, "start", lane.value)
        for listens_to, work in self._threads(process):
            thread = Thread(process, listens_to, work)
            process.threads.append(thread)
            self._wake(thread, 1)
        return process

    def _threads(self, process: Process) -> Iterator[tuple[Participant | None, Work]]:
        """Its threads, each with the participant whose home's news wake it from its sleep."""
        yield None, drivers.keep(self, process)
        if process.lane is Lane.BACKLOG:
            yield None, drivers.drive(self, process)
            return
        yield process.participant, drivers.drive(self, process)
        for stream in self.scenario.feeds:
            if self.scenario.owners[landing_of(stream)] == process.participant:
                yield None, feeding.feed(self, process, stream)
        for stream, writer in self.imports[process.participant].items():
            yield writer.participant, importing.bring_in(self, process, stream, writer)
        yield None, housekeeping.keep_house(self, process)
        read = self.scenario.readers.get(process.participant)
        if read is not None:
            producer = Producer(process.participant)
            yield None, reading.read_on(self, process, read, producer)

    def alive(self, participant: Participant) -> list[Process]:
        """The processes of a participant that have not ended, frozen ones too."""
        return [p for p in self.processes if p.participant == participant and p.is_alive]

    def another_runs(self, process: Process) -> bool:
        """Whether another process of the lane is there and not frozen."""
        return any(
            p is not process and p.lane is process.lane and p.frozen_until_ms <= self.now_ms
            for p in self.alive(process.participant)
        )

    def end(self, process: Process) -> None:
        """A process is gone with its threads; whoever supervises starts another one in time."""
        process.is_alive = False
        self.processes.remove(process)
        for thread in process.threads:
            thread.work.close()
        self.after(self.chance.randint(*RESTART_MS), lambda: self._restart(process))

    def _restart(self, ended: Process) -> None:
        others = [p for p in self.alive(ended.participant) if p.lane is ended.lane]
        if not others:
            self.start(ended.participant, ended.lane)

    def _wake(self, thread: Thread, in_ms: int) -> None:
        thread.ticket += 1
        ticket = thread.ticket
        self.after(in_ms, lambda: self._resume(thread, ticket))

    def _resume(self, thread: Thread, ticket: int) -> None:
        process = thread.process
        if thread.ticket != ticket or not process.is_alive or thread.has_ended:
            return
        if process.frozen_until_ms > self.now_ms:
            self._wake(thread, process.frozen_until_ms - self.now_ms)
            return
        try:
            rest = next(thread.work)
        except StopIteration:
            thread.has_ended = True
            return
        except Ended as ended:
            self.emit(process.name, "ended", why=str(ended))
            self.end(process)
            return
        thread.rest = rest
        self._rest(thread, rest)
        if rest.gap is not None and self.traps:
            self._spring(process, rest.gap)

    def _rest(self, thread: Thread, rest: Rest) -> None:
        if rest.sleeps:
            self._wake(thread, waiting.sleep_ms(thread, rest.ms))
        else:
            factor = 1 if rest.is_timer else self.slow.get(thread.process.participant, 1)
            self._wake(thread, rest.ms * factor)

    def ring(self, home: SimulatedHome) -> None:
        """NOTIFY: a home has changed; who sleeps wakes up, who works will look again."""
        for process in self.processes:
            for thread in process.threads:
                if thread.listens_to == home.participant and waiting.heard(thread):
                    self._wake(thread, waiting.BELL_MS)

    # faults as the processes meet them

    def _spring(self, process: Process, gap: str) -> None:
        for trap in self.traps:
            if trap.gap == gap and trap.participant == process.participant:
                self.traps.remove(trap)
                trap.spring(process, gap)
                return

    def takes_order(self, order: str, participant: Participant) -> bool:
        """Whether a fault waits for exactly this; it then has happened."""
        done = self.orders.pop((order, participant), None)
        if done is not None:
            done()
        return done is not None

    def send_again(self, home: SimulatedHome, commit: Commit) -> None:
        """A commit is delivered a second time, later; it must find the first one."""

        def deliver() -> None:
            try:
                answer = home.reach().commit(commit)
            except (Waiting, Unavailable):
                self.after(50, deliver)
                return
            except Conflict as error:
                raise Violation("VERSION", f"a commit sent again was not found: {error}") from error
            if not answer.again:
                raise Violation("S12", f"a commit of {commit.lease.key} was made a second time")
            self.emit(home.participant, "again", str(commit.lease.key), "the same answer")

        self.after(self.chance.randint(*AGAIN_MS), deliver)

    def pause(self, home: SimulatedHome) -> None:
        """The catalog's server is killed: what was open is rolled back, nobody is answered."""
        home.is_paused = True
        for flight in list(home.flights):
            flight.is_answered = False
            end_flight(self, home, flight, keep=False)


class Trap:
    """A fault that waits at a gap for the next process of a participant that comes there."""

    def __init__(
        self, participant: Participant, gap: str, spring: Callable[[Process, str], None]
    ) -> None:
        self.participant = participant
        self.gap = gap
        self.spring = spring
