"""Drawn networks with key partitions: which can be partitioned, and what their steps give."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.network import Network, Partitions
from pipelines.language.checked_partitions import with_checked_partitions
from tests.spark.drawn.modes import Trial
from tests.spark.drawn.oracle import Oracle
from tests.spark.drawn.spec import LATER, drawn, medusa_network
from tests.spark.drawn.world import WIDTH_US, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = (("k",), ("s",), ("i",), ("b",), ("ts",), ("e",), ("k", "i"), ("window_start",))


def partitioned(seed: int) -> Network | None:
    """The drawn network with each fragment that can be in partitions, of a drawn number; None if no
    fragment can."""
    network, random = medusa_network(drawn(seed)), Random(seed)
    declared: dict[str, Partitions] = {}
    for fragment in ("main", LATER):
        for by in random.sample(KEYS, len(KEYS)):
            n, cut = random.choice((2, 3, 5)), random.random() < 0.4
            one = {fragment: Partitions(by=by, n=n, cut=cut)}
            if not any(box.fragment == fragment for box in network.boxes):
                continue
            try:
                with_checked_partitions(replace(network, partitions=one))
            except Refused:
                continue
            declared |= one
            break
    return replace(network, partitions=declared) if declared else None


def has_grouping(network: Network) -> bool:
    """Whether a partitioned fragment has a box that brings records together."""
    single = ("Filter", "Map", "Union", "Function")
    return any(
        type(box).__name__ not in single and box.fragment in network.partitions
        for box in network.boxes
    )


@dataclass
class PartitionedTrial:
    """The steps of a drawn network with partitions, with its records cut into other ranges."""

    spark: SparkSession
    root: Path
    seed: int

    def __post_init__(self) -> None:
        declared = partitioned(self.seed)
        assert declared is not None, "a seed of a network that can be partitioned"
        self.plain = Trial(self.spark, _oracle(), self.root, self.seed)
        self.world = World(self.spark, self.root, with_checked_partitions(declared))

    def check(self) -> None:
        """Fail unless the outputs have the rows, and the quarantine the records, of DuckDB."""
        trial, world = self.plain, self.world
        for at in range(len(trial.ranges)):
            trial.arrives(world, "", at)
        expected, failed = trial.whole[""], Counter[tuple[str, str, int]]()
        whole = Range(trial.ranges[0].from_us, trial.ranges[-1].to_us)
        found = {name: Counter[object]() for name in trial.net.outputs}
        for fragment in world.fragments:
            for part in self._cuts(whole, fragment.id):
                step = world.step(fragment, part)
                result = world.engine.compute(step)
                world.written(step, result)
                for stream, rows in world.rows_of(result):
                    if stream in found:
                        found[str(stream)] += rows
                for box, field, _, _, at_us in world.failed_of(result).elements():
                    failed[re.sub(r"_p\d+$", "", box), field, at_us] += 1
        for name, ref in trial.net.outputs.items():
            assert found[name] == expected.of(ref, whole.from_us, whole.to_us), trial.id
        boxes = [box.name for box in trial.net.boxes]
        main = [box.name for box in trial.net.boxes[: trial.net.cut]]
        same: Counter[tuple[str, str, int]] = Counter()
        for some in (main, [name for name in boxes if name not in main]):
            for box, field, _, _, at_us in expected.failed_in(
                some, whole.from_us, whole.to_us
            ).elements():
                same[box, field, at_us] += 1
        assert failed == same, trial.id

    def _cuts(self, whole: Range, fragment: str) -> Iterator[Range]:
        """The range in parts of whole buckets, other ones for each fragment."""
        random, from_us = Random(f"{self.seed} {fragment}"), whole.from_us
        while from_us < whole.to_us:
            to_us = min(from_us + random.randint(6, 16) * WIDTH_US, whole.to_us)
            yield Range(from_us, to_us)
            from_us = to_us


@cache
def _oracle() -> Oracle:
    return Oracle()
