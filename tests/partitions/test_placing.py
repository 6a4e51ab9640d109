"""Partitions are placed by load: it becomes even, and then nothing moves any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.partitions.placing import (
    DEAD_BAND,
    GAIN,
    SETTLED_MS,
    PlacedPartition,
    PlacePartition,
    Worker,
    decide_placements,
)
from tests.sweeps import examples

ROUNDS = 40


class Cluster:
    """Workers and partitions of constant load; a round is a decision that is carried out."""

    def __init__(
        self, cores: Mapping[str, float], slowness: Mapping[str, float], first: str | None = None
    ) -> None:
        self.cores, self.slowness = dict(cores), dict(slowness)
        self.placed: dict[str, str | None] = dict.fromkeys(cores, first)
        self.pace = dict.fromkeys(slowness, 1.0)
        self.moves = 0

    def load(self, worker: str) -> float:
        """The CPU of its partitions, as long as its machine takes for it."""
        own = (self.cores[f] for f, w in self.placed.items() if w == worker)
        return sum(own) * self.slowness[worker]

    def decide(self, placed_ms: int = SETTLED_MS) -> tuple[PlacePartition, ...]:
        # How slow a machine is shows once it computes something.
        self.pace |= {w: by for w, by in self.slowness.items() if self.load(w)}
        workers = tuple(Worker(name=w, pace=pace) for w, pace in self.pace.items())
        return decide_placements(
            workers,
            tuple(
                PlacedPartition(
                    fragment=f, worker=w, cores=self.cores[f],
                    is_held=w in self.slowness, placed_ms=placed_ms,
                )
                for f, w in self.placed.items()
            ),
        )  # fmt: skip

    def run(self, rounds: int = ROUNDS) -> None:
        for _ in range(rounds):
            for one in self.decide():
                assert one.from_worker == self.placed[one.fragment]
                self.placed[one.fragment] = one.to_worker
                self.moves += 1

    @property
    def imbalance(self) -> float:
        """The highest load over the mean."""
        loads = [self.load(worker) for worker in self.slowness]
        return max(loads) / (sum(loads) / len(loads))


def cores_of(loads: list[float], busy: float = 1.0) -> dict[str, float]:
    """Partitions of these loads in proportion; one worker with all of them is so busy."""
    return {f"f{n}": load * busy / sum(loads) for n, load in enumerate(loads)}


LOADS = st.lists(st.floats(0.1, 3), min_size=1, max_size=16)


@settings(max_examples=examples(15, 300))
@given(LOADS, st.lists(st.floats(1, 4), min_size=1, max_size=5))
def test_moves_end_under_constant_load_and_no_further_move_would_gain_the_dead_band(
    loads: list[float], slow: list[float]
) -> None:
    slowness = {f"w{n}": by for n, by in enumerate(slow)}
    cluster = Cluster(cores_of(loads, 1 / max(slow)), slowness)
    cluster.run(len(loads) * 4)
    assert all(worker in slowness for worker in cluster.placed.values())
    moves = cluster.moves
    cluster.run(5)
    assert cluster.moves == moves


@given(st.integers(2, 4), st.lists(st.floats(0.5, 1.5), min_size=12, max_size=24), st.floats(1, 6))
def test_a_skewed_set_of_keys_becomes_even_within_some_rounds(
    workers: int, loads: list[float], hot: float
) -> None:
    slowness = {f"w{n}": 1.0 for n in range(workers)}
    cluster = Cluster(cores_of([hot, *loads]), slowness, first="w0")
    cluster.run(len(loads) + 1)
    mean = sum(cluster.cores.values()) / workers
    # No partition can be divided: the hottest one alone may be above the mean.
    of_one = max(loads) / (sum(loads) + hot)
    at_best = max(mean + of_one / (1 - GAIN), *cluster.cores.values())
    assert max(map(cluster.load, slowness)) <= at_best + mean * DEAD_BAND + 1e-9


def test_a_slowed_worker_gives_partitions_up() -> None:
    cluster = Cluster(cores_of([1.0] * 12, 1 / 3), {"slow": 3.0, "fast": 1.0})
    cluster.run()
    assert sum(worker == "slow" for worker in cluster.placed.values()) == 3
    assert cluster.imbalance < 1 + DEAD_BAND


def test_partitions_of_a_worker_that_is_gone_are_placed_at_once_where_there_is_least_load() -> None:
    cluster = Cluster(cores_of([5, 1, 1, 1], 0.08), {"a": 1.0, "b": 1.0})
    cluster.placed = {"f0": "a", "f1": "b", "f2": "gone", "f3": None}
    decided = {one.fragment: one for one in cluster.decide(placed_ms=0)}
    assert {f: one.to_worker for f, one in decided.items()} == {"f2": "b", "f3": "b"}
    assert str(decided["f2"].because) == "its worker is gone (load 0.01, partitions 1)"


def test_a_worker_that_a_partition_is_on_its_way_to_takes_and_gives_no_other_one() -> None:
    cluster = Cluster(cores_of([10, 10, 10, 10]), {"a": 1.0, "b": 1.0}, first="a")
    (one,) = cluster.decide()
    assert (one.from_worker, one.to_worker) == ("a", "b")
    assert one.because.numbers["then_at_most"] == 0.75
    cluster.placed[one.fragment] = "b"
    assert cluster.decide(placed_ms=SETTLED_MS - 1) == ()
    assert cluster.decide() != ()


def test_without_a_worker_nothing_is_placed() -> None:
    partition = PlacedPartition(fragment="f", worker="gone")
    assert decide_placements((), (partition,)) == ()
    (placed,) = decide_placements((Worker(name="a"),), (replace(partition, worker=None),))
    assert placed.to_worker == "a"
