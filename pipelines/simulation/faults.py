"""The faults of a schedule, drawn from its seed: which, to whom, when, for how long.

Each kind happens to what is really there: a crash and a freeze wait at a gap between two numbers of
a step, a repeated or late delivery waits for the next one of its sort. A fault that finds nothing
to happen to in time happens to somebody at once, or is drawn anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from medusa_core.commits import Lane
from medusa_core.errors import Conflict, MedusaError
from medusa_core.names import Epoch, NetworkName, Participant
from medusa_core.segments import Producer
from pipelines.catalog.interface import Assignment, Deployment
from pipelines.catalog.memory_store import Waiting
from pipelines.simulation.participants import LEASE_MS
from pipelines.simulation.processes import GAPS, Process, Trap
from pipelines.simulation.scenario import FIRST_EPOCH, landing_of

if TYPE_CHECKING:
    from pipelines.simulation.world import World

FREEZE_LEASES = (0.3, 2.5)
PAUSE_MS = (200, 5_500)
CUT_MS = (2_000, 7_000)
SLOW_MS = (2_000, 6_000)
SLOW_FACTORS = (4, 20)
DEPLOY_RETRY_MS = 300


class Faults:
    """Draws the faults of one schedule and lets them happen; counts those that did."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.happened: Counter[str] = Counter()
        self.gaps: Counter[tuple[str, str]] = Counter()
        self.healed_ms = 0
        self._epochs: dict[str, int] = {}
        chance = world.chance
        shape = world.scenario.shape
        kinds = [*chance.sample(shape.kinds, shape.kinds_min)]
        more = chance.randint(*shape.faults) - len(kinds)
        kinds += [chance.choice(shape.kinds) for _ in range(more)]
        chance.shuffle(kinds)
        self.last_ms = max(world.scenario.fed_ms + shape.beyond_ms, shape.first_ms + 1)
        for kind in kinds:
            at_ms = chance.randint(shape.first_ms, self.last_ms)
            world.after(at_ms, partial(self._strike, kind))

    @property
    def is_over(self) -> bool:
        """Whether no fault waits to happen any more."""
        return not self._world.orders and not self._world.traps

    def _strike(self, kind: str) -> None:
        strikes: dict[str, Callable[[], None]] = {
            "crash": lambda: self._set_trap(self._crash),
            "freeze": lambda: self._set_trap(self._freeze),
            "pause": self._pause,
            "slow": self._slow,
            "duplicate": self._duplicate,
            "reorder": lambda: self._order(kind, "late news", self._readers()),
            "lost reply": lambda: self._order(kind, "lost reply", self._all()),
            "cut": self._cut,
            "second": self._second,
            "epoch": self._epoch,
        }
        strikes[kind]()

    def _happens(self, kind: str, who: str, what: str = "", lasts_ms: int = 0) -> None:
        self.happened[kind] += 1
        self.healed_ms = max(self.healed_ms, self._world.now_ms + lasts_ms)
        why = f"for {lasts_ms} ms" if lasts_ms else ""
        self._world.emit(who, kind.upper(), what, why)

    def _all(self) -> list[Participant]:
        return list(self._world.scenario.participants)

    def _readers(self) -> list[Participant]:
        return [p for p in self._all() if self._world.imports[p]]

    def _feeders(self) -> list[Participant]:
        scenario = self._world.scenario
        return sorted({scenario.owners[landing_of(stream)] for stream in scenario.feeds})

    def _computing(self) -> list[Participant]:
        scenario = self._world.scenario
        return sorted({scenario.owners[name] for name in scenario.fragments})

    def _who_comes_to(self, gap: str) -> list[Participant]:
        """Those whose work leads over a gap; everybody where nobody's does."""
        work = {"land": self._feeders, "close": self._feeders, "step": self._computing,
                "import": self._readers}  # fmt: skip
        return work.get(gap.partition(".")[0], self._all)() or self._all()

    # a process dies or stands still

    def _set_trap(self, spring: Callable[[Process, str], None]) -> None:
        chance = self._world.chance
        gap = chance.choice(GAPS)
        trap = Trap(chance.choice(self._who_comes_to(gap)), gap, spring)
        self._world.traps.append(trap)
        self._world.after(self._world.scenario.shape.trap_ms, lambda: self._spring_anyway(trap))

    def _spring_anyway(self, trap: Trap) -> None:
        world = self._world
        if trap not in world.traps:
            return
        there = world.alive(trap.participant)
        if not there:
            world.after(world.scenario.shape.trap_ms, lambda: self._spring_anyway(trap))
            return
        world.traps.remove(trap)
        trap.spring(world.chance.choice(there), "other")

    def _crash(self, process: Process, gap: str) -> None:
        self.gaps["crash", gap] += 1
        self._happens("crash", process.name, f"at {gap}")
        self._world.homes[process.participant].between_reads.add("kill")
        self._world.end(process)

    def _freeze(self, process: Process, gap: str) -> None:
        world = self._world
        lasts_ms = int(LEASE_MS * world.chance.uniform(*FREEZE_LEASES))
        self.gaps["freeze", gap] += 1
        process.frozen_until_ms = world.now_ms + lasts_ms
        self._happens("freeze", process.name, f"at {gap}", lasts_ms)
        if world.chance.random() < 0.6:
            # Whoever supervises takes it for dead.
            world.after(
                world.chance.randint(100, lasts_ms),
                lambda: self._replace(process),
            )

    def _replace(self, process: Process) -> None:
        if process.frozen_until_ms > self._world.now_ms and process.is_alive:
            self._world.start(process.participant, process.lane)

    def _second(self) -> None:
        participant = self._world.chance.choice(self._all())
        process = self._world.start(participant, Lane.LIVE)
        self._happens("second", process.name)

    # a machine, a catalog, a link

    def _slow(self) -> None:
        world = self._world
        participant = world.chance.choice(self._all())
        lasts_ms = world.chance.randint(*SLOW_MS)
        world.slow[participant] = world.chance.randint(*SLOW_FACTORS)

        def recover() -> None:
            world.slow.pop(participant, None)

        world.after(lasts_ms, recover)
        self._happens("slow", participant, f"{world.slow[participant]} times", lasts_ms)

    def _pause(self) -> None:
        world = self._world
        home = world.homes[world.chance.choice(self._all())]
        lasts_ms = world.chance.randint(*PAUSE_MS)
        self._happens("pause", home.participant, "catalog", lasts_ms)
        world.pause(home)

        def back() -> None:
            home.is_paused = False
            world.emit(home.participant, "back", "catalog")

        world.after(lasts_ms, back)

    def _cut(self) -> None:
        world = self._world
        pairs = [
            pair
            for pair in combinations(self._all(), 2)
            if any(w.participant in pair for p in pair for w in world.imports[p].values())
        ]
        link = frozenset(world.chance.choice(pairs or list(combinations(self._all(), 2))))
        lasts_ms = world.chance.randint(*CUT_MS)
        world.cut.add(link)
        world.after(lasts_ms, lambda: world.cut.discard(link))
        self._happens("cut", " ".join(sorted(link)), "link", lasts_ms)

    # deliveries

    def _duplicate(self) -> None:
        order, among = self._world.chance.choice(
            (
                ("commit again", self._all()),
                ("batch again", self._feeders()),
                ("news again", self._readers()),
                ("ack again", self._readers()),
            )
        )
        self._order("duplicate", order, among)

    def _order(self, kind: str, order: str, among: list[Participant]) -> None:
        if not among:
            self._strike("crash")
            return
        world = self._world
        participant = world.chance.choice(among)
        key = (order, participant)
        world.orders[key] = lambda: self._happens(kind, participant, order)
        world.after(world.scenario.shape.trap_ms, lambda: self._draw_anew(key, kind, among))

    def _draw_anew(self, key: tuple[str, Participant], kind: str, among: list[Participant]) -> None:
        """Nobody has met the fault; behind the last batch hardly anybody will: then a crash."""
        if self._world.orders.pop(key, None) is None:
            return
        if self._world.now_ms < self._world.scenario.fed_ms:
            self._order(kind, key[0], among)
        else:
            self._strike("crash")

    # an assignment

    def _epoch(self) -> None:
        """A fragment is assigned anew to the same producer: the old epoch must not write again."""
        world = self._world
        scenario = world.scenario
        name = world.chance.choice(sorted(scenario.owners))
        epoch = Epoch(self._epochs.get(name, FIRST_EPOCH) + 1)
        self._epochs[name] = epoch
        line = Assignment(
            fragment=name,
            producer=Producer(scenario.owners[name]),
            epoch=epoch,
            plan=scenario.plan_id,
        )
        deployment = Deployment(
            network=NetworkName(scenario.network.name),
            document=scenario.plan_document,
            plan=scenario.plan_id,
            plan_document=scenario.plan_document,
            streams=(),
            fragments={},
            assignments=(line,),
        )
        self._happens("epoch", scenario.owners[name], f"{name} epoch {epoch}")
        for participant in scenario.participants:
            self._deploy(participant, deployment)

    def _deploy(self, participant: Participant, deployment: Deployment) -> None:
        """In every home, as soon as it answers and has the epoch before."""
        world = self._world
        try:
            world.homes[participant].reach().deploy(deployment)
        except (Waiting, Conflict, MedusaError):
            world.after(DEPLOY_RETRY_MS, lambda: self._deploy(participant, deployment))
