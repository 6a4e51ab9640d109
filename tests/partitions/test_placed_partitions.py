"""Workers of one home: whoever is there has all partitions, each at one worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Conflict
from medusa_core.partitions.placing import PlacePartition
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.exchange.importer import NoImports
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.loop import Inputs, LoopObserver, ParticipantLoop
from pipelines.participant.placed_partitions import LOOK_MS, PlacedPartitions
from tests.catalog import building as a
from tests.sweeps import examples

LEASE_MS = 2_000
PARTITIONS = (a.MAIN, a.TAIL)


@dataclass
class Process:
    """A worker of the home without a loop around it."""

    home: Home
    name: str
    number: int
    placed_by_it: list[PlacePartition] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        catalog = self.home.catalog
        holder = f"{self.name}-{self.number}"
        self.leases = LeaseRenewer(catalog, holder, lease_ms=LEASE_MS)
        self.partitions = PlacedPartitions(
            catalog,
            self.leases,
            name=self.name,
            keys={fragment: (a.a_key(fragment), a.FIRST) for fragment in PARTITIONS},
            observer=self,
            now_s=lambda: self.home.clock.now_ms / 1_000,
        )

    def placed(self, decision: PlacePartition) -> None:
        self.placed_by_it.append(decision)

    def error(self, error: Exception) -> None:
        self.errors.append(error)

    def tick(self) -> None:
        self.leases.beat()
        self.partitions.tick()

    def take_leases(self) -> None:
        """What its loop does after a conflict."""
        inputs = Inputs(importer=NoImports(), partitions=self.partitions)
        loop = ParticipantLoop(
            catalog=self.home.catalog,
            drivers=(),
            inputs=inputs,
            leases=self.leases,
            observer=cast(LoopObserver, self),
        )
        loop.take_leases()

    @property
    def has(self) -> set[str]:
        """The partitions that it would compute."""
        return {fragment for fragment in PARTITIONS if self.partitions.is_here(fragment)}


@dataclass
class Home:
    """A home in memory, its clock and its workers."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000_000))
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.catalog = MemoryCatalog(a.ALPHA, self.clock)
        self.catalog.deploy(a.a_deployment())

    def worker(self, name: str) -> Process:
        return Process(self, name, next(self.numbers))

    def passes(
        self, *alive: Process, ms: int = LEASE_MS + LOOK_MS, busy: Sequence[Process] = ()
    ) -> None:
        """Time passes, in which some workers tick, others compute one step, the rest is frozen."""
        for _ in range(ms // 100):
            self.clock.advance(100)
            for process in alive:
                process.tick()
            for process in busy:
                process.leases.beat()

    def check(self, workers: Sequence[Process]) -> None:
        """No lease is two workers', whatever they believe."""
        for fragment in PARTITIONS:
            holders = {record.lease.holder for record in self.catalog.leases()
                       if record.is_held and record.lease.key.fragment == fragment}  # fmt: skip
            assert len(holders) <= 1


def test_two_workers_have_one_partition_each_and_the_last_one_has_both() -> None:
    home = Home()
    main, one = home.worker("main"), home.worker("one")
    main.partitions.begin(1)
    one.partitions.begin(1)
    home.passes(main, one)
    assert main.has | one.has == set(PARTITIONS)
    assert len(main.has) == len(one.has) == 1
    home.passes(one)  # main is frozen
    assert one.has == set(PARTITIONS)
    main.tick()  # it returns, and has lost what another one has
    assert not main.has & one.has


def test_a_step_of_twice_the_lease_moves_nothing_and_keeps_the_name() -> None:
    home = Home()
    main, one = home.worker("main"), home.worker("one")
    for process in (main, one):
        process.partitions.begin(1)
    home.passes(main, one)
    had, decided = one.has, len(main.placed_by_it)
    home.passes(main, ms=2 * LEASE_MS, busy=[one])
    with pytest.raises(Conflict, match="worker one runs already"):
        home.worker("one").partitions.report()
    home.passes(main, one)
    assert one.has == had
    assert len(main.placed_by_it) == decided


def test_a_worker_that_ends_is_replaced_at_once() -> None:
    home = Home()
    main, one = home.worker("main"), home.worker("one")
    main.partitions.begin(1)
    one.partitions.begin(1)
    home.passes(main, one)
    one.partitions.close()
    home.passes(main, ms=LOOK_MS + 200, busy=[one])  # its thread beats until the process ends
    assert main.has == set(PARTITIONS)
    moved = main.placed_by_it[-1]
    assert str(moved.because).startswith("its worker is gone")


def test_leases_that_ended_during_an_outage_are_taken_again_before_the_next_step() -> None:
    home = Home()
    main = home.worker("main")
    main.partitions.begin(1)
    home.passes(main)
    home.passes()  # the catalog was away for longer than the leases
    assert not [record for record in home.catalog.leases() if record.is_held]
    main.take_leases()
    held = {record.lease.key.fragment for record in home.catalog.leases() if record.is_held}
    assert held - {a.LANDING} == main.has == set(PARTITIONS)


def test_a_lease_that_another_worker_took_meanwhile_is_not_taken_again() -> None:
    home = Home()
    main, one = home.worker("main"), home.worker("one")
    for process in (main, one):
        process.partitions.begin(1)
    home.passes(main, one)
    home.passes(one)
    main.take_leases()
    held = {r.lease.key.fragment: r.lease.holder for r in home.catalog.leases() if r.is_held}
    assert held == {a.LANDING: main.leases.holder} | dict.fromkeys(PARTITIONS, one.leases.holder)


def test_a_name_is_waited_for_and_refused_while_its_process_lives() -> None:
    home = Home()
    home.worker("one").partitions.begin(1)
    again = home.worker("one")

    def sleep(seconds: float) -> None:
        home.clock.advance(round(seconds * 1_000))

    again.partitions.begin(3 * LEASE_MS / 1_000, sleep)
    assert again.errors
    third = home.worker("one")

    def meanwhile(seconds: float) -> None:
        sleep(seconds)
        again.tick()

    with pytest.raises(Conflict, match="worker one runs already"):
        third.partitions.begin(3 * LEASE_MS / 1_000, meanwhile)


@settings(max_examples=examples(20, 400))
@given(st.lists(st.lists(st.sampled_from("abc"), unique=True, max_size=3), max_size=8))
def test_whichever_workers_are_frozen_each_lease_is_ones_and_in_the_end_all_are_taken(
    turns: list[list[str]],
) -> None:
    home = Home()
    workers = {name: home.worker(name) for name in "abc"}
    for alive in [*turns, list("abc")]:
        for _ in range((2 * LEASE_MS + LOOK_MS) // 500):
            home.passes(*(workers[name] for name in alive), ms=500)
            home.check(list(workers.values()))
    assert set().union(*(worker.has for worker in workers.values())) == set(PARTITIONS)
    assert sum(len(worker.has) for worker in workers.values()) == len(PARTITIONS)
