"""Workers share the partitions of a participant: whatever happens to one, each bucket of each
partition is computed once, and no row is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pipelines.base.failpoints import FILE, POINT
from tests.partitions.workers import Shop, a_shop
from tests.sweeps import each_of_part
from tests.waiting import until

pytestmark = pytest.mark.long

POINTS_OF_DRIVER = ("step.decided", "step.synced", "step.committed")
"""The others of a step are in the engine, and reached when a worker warms up."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with a_shop(tmp_path) as made:
        yield made


def arrives_and_is_computed(shop: Shop, buckets: int = 6) -> None:
    """New buckets, and all but the last are computed: only the next record closes that one."""
    shop.buys.arrive(buckets)
    until(
        lambda: shop.boundary_us() >= shop.buys.at_us - 20_000_000,
        "new buckets are computed",
        seconds_max=240,
    )


def check_all(shop: Shop) -> None:
    """The rows are those of the records, and no bucket of a fragment was committed twice."""
    through_us = shop.boundary_us()
    expected = {key: eur for key, eur in shop.buys.sums.items() if key[0] < through_us}
    assert expected
    assert dict(shop.answers()) == expected
    for fragment, ranges in shop.ranges().items():
        assert all(a.to_us <= b.from_us for a, b in pairwise(ranges)), (fragment, ranges)


def shares(shop: Shop, *workers: str) -> None:
    until(
        lambda: shop.held_by() == set(workers),
        f"{', '.join(workers)} have all partitions",
        seconds_max=240,
    )


def test_a_worker_that_is_killed_at_any_point_of_a_step_leaves_nothing_half_done(
    shop: Shop,
) -> None:
    announced = shop.installed.folder / "reached"
    first = True
    for point in each_of_part(POINTS_OF_DRIVER):
        announced.unlink(missing_ok=True)
        shop.start("one", **{POINT: point, FILE: str(announced)})
        if not first:
            until(lambda: is_alive(shop, "one"), "the worker is there", seconds_max=240)
            shop.kill("main")
        shares(shop, "one")
        shop.start("main")
        shop.buys.arrive(3)
        until(announced.exists, f"the worker reaches {point}", seconds_max=240)
        shop.kill("one")
        shares(shop, "main")
        arrives_and_is_computed(shop, 3)
        first = False
    check_all(shop)


def is_alive(shop: Shop, name: str) -> bool:
    with shop.home() as session:
        return any(w.name == name and w.is_alive for w in session.home.catalog.workers())


def test_partitions_of_a_killed_and_of_a_frozen_worker_are_taken_by_others(shop: Shop) -> None:
    shop.start("main", "one", "two")
    until(lambda: len(shop.placed()) == 4, "partitions are placed", seconds_max=240)
    shop.buys.arrive(2)
    arrives_and_is_computed(shop)
    with shop.home() as session:
        until(
            lambda: sum(w.is_alive for w in session.home.catalog.workers()) == 3,
            "three workers are there",
            seconds_max=240,
        )
    shop.kill("main")
    shares(shop, "one", "two")
    frozen = shop.processes["two"]
    os.killpg(frozen.pid, signal.SIGSTOP)
    try:
        shares(shop, "one")
        shop.start("main")
        arrives_and_is_computed(shop)
    finally:
        os.killpg(frozen.pid, signal.SIGCONT)
    shop.kill("one")
    until(
        lambda: shop.held_by() <= {"main", "two"} and shop.held_by(),
        "main or two have all partitions",
        seconds_max=240,
    )
    arrives_and_is_computed(shop)
    assert frozen.poll() is None
    check_all(shop)
