"""The world of one schedule: virtual time, homes, processes, the next event.

Nothing here reads a clock or a random generator of the system: time is the time of the next
event, chance comes from the seed, and events of one time happen in the order of their requests.
So a seed gives the same events, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random

from medusa_core.commits import Commit, Lane
from medusa_core.decide import Decision, explain
from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.names import Participant, StreamName
from medusa_core.recalls import RecallResult
from medusa_core.revisions import RevisionRequest
from pipelines.catalog.memory.store import Waiting
from pipelines.simulation.faults import (
    simulated_moves,
    simulated_reader,
    simulated_revisions,
    simulated_trimming,
)
from pipelines.simulation.faults import simulated_participants as participants
from pipelines.simulation.faults.bound_laws import DISTURBED_MS
from pipelines.simulation.faults.choice_laws import ChoiceLaws
from pipelines.simulation.faults.clients import end_flight
from pipelines.simulation.faults.diverging import diverging_in
from pipelines.simulation.faults.evaluate import Evaluator
from pipelines.simulation.faults.events import Event, Violation
from pipelines.simulation.faults.fibers import Fiber
from pipelines.simulation.faults.revision_laws import RevisionLaws
from pipelines.simulation.faults.scenario import Scenario, deployment_for
from pipelines.simulation.faults.simulated_homes import HomeClock, SimulatedHome, open_home
from pipelines.simulation.faults.simulated_links import Links
from pipelines.simulation.faults.simulated_listener import NOTIFICATION_MS
from pipelines.simulation.faults.simulated_processes import Ended, Process, Rest, Thread, Trap
from pipelines.simulation.faults.stream_laws import Laws
from pipelines.simulation.faults.wrong_provider import WrongProvider

Observe = Callable[[Event], None]
COMPUTE_MS = (20, 300)
RESTART_MS = (200, 2_000)
AGAIN_MS = (20, 9_000)
NOTHING = "nothing"
"""What has come between two reads if neither a trim nor a kill has."""


class World:
    """Homes and processes of one schedule, and the queue of what comes next."""

    def __init__(self, scenario: Scenario, observe: Observe | None = None) -> None:
        self.scenario = scenario
        self.chance = Random(f"world {scenario.seed}")
        self.now_ms = 0
        self.homes = {
            p: open_home(p, HomeClock(scenario.clock_offsets_ms[p], lambda: self.now_ms))
            for p in scenario.participants
        }
        self.imports = {p: scenario.imports(p) for p in scenario.participants}
        self.diverging = diverging_in(scenario)
        self.wrong_provider = WrongProvider(scenario)
        self.evaluators = {name: Evaluator(f) for name, f in scenario.fragments.items()}
        self.reads: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.slow: dict[Participant, int] = {}
        self.capacity: dict[Participant, float] = {}
        self.links = Links()
        spoilt_us = self.diverging.from_us if self.diverging else self.wrong_provider.adopted_us
        self.choices = ChoiceLaws(scenario, self.homes, spoilt_us, self.is_disturbed,
                                  self.calm_ms)  # fmt: skip
        self.laws = Laws(scenario, self.homes, self.is_disturbed, self.choices,
                         self.wrong_provider)  # fmt: skip
        # Who is dead for a while or for good, and whose catalog is away as long.
        self.gone: set[Participant] = set()
        self.gone_for_good: set[Participant] = set()
        self.is_trimmed = True
        self.dark: set[Participant] = set()
        self.traps: list[Trap] = []
        self.orders: dict[tuple[str, Participant], Callable[[], None]] = {}
        # The commands of operators that are not done, what operators have agreed to, and the moves
        # that operators have yet to begin or to end.
        self.commands = {command.number for command in scenario.revisions.commands}
        self.agreed: dict[tuple[Participant, StreamName], int] = {}
        self.is_operated_late = True
        self.moving: set[int] = set()
        # Everybody begins at the same time, and some late.
        self._disturbed_ms = {
            p: DISTURBED_MS + scenario.starts_ms[p] for p in scenario.participants
        }
        self._running: Thread | None = None
        self._until: Callable[[], bool] = lambda: False
        self._is_over = False
        self._observe = observe
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._ties = count()
        self._numbers = count(1)
        for participant, home in self.homes.items():
            if participant in scenario.moves.providers:
                continue
            home.catalog.deploy(deployment_for(scenario, participant))
            for stream in scenario.widths_us:
                home.catalog.declare_bound(stream, scenario.bound, 0)
            for stream, qos in scenario.qos.items():
                if any(w.participant == participant for w in scenario.writers()[stream]):
                    home.catalog.declare_qos(stream, qos)
            for stream, verify in scenario.replicas.verify.items():
                home.catalog.declare_verify(stream, verify)
            for stream in self.imports[participant] if scenario.revisions.occur else ():
                follows = (participant, stream) in scenario.revisions.follows
                home.catalog.declare_following(stream, follows)
        simulated_trimming.hold_for_readers(self)
        simulated_revisions.begin(self)
        simulated_moves.declare(self)
        for participant, in_ms in scenario.starts_ms.items():
            for lane in self.lanes_of(participant):
                self.after(in_ms, partial(self._begin, participant, lane))

    @property
    def revisions(self) -> RevisionLaws | None:
        """The laws over revisions, in a schedule that has some."""
        return self.laws.revisions if self.scenario.revisions.occur else None

    # time

    def run(self, until: Callable[[], bool]) -> None:
        """One event after another, the laws after each, until `until` or until nothing is left."""
        self._until, self._is_over = until, False
        while self._queue and not (self._is_over or until()):
            at_ms, _, action = heappop(self._queue)
            self.now_ms = at_ms
            action()
            self.laws.check()

    def after(self, in_ms: int, action: Callable[[], object]) -> None:
        """Do something in so many milliseconds."""
        heappush(self._queue, (self.now_ms + in_ms, next(self._ties), action))

    def later(self, action: Callable[[], None]) -> None:
        """Do something when it may well be too late."""
        self.after(self.chance.randint(*AGAIN_MS), action)

    def close(self) -> None:
        """End all fibers; nothing happens any more."""
        for process in self.processes:
            for thread in process.threads:
                thread.fiber.kill()

    # fibers

    @property
    def running(self) -> Thread:
        """The fiber that runs now."""
        assert self._running is not None, "only a fiber rests"
        return self._running

    def rest(
        self, ms: int, *, gap: str | None = None, sleeps: bool = False, is_timer: bool = False
    ) -> None:
        """Let the running fiber rest: see `Rest`."""
        rest = Rest(ms, gap, sleeps, is_timer)
        if not self._passes(rest):
            self.running.fiber.rest(rest)

    def _passes(self, rest: Rest) -> bool:
        """Whether nothing happens during a rest: then it is over, and the fiber runs on.

        What `run` does between two events is done here: switching fibers takes longer.
        """
        thread = self.running
        ends_ms = self.now_ms + self._lasts_ms(thread, rest)
        is_next = not self._queue or ends_ms < self._queue[0][0]
        is_met = rest.gap is not None and self.traps
        is_held = not thread.process.is_alive or thread.process.frozen_until_ms > ends_ms
        if not is_next or is_met or is_held:
            return False
        self.laws.check()
        self._is_over = self._until()
        if not self._is_over:
            thread.rest, self.now_ms = rest, ends_ms
        return not self._is_over

    def _lasts_ms(self, thread: Thread, rest: Rest) -> int:
        """How long a rest lasts: work takes longer on a slow machine."""
        is_busy = not (rest.is_timer or rest.sleeps)
        return rest.ms * (self.slow.get(thread.process.participant, 1) if is_busy else 1)

    def pass_point(self, point: str) -> None:
        """A fiber has come to a failpoint: it rests there only if a fault waits for it."""
        if self._running is not None:
            participant = self._running.process.participant
            if any((t.gap, t.participant) == (point, participant) for t in self.traps):
                self.rest(0, gap=point)

    def next_number(self) -> int:
        """A number that was never given before."""
        return next(self._numbers)

    def compute_ms(self) -> int:
        """How long a step's job takes."""
        return self.chance.randint(*COMPUTE_MS)

    def disturb(self, participants: Iterable[Participant], lasts_ms: int) -> None:
        """Something is wrong with participants for a time: nobody is held to a bound meanwhile."""
        for participant in participants:
            ends_ms = self.now_ms + lasts_ms + DISTURBED_MS
            self._disturbed_ms[participant] = max(self._disturbed_ms[participant], ends_ms)

    def is_disturbed(self, participant: Participant) -> bool:
        """Whether something was wrong with a participant lately."""
        return self.now_ms < self._disturbed_ms[participant]

    def calm_ms(self, one: Participant, other: Participant) -> int:
        """For how long nothing has been wrong between two participants."""
        return self.now_ms - self.links.calm_since_ms(one, other)

    # telling

    def emit(self, who: str, kind: str, what: str = "", why: str = "") -> None:
        """Something happened."""
        self.kinds[kind] += 1
        if self._observe is not None:
            self._observe(Event(self.now_ms, who, kind, what, why))

    def emit_decision(self, who: str, decision: Decision) -> None:
        """Something was decided; the words are those of `explain`."""
        self.kinds["decide"] += 1
        if self._observe is not None:
            for line in explain([decision]):
                what, _, why = line.partition(": ")
                if what == "wait":
                    of, _, why = why.partition(": ")
                    what = f"wait: {of}"
                self._observe(Event(self.now_ms, who, "decide", what, why))

    def count_read(self, home: SimulatedHome) -> None:
        """A reader got what the oracle says: after which of trims and kills, since it last did."""
        self.reads[" and ".join(sorted(home.between_reads)) or NOTHING] += 1
        before = home.since_first_read
        home.since_first_read = set() if before is None else before | home.between_reads
        home.between_reads = set()

    # links

    def check_link(self, sender: Participant, receiver: Participant) -> None:
        """Raises Unavailable while what one sends does not reach the other."""
        if self.links.is_lost(sender, receiver, self.now_ms):
            raise Unavailable(f"what {sender} sends does not reach {receiver}: the link is cut")

    # processes

    def start(self, participant: Participant, lane: Lane) -> Process:
        """Start a process and its fibers."""
        mark = "b" if lane is Lane.BACKLOG else ""
        process = Process(
            participant=participant,
            name=f"{participant}.{mark}{self.next_number()}",
            lane=lane,
        )
        self._start(process, lane.value, self._fibers(process))
        return process

    def start_command(
        self, participant: Participant, what: str, function: Callable[[Process], None]
    ) -> None:
        """Run a command in a process of its own; an operator runs it again after a kill."""
        process = Process(
            participant=participant, name=f"{participant}.c{self.next_number()}", lane=Lane.LIVE
        )
        process.runs_again = lambda: self.start_command(participant, what, function)
        self._start(process, what, [partial(function, process)])

    def _start(self, process: Process, what: str, functions: Iterable[Callable[[], None]]) -> None:
        self.processes.append(process)
        self.emit(process.name, "start", what)
        for function in functions:
            thread = Thread(process, Fiber(function))
            process.threads.append(thread)
            self._wake(thread, 1)

    def _begin(self, participant: Participant, lane: Lane) -> None:
        """Start a process, unless its participant is gone."""
        if participant not in self.gone:
            self.start(participant, lane)

    def lanes_of(self, participant: Participant) -> tuple[Lane, ...]:
        """The lanes in which a participant has a process."""
        has_backlog = participant in self.scenario.backlog
        return (Lane.LIVE, Lane.BACKLOG) if has_backlog else (Lane.LIVE,)

    def there(self) -> list[Participant]:
        """Those who are not gone."""
        return [p for p in self.scenario.participants if p not in self.gone]

    def leave(self, participant: Participant, *, is_dark: bool) -> None:
        """A participant is dead: nobody starts its processes again, and perhaps its catalog."""
        self.gone.add(participant)
        if is_dark:
            self.dark.add(participant)
            self.pause(self.homes[participant])
        for process in self.alive(participant):
            self.end(process)

    def come_back(self, participant: Participant) -> None:
        """A participant that was dead is there again."""
        self.gone.discard(participant)
        if participant in self.dark:
            self.dark.discard(participant)
            self.homes[participant].is_paused = False
        self.emit(participant, "back", "all of it")
        for lane in self.lanes_of(participant):
            self._begin_again(participant, lane)

    def _fibers(self, process: Process) -> Iterator[Callable[[], None]]:
        yield partial(participants.keep, self, process)
        yield partial(participants.run, self, process)
        if process.lane is Lane.BACKLOG:
            return
        yield partial(simulated_trimming.keep_house, self, process)
        if self.scenario.moves.partners(process.participant):
            yield partial(simulated_moves.carry, self, process)
        read = self.scenario.readers.get(process.participant)
        if read is not None:
            line = self.scenario.line_read(process.participant, read)
            yield partial(simulated_reader.read_on, self, process, read, line)

    def alive(self, participant: Participant) -> list[Process]:
        """The processes of a participant that have not ended, frozen ones too."""
        return [p for p in self.processes if p.participant == participant and p.is_alive]

    def end(self, process: Process, back_in_ms: int | None = None) -> None:
        """A process is gone with its fibers; whoever supervises starts another one in time."""
        process.is_alive = False
        self.processes.remove(process)
        for thread in process.threads:
            thread.fiber.kill()
        for home in self.homes.values():
            home.listeners = [x for x in home.listeners if x.thread.process is not process]
        if back_in_ms is None:
            back_in_ms = self.chance.randint(*RESTART_MS)
        self.after(back_in_ms, lambda: self._restart(process))

    def _restart(self, ended: Process) -> None:
        if ended.runs_again is not None:
            ended.runs_again()
        else:
            self._begin_again(ended.participant, ended.lane)

    def _begin_again(self, participant: Participant, lane: Lane) -> None:
        alive = [p for p in self.alive(participant) if p.runs_again is None]
        if not any(p.lane is lane for p in alive):
            self._begin(participant, lane)

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
        self._running = thread
        try:
            rest = thread.fiber.go()
        except Ended as ended:
            self.emit(process.name, "ended", why=str(ended))
            self.end(process)
            return
        finally:
            self._running = None
        if rest is None:
            thread.has_ended = True
            if process.runs_again is not None:
                process.is_alive = False
                self.processes.remove(process)
            return
        thread.rest = rest
        self._wake(thread, self._lasts_ms(thread, rest))
        if rest.gap is not None and self.traps:
            self._spring(process, rest.gap)

    def ring(self, home: SimulatedHome) -> None:
        """NOTIFY: a home has changed; who sleeps wakes up, who works will look again."""
        for line in home.listeners:
            listener = line.thread.process.participant
            if self.links.carries_notification(home.participant, listener, self.now_ms):
                line.say()
                self._wake_sleeping(line.thread)

    def _wake_sleeping(self, thread: Thread) -> None:
        if thread.rest.sleeps:
            thread.rest = Rest(0)
            self._wake(thread, NOTIFICATION_MS)

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

        self.later(deliver)

    def revise_again(
        self, home: SimulatedHome, request: RevisionRequest, made: RecallResult
    ) -> None:
        """A revision is delivered a second time, later; it must find the first one."""

        def deliver() -> None:
            try:
                answer = home.reach().revise(request)
            except (Waiting, Unavailable):
                self.after(50, deliver)
                return
            except (Conflict, Refused) as error:
                raise Violation("S13", f"a revision sent again was not found: {error}") from error
            if answer != made:
                raise Violation("S13", f"a revision of {request.stream} was made a second time")
            self.emit(home.participant, "again", request.stream, "the same revision")

        self.later(deliver)

    def pause(self, home: SimulatedHome) -> None:
        """The catalog's server is killed: what was open is rolled back, nobody is answered."""
        home.is_paused = True
        home.between_reads.add("kill")
        for line in home.listeners:
            line.is_dead = True
            self._wake_sleeping(line.thread)
        for flight in list(home.flights):
            flight.is_answered = False
            end_flight(self, home, flight, keep=False)
