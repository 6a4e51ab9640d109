"""Workers in virtual time: the product's placements over a modelled engine.

A partition has a bucket of work every ten seconds; its worker computes what is there in the order
of time, at the speed of its machine. The decisions, the hash of keys, the dead band and the pauses
between two looks are the product's. So the figures are the same on every machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from medusa_core.partitions.placing import PlacedPartition, Worker, decide_placements
from medusa_core.partitions.shares import partition_of

BUCKET_S, TICK_S = 10.0, 0.1
LOOK_S, TAKE_S, LOADS_S, WINDOW_S, LEASE_S = 0.5, 0.1, 5.0, 30.0, 10.0
PARTITIONS, KEYS = 16, 1_000

Rates = Callable[[float], Mapping[int, float]]
"""The CPU seconds per second of each partition, at a time."""


def skewed(cores: float, exponent: float, first_key: int = 0) -> dict[int, float]:
    """The load of each partition if keys are as frequent as the law of Zipf says."""
    weights = [1 / (rank + 1) ** exponent for rank in range(KEYS)]
    total, found = sum(weights), dict.fromkeys(range(PARTITIONS), 0.0)
    for rank, weight in enumerate(weights):
        key = f"k{(rank + first_key) % KEYS}"
        found[partition_of([key], PARTITIONS)] += cores * weight / total
    return found


@dataclass
class _Machine:
    """A worker: its speed in CPU seconds per second, and the partition that it computes."""

    name: str
    speed: float = 1.0
    is_alive: bool = True
    step: tuple[int, float] | None = None
    left: float = 0.0
    busy_s: float = 0.0
    cpu_s: float = 0.0
    pace: float = 1.0


@dataclass
class _Part:
    """A partition: its buckets that are not computed, its CPU of late, and where it is."""

    number: int
    placed: str | None
    held: str | None
    placed_s: float = 0.0
    free_since_s: float | None = None
    waiting: deque[tuple[float, float]] = field(default_factory=deque)
    spent: deque[tuple[float, float]] = field(default_factory=deque)
    done_s: dict[float, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run gave; delays are from the end of a bucket to that of its last partition.

    `pauses_s` are the times in which a moved partition had no worker.
    """

    buckets: int
    computed: int
    delay_s_mean: float
    delay_s_max: float
    imbalance: float
    moves: int
    moves_late: int
    pauses_s: tuple[float, ...]
    other_delay_s_max: float
    computed_twice: int


@dataclass
class Cluster:
    """Workers and partitions over some time; without `moves` placements stay as they begin."""

    rates: Rates
    workers: int = 4
    seconds: float = 1_200.0
    moves: bool = True
    slowed: Mapping[float, tuple[str, float]] = field(default_factory=dict)
    killed: Mapping[float, str] = field(default_factory=dict)

    def run(self) -> Outcome:
        """Let the time pass."""
        self.machines = {f"w{n}": _Machine(f"w{n}") for n in range(self.workers)}
        self.gone_s: dict[str, float] = {}
        names = list(self.machines)
        self.parts = []
        for n in range(PARTITIONS):
            name = names[n % len(names)]
            self.parts.append(_Part(n, name, name, placed_s=-1_000.0))
        self.pauses: list[float] = []
        self.moved_at: list[float] = []
        self.twice = 0
        for tick in range(round(self.seconds / TICK_S)):
            self._pass(tick, tick * TICK_S)
        return self._outcome()

    def _pass(self, tick: int, now_s: float) -> None:
        for at_s, (name, speed) in self.slowed.items():
            if abs(now_s - at_s) < TICK_S / 2:
                self.machines[name].speed = speed
        for at_s, name in self.killed.items():
            if abs(now_s - at_s) < TICK_S / 2:
                self._kill(name, now_s)
        if tick and tick % round(BUCKET_S / TICK_S) == 0:
            for number, cores in self.rates(now_s - BUCKET_S).items():
                self.parts[number].waiting.append((now_s, cores * BUCKET_S))
        for machine in self.machines.values():
            if machine.is_alive:
                self._work(machine, now_s)
        if tick % round(LOADS_S / TICK_S) == 0:
            for machine in self.machines.values():
                if machine.cpu_s > 0.05:
                    machine.pace = machine.busy_s / machine.cpu_s
                machine.busy_s = machine.cpu_s = 0.0
        if tick % round(LOOK_S / TICK_S) == 0:
            if self.moves:
                self._decide(now_s)
            self._give_back(now_s)
        self._take(now_s)

    def _kill(self, name: str, now_s: float) -> None:
        machine = self.machines[name]
        machine.is_alive, machine.step = False, None
        self.gone_s[name] = now_s + LEASE_S
        for part in self.parts:
            if part.held == name:
                part.free_since_s = now_s

    def _work(self, machine: _Machine, now_s: float) -> None:
        budget = TICK_S
        while budget > 1e-9:
            if machine.step is None:
                mine = [p for p in self.parts if p.held == machine.name and p.waiting]
                if not mine:
                    return
                part = min(mine, key=lambda p: (p.waiting[0], p.number))
                machine.step, machine.left = (part.number, part.waiting[0][0]), part.waiting[0][1]
            part = self.parts[machine.step[0]]
            spent = min(machine.left, budget * machine.speed)
            machine.left -= spent
            budget -= spent / machine.speed
            machine.busy_s += spent / machine.speed
            machine.cpu_s += spent
            part.spent.append((now_s, spent))
            if machine.left <= 1e-9:
                end_s, _ = part.waiting.popleft()
                self.twice += end_s in part.done_s
                part.done_s[end_s] = now_s + TICK_S - budget - end_s
                machine.step = None
                self._give_back(now_s)

    def _cores(self, part: _Part, now_s: float) -> float:
        while part.spent and part.spent[0][0] < now_s - WINDOW_S:
            part.spent.popleft()
        return sum(spent for _, spent in part.spent) / min(WINDOW_S, max(now_s, TICK_S))

    def _is_alive(self, name: str | None, now_s: float) -> bool:
        """Whether a worker is there as far as the others know: until its lease ends."""
        return name in self.machines and now_s < self.gone_s.get(name or "", now_s + 1)

    def _decide(self, now_s: float) -> None:
        workers = tuple(
            Worker(name=m.name, pace=m.pace)
            for m in self.machines.values()
            if self._is_alive(m.name, now_s)
        )
        known = tuple(
            PlacedPartition(
                fragment=str(part.number),
                worker=part.placed,
                is_held=part.held == part.placed,
                placed_ms=round((now_s - part.placed_s) * 1_000),
                cores=self._cores(part, now_s),
            )
            for part in self.parts
        )
        for one in decide_placements(workers, known):
            part = self.parts[int(one.fragment)]
            part.placed, part.placed_s = one.to_worker, now_s
            self.moved_at.append(now_s)

    def _give_back(self, now_s: float) -> None:
        for part in self.parts:
            if part.held is None or part.held == part.placed:
                continue
            machine = self.machines[part.held]
            is_over = not self._is_alive(part.held, now_s)
            if is_over or (machine.is_alive and machine.step is None):
                part.held = None
                part.free_since_s = part.free_since_s if is_over else now_s

    def _take(self, now_s: float) -> None:
        for part in self.parts:
            if part.held is None and self._is_alive(part.placed, now_s):
                since_s = part.free_since_s if part.free_since_s is not None else now_s
                self.pauses.append(now_s - since_s + TAKE_S)
                part.held, part.free_since_s = part.placed, None

    def _outcome(self) -> Outcome:
        ends = [BUCKET_S * n for n in range(1, round(self.seconds / BUCKET_S))]
        whole = [
            max(part.done_s[end_s] for part in self.parts)
            for end_s in ends
            if all(end_s in part.done_s for part in self.parts)
        ]
        late = self.seconds - 300
        loads = [
            sum(self._cores(p, self.seconds) for p in self.parts if p.held == m.name) * m.pace
            for m in self.machines.values()
            if m.is_alive
        ]
        return Outcome(
            buckets=len(ends),
            computed=len(whole),
            delay_s_mean=sum(whole) / len(whole),
            delay_s_max=max(whole),
            imbalance=max(loads) / (sum(loads) / len(loads)),
            moves=len(self.moved_at),
            moves_late=sum(at_s > late for at_s in self.moved_at),
            pauses_s=tuple(self.pauses),
            other_delay_s_max=max(self._unmoved()),
            computed_twice=self.twice,
        )

    def _unmoved(self) -> Iterator[float]:
        yield 0.0
        for part in self.parts:
            if part.placed_s < 0:
                yield from part.done_s.values()
