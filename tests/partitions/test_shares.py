"""The share of a partition: each record is in one, the same in both engines."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.grid import Range
from medusa_core.network import Map, Network, Output, Partitions, Source
from medusa_core.partitions.shares import bounds_of, partition_of
from pipelines.base.settings import Engine
from pipelines.language.checked_partitions import with_checked_partitions
from pipelines.storage.arrow_schema import STIME
from tests.spark.conftest import counted_runs
from tests.spark.drawn.world import WIDTH_US, World
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART = Range(0, WIDTH_US)
N = 3
COLUMNS = {
    "at_us": "bigint", "from": "string", "i": "int", "l": "bigint", "b": "boolean", "d": "date",
    "t": "timestamp",
}  # fmt: skip
NETWORK = Network(
    name="keyed",
    sources=(Source(name="events", columns=COLUMNS, time="at_us"),),
    boxes=(Map(name="passed", input="events", columns={"at": "at_us"}),),
    outputs=(Output(name="out", input="passed"),),
    bucket=f"{WIDTH_US // 1_000_000}s",
    partitions={"main": Partitions(by=tuple(COLUMNS)[1:], n=N)},
)


def rows_of(count: int = 90) -> list[tuple[object, ...]]:
    texts = ("", "a", "ä|b", None, "日本", "A ")
    days = (date(1, 1, 1), date(1969, 12, 31), None, date(9999, 12, 31))
    return [
        (
            at, texts[at % 6], None if at % 7 == 0 else at - 40, (at - 45) * 3**35,
            (True, False, None)[at % 3], days[at % 4],
            datetime(1960 + at, 1, 2, 3, 4, 5, at * 7, tzinfo=UTC),
        )
        for at in range(count)
    ]  # fmt: skip


def share_by_hand(row: Sequence[object]) -> int:
    """By the words of the documentation: MD5 of the texts, and the thirds of its range."""
    _at, text, number, long, flag, day, time = row
    assert isinstance(time, datetime)
    us = (time - datetime(1970, 1, 1, tzinfo=UTC)) // (time.resolution)
    texts = [
        text, number, long, None if flag is None else str(flag).lower(),
        None if day is None else (day - date(1970, 1, 1)).days, us,
    ]  # type: ignore[attr-defined]  # fmt: skip
    joined = "|".join("" if value is None else str(value) for value in texts)
    return int(md5(joined.encode()).hexdigest()[:8], 16) * N // 2**32


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("engine", long_but(1, (Engine.KERNEL, Engine.SPARK)))
def test_each_engine_gives_a_partition_the_records_whose_hash_is_in_its_range(
    spark: SparkSession, tmp_path: Path, engine: Engine
) -> None:
    before = spark.conf.get("spark.medusa.engine")
    spark.conf.set("spark.medusa.engine", engine)
    try:
        world = World(spark, tmp_path, with_checked_partitions(NETWORK))
        rows = rows_of()
        columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
        world.comes("events", pa.table({**columns, STIME: columns["at_us"]}), PART)
        expected = [Counter[object]() for _ in range(N)]
        for row in rows:
            expected[share_by_hand(row)][row[0]] += 1
        for i, fragment in enumerate(world.fragments[:N]):
            assert fragment.name == f"main_p{i}"
            with counted_runs() as runs:
                result = world.engine.compute(world.step(fragment, PART))
            assert bool(runs) == (engine is Engine.KERNEL)
            ((_, found),) = world.rows_of(result)
            assert Counter(row[0] for row in found.elements()) == expected[i]  # type: ignore[index]
    finally:
        spark.conf.set("spark.medusa.engine", str(before))


@given(st.lists(st.text(), min_size=1, max_size=3), st.integers(2, 64))
def test_the_partition_of_a_key_is_the_range_that_its_hash_is_in(key: list[str], n: int) -> None:
    hashed = md5("|".join(key).encode("utf-8", "surrogatepass")).hexdigest()
    assert partition_of(key, n) == sum(bound <= hashed for bound in bounds_of(n))


@given(st.integers(2, 64))
def test_partitions_have_equal_parts_of_the_range_of_hashes(n: int) -> None:
    edges = [0, *(int(bound, 16) for bound in bounds_of(n)), 2**32]
    sizes = [to - from_ for from_, to in itertools.pairwise(edges)]
    assert max(sizes) - min(sizes) <= 1
