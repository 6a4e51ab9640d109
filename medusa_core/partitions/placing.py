"""Where partitions are computed: which worker takes which, by metered load, and why.

A partition without a living worker is placed first. Otherwise load is balanced: if the loads of two
workers differ by more than a dead band, the partition moves that lowers the higher one most. Each
move lowers the list of loads, sorted from the highest on, in lexicographic order: under constant
load moves end. One partition at a time moves from or to a worker, and none again before its load
has been measured at its new place.

The load of a partition at a worker is its metered CPU times the worker's pace, which is how long it
is busy per CPU second: so a slow machine has a higher load by the same partitions. Source:
Flux (Shah and others, 2003), section 3, with decisions for each partition in place of rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from medusa_core.decisions import DecisionReason

DEAD_BAND = 0.1
"""By how much of the mean load the loads of two workers differ, at least, where something moves."""

GAIN = 0.2
"""By how much of its own load a partition that moves lowers the higher load of two workers, at
least. Otherwise it could move back and forth as its load varies."""

IDLE = 0.05
"""Below this load no worker gives a partition up."""

SETTLED_MS = 15_000
"""How long a partition stays before its load at its new place is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A living worker: how long it is busy per CPU second (1 where that is not known), and the CPU
    (in cores) of what it computes besides partitions."""

    name: str
    pace: float = 1.0
    fixed_cores: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    """A partition, where it is placed (None: nowhere yet) and since when, and its CPU in cores.

    `is_held`: the worker where it is placed has its lease.
    """

    fragment: str
    worker: str | None
    is_held: bool = False
    placed_ms: int = 0
    cores: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePartition:
    """Have a worker take a partition; `from_worker` gives it up, if there is one."""

    fragment: str
    from_worker: str | None
    to_worker: str
    because: DecisionReason


def decide_placements(
    workers: tuple[Worker, ...], partitions: tuple[PlacedPartition, ...]
) -> tuple[PlacePartition, ...]:
    """What is to be placed otherwise; nothing without a worker, and nothing twice."""
    if not workers:
        return ()
    balance = _Balance(workers, partitions)
    return (*balance.place_lost(), *balance.even_out())


class _Balance:
    """Loads of workers, with the decisions that are made on them."""

    def __init__(
        self, workers: tuple[Worker, ...], partitions: tuple[PlacedPartition, ...]
    ) -> None:
        self._workers = {worker.name: worker for worker in workers}
        self._partitions = {one.fragment: one for one in partitions}
        self._pace = {worker.name: worker.pace for worker in workers}
        self._mean = 0.0

    def place_lost(self) -> Iterator[PlacePartition]:
        """A worker for each partition that has none, or whose worker is gone."""
        lost = [p for p in self._partitions.values() if p.worker not in self._workers]
        for one in sorted(lost, key=lambda p: (-p.cores, p.fragment)):
            name = min(self._workers, key=lambda w: (self._load(w), self._count(w), w))
            reason = "it has no worker yet" if one.worker is None else "its worker is gone"
            numbers = {"load": round(self._load(name), 3), "partitions": self._count(name)}
            self._partitions[one.fragment] = replace(one, worker=name, is_held=False, placed_ms=0)
            yield PlacePartition(
                fragment=one.fragment,
                from_worker=one.worker,
                to_worker=name,
                because=DecisionReason(reason, numbers),
            )

    def even_out(self) -> Iterator[PlacePartition]:
        """Moves from the workers with the highest load to those with the lowest, in pairs."""
        loads = {name: self._load(name) for name in self._workers}
        self._mean = sum(loads.values()) / len(loads)
        free = sorted((name for name in loads if self._is_settled(name)), key=lambda n: loads[n])
        while len(free) > 1:
            to, from_ = free[0], free[-1]
            best = self._best(from_, to, loads)
            if best is None:
                free.pop()
                continue
            fragment, highest = best
            yield PlacePartition(
                fragment=fragment,
                from_worker=from_,
                to_worker=to,
                because=DecisionReason(
                    "the load is not even",
                    {
                        "load": round(loads[from_], 3),
                        "of_the_other": round(loads[to], 3),
                        "mean": round(self._mean, 3),
                        "then_at_most": round(highest, 3),
                    },
                ),
            )
            free = free[1:-1]

    def _best(
        self, from_: str, to: str, loads: Mapping[str, float]
    ) -> tuple[str, float] | None:  # fmt: skip
        """The partition that moves, and the higher load of the two then."""
        if loads[from_] < IDLE or loads[from_] - loads[to] <= DEAD_BAND * self._mean:
            return None
        found: tuple[float, str] | None = None
        for one in self._at(from_):
            gives = self._load_of(one, from_)
            takes = gives * self._pace[to] / self._pace[from_]
            highest = max(loads[from_] - gives, loads[to] + takes)
            has_gain = loads[from_] - highest > GAIN * gives
            if has_gain and (found is None or (highest, one.fragment) < found):
                found = highest, one.fragment
        return None if found is None else (found[1], found[0])

    def _is_settled(self, name: str) -> bool:
        """Whether nothing is on its way to or from a worker, and all loads are measured there."""
        return all(one.is_held and one.placed_ms >= SETTLED_MS for one in self._at(name))

    def _at(self, name: str) -> list[PlacedPartition]:
        return [one for one in self._partitions.values() if one.worker == name]

    def _count(self, name: str) -> int:
        return len(self._at(name))

    def _load_of(self, one: PlacedPartition, worker: str) -> float:
        return one.cores * self._pace[worker]

    def _load(self, name: str) -> float:
        placed = sum(one.cores for one in self._at(name))
        return (self._workers[name].fixed_cores + placed) * self._pace[name]
