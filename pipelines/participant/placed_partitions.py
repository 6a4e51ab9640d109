"""The partitions of one process of a participant: those that are placed here, by their leases.

Each process of a participant that shares partitions is a worker, the one that lands and imports
included. In each tick of its loop a worker reports itself, takes the leases of the partitions that
are placed here, and gives back those that are placed elsewhere: between two ticks no step is under
way, so that a partition moves at a bucket. During a long step it is reported whenever its leases
are renewed. One worker decides on placements for all (`medusa_core.partitions.placing`); two that
decide at the same time do not disturb each other, since a decision on placements that have changed
is not carried out. A placement is not a right: only the holder of the lease commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from medusa_core.commits import LeaseKey
from medusa_core.errors import Conflict, MedusaError
from medusa_core.loads import RecordedSample, load_of
from medusa_core.names import Epoch
from medusa_core.partitions.placing import (
    PlacedPartition,
    PlacePartition,
    Worker,
    decide_placements,
)
from pipelines.base import clock
from pipelines.catalog.worker_records import PlacementRecord, Placements, WorkerRecord
from pipelines.homes.lease_renewer import LeaseRenewer

MAIN = "main"
"""The name of the worker that lands and imports, too."""

LOOK_MS = 500
WAITING_MS = 100
"""How often a worker looks at placements; the latter while it waits for a lease."""

LOADS_MS = 5_000
"""How often loads are read."""

LOAD_WINDOW_MS = 30_000

_CORES_MIN = 0.01
_PACE_MIN, _PACE_MAX = 0.1, 100.0


class PlacingHome(Placements, Protocol):
    """What a worker reads and writes of its home."""

    def read_clock_ms(self) -> int:
        """The catalog's clock."""

    def loads_since(self, window_ms: int) -> tuple[RecordedSample, ...]:
        """The samples of CPU that reach into the window that ends now."""


class PlacingObserver(Protocol):
    """Observes what is placed."""

    def placed(self, decision: PlacePartition) -> None: ...
    def error(self, error: Exception) -> None: ...


@dataclass
class _Time:
    """What a worker did with its time since some moment."""

    since_s: float
    waited_s: float = 0.0

    def busy(self, now_s: float) -> float:
        """The share of the time in which it did not wait."""
        length_s = now_s - self.since_s
        return min(max(1 - self.waited_s / length_s, 0.0), 1.0) if length_s > 0 else 0.0


class PlacedPartitions:
    """The partitions of one worker; `keys` are the leases of all partitions of the participant."""

    def __init__(
        self,
        catalog: PlacingHome,
        leases: LeaseRenewer,
        *,
        name: str,
        keys: Mapping[str, tuple[LeaseKey, Epoch]],
        observer: PlacingObserver,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._catalog = catalog
        self._leases = leases
        self._name = name
        self._keys = dict(keys)
        self._observer = observer
        self._now_s = now_s
        self._next_look_s = self._next_measure_s = now_s()
        self._time = _Time(now_s())
        self._busy, self._pace = 0.0, 1.0
        self._cores: Mapping[str, float] = {}
        self._is_waiting = False
        self._reporting = threading.Lock()
        """Held while a worker reports itself on the renewer's thread, or ends."""

    def is_shared(self, fragment: str) -> bool:
        """Whether workers share the fragment."""
        return fragment in self._keys

    def is_fixed(self, fragment: str) -> bool:
        """Whether this process has the fragment from its beginning to its end."""
        return self._name == MAIN and not self.is_shared(fragment)

    def is_here(self, fragment: str) -> bool:
        """Whether this process computes the fragment: a partition, if it has its lease."""
        return fragment not in self._keys or self._leases.holds(self._keys[fragment][0])

    def begin(self, limit_s: float, sleep_s: Callable[[float], None] = clock.sleep_s) -> None:
        """Report this worker; a process that had its name is waited for. Conflict after that."""
        ends_s = self._now_s() + limit_s
        while True:
            try:
                self.report()
                self._leases.on_beat = self._report_again
                return
            except Conflict as error:
                if self._now_s() > ends_s:
                    raise
                self._observer.error(error)
                sleep_s(LOOK_MS / 1_000)

    def tick(self) -> None:
        """Take and give back leases, if it is time. Conflict if another process has the name."""
        self._leases.forget_lost(key for key, _ in self._keys.values())
        now_s = self._now_s()
        if now_s < self._next_look_s:
            return
        self._measure(now_s)
        self.report()
        workers = [worker for worker in self._catalog.workers() if worker.is_alive]
        placements = self._catalog.placements()
        if workers and self._name == _deciding_worker(workers):
            placements = self._decide(workers, placements)
        self._follow(placements)
        self._next_look_s = self._now_s() + (WAITING_MS if self._is_waiting else LOOK_MS) / 1_000

    @property
    def wakes_in_ms(self) -> int:
        """When it looks at placements next."""
        return max(round((self._next_look_s - self._now_s()) * 1_000), 0)

    def waited(self, seconds: float) -> None:
        """The loop had nothing to do for so long."""
        self._time.waited_s += seconds

    def retake(self) -> None:
        """Take the leases of the partitions that are here once more: they may have ended."""
        for lease in self._keys.values():
            if self._leases.holds(lease[0]):
                # Another worker's is noticed when it is to be renewed.
                with suppress(Conflict):
                    self._leases.take([lease])

    def close(self) -> None:
        """Give partitions back, and end this worker."""
        try:
            self._leases.give_back([key for key, _ in self._keys.values()])
            with self._reporting:
                self._leases.on_beat = None
                self._catalog.end_worker(self._name, self._leases.holder)
        except MedusaError as error:
            # Both expire by themselves.
            self._observer.error(error)

    def report(self) -> None:
        """Report that this worker is alive; Conflict while another process has its name."""
        self._catalog.report_worker(
            self._name,
            self._leases.holder,
            busy=self._busy,
            pace=self._pace,
            ttl_ms=self._leases.lease_ms,
        )

    def _report_again(self) -> None:
        """Report during a long step, too; another process's name is noticed in the next tick."""
        with self._reporting:
            if self._leases.on_beat is not None:
                self.report()

    def _measure(self, now_s: float) -> None:
        """What each partition costs, how busy this worker is, and its pace."""
        if now_s < self._next_measure_s:
            return
        self._next_measure_s = now_s + LOADS_MS / 1_000
        samples = self._catalog.loads_since(LOAD_WINDOW_MS)
        load = load_of(samples, self._catalog.read_clock_ms(), LOAD_WINDOW_MS) if samples else None
        cores: dict[str, float] = {}
        for key, of_key in (load.by_key if load is not None else {}).items():
            cores[key.fragment] = cores.get(key.fragment, 0.0) + of_key
        self._cores = cores
        if now_s - self._time.since_s >= LOADS_MS / 1_000:
            self._busy, self._time = self._time.busy(now_s), _Time(now_s)
            own = sum(self._cores.get(f, 0.0) for f in self._keys if self.is_here(f))
            own += self._fixed_cores(self._name)
            if own >= _CORES_MIN:
                self._pace = min(max(self._busy / own, _PACE_MIN), _PACE_MAX)

    def _fixed_cores(self, worker: str) -> float:
        """The CPU of what a worker computes besides partitions: only the main one does."""
        if worker != MAIN:
            return 0.0
        return sum(cores for of, cores in self._cores.items() if of not in self._keys)

    def _decide(
        self, workers: Sequence[WorkerRecord], placements: Sequence[PlacementRecord]
    ) -> tuple[PlacementRecord, ...]:
        """Decide for all workers; what is placed afterwards."""
        known = {placed.fragment: placed for placed in placements}
        holders = {worker.name: worker.holder for worker in workers}
        decided = decide_placements(
            tuple(
                Worker(name=w.name, pace=w.pace, fixed_cores=self._fixed_cores(w.name))
                for w in workers
            ),
            tuple(self._partition(f, known.get(f), holders) for f in sorted(self._keys)),
        )
        if not decided:
            return tuple(placements)
        if self._catalog.place(decided, max((p.number for p in placements), default=0)):
            for one in decided:
                self._observer.placed(one)
        return self._catalog.placements()

    def _partition(
        self, fragment: str, placed: PlacementRecord | None, holders: Mapping[str, str]
    ) -> PlacedPartition:
        cores = self._cores.get(fragment, 0.0)
        if placed is None:
            return PlacedPartition(fragment=fragment, worker=None, cores=cores)
        return PlacedPartition(
            fragment=fragment,
            worker=placed.worker,
            is_held=placed.holder is not None and placed.holder == holders.get(placed.worker),
            placed_ms=placed.placed_ms,
            cores=cores,
        )

    def _follow(self, placements: Iterable[PlacementRecord]) -> None:
        """Take the leases of the partitions that are placed here, and give back all others."""
        mine = {one.fragment for one in placements if one.worker == self._name}
        held = {f for f, (key, _) in self._keys.items() if self._leases.holds(key)}
        self._leases.give_back([self._keys[fragment][0] for fragment in held - mine])
        self._is_waiting = False
        for fragment in sorted((mine & self._keys.keys()) - held):
            try:
                self._leases.take([self._keys[fragment]])
            except Conflict:
                # Its last worker has the lease until it looks, or until the lease ends.
                self._is_waiting = True


def _deciding_worker(workers: Sequence[WorkerRecord]) -> str:
    """The worker that decides on placements: the main one, else the first by name."""
    names = [worker.name for worker in workers]
    return MAIN if MAIN in names else min(names)
