"""Records dropped one by one: the same are kept by each engine, and however the input is cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.columns import Column
from medusa_core.commits import Cause
from medusa_core.digest import field_words, row_hashes
from medusa_core.drops.keeping import is_record_kept, seed_of
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Filter, Map, Network, Output, Source
from pipelines.base.settings import Engine
from pipelines.spark.inputs import InputRecords
from pipelines.spark.kept_records import rows_kept
from pipelines.storage.arrow_schema import STIME
from tests.spark.drawn.world import PLAN, WIDTH_US, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART = Range(600 * 1_000_000, 600 * 1_000_000 + 4 * WIDTH_US)
SHARE = 0.375
NETWORK = Network(
    name="passing",
    sources=(
        Source(name="events", columns={"at_us": "bigint", "name": "string"}, time="at_us"),
    ),
    boxes=(
        Filter(name="named", input="events", cases={"yes": "name is not null"}),
        Map(name="loud", input="named.yes", columns={"name": "upper(name)"}),
    ),
    outputs=(Output(name="out", input="loud"),),
    bucket=f"{WIDTH_US // 1_000_000}s",
)  # fmt: skip


def events(rows: int = 400) -> pa.Table:
    random = np.random.default_rng(7)
    at_us = np.sort(random.integers(PART.from_us, PART.to_us, rows))
    names = [None if n % 17 == 0 else f"n{n % 53}" for n in range(rows)]
    return pa.table({"at_us": at_us, "name": pa.array(names, pa.string()), STIME: at_us})


def kept_by_hand(table: pa.Table, share: float) -> list[bool]:
    """By the definition in plain Python."""
    seed = seed_of(PLAN)
    return [
        is_record_kept(row_hashes([field_words(2, at), field_words(5, name)])[0], share, seed)
        for at, name in zip(*(table[c].to_pylist() for c in ("at_us", "name")), strict=True)
    ]


@given(share=st.floats(0, 1))
def test_the_records_that_are_kept_are_those_of_the_definition(share: float) -> None:
    table = events(60)
    columns = (Column("at_us", "bigint"), Column("name", "string"))
    records = InputRecords(StreamName("events"), columns, ())
    assert rows_kept(table, records, share, PLAN).tolist() == kept_by_hand(table, share)


def rows_out(spark: SparkSession, root: Path, files: int, cuts: Sequence[int]) -> Counter[object]:
    """The rows of one output when the step over all buckets, or one for each part, is thinned."""
    root.mkdir()
    world, table = World(spark, root, NETWORK), events()
    world.comes("events", table, PART, files=files)
    found: Counter[object] = Counter()
    bounds = [PART.from_us, *(PART.from_us + n * WIDTH_US for n in cuts), PART.to_us]
    for from_us, to_us in pairwise(bounds):
        step = world.step(world.fragments[0], Range(from_us, to_us), Cause.TENTATIVE)
        reads = tuple(replace(read, drop_rate=1 - SHARE) for read in step.reads)
        result = world.engine.compute(replace(step, reads=reads))
        for _, rows in world.rows_of(result):
            found += rows
    return found


@pytest.mark.usefixtures("interpreted")
def test_both_engines_compute_what_is_kept_and_however_it_is_cut(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = events()
    rows = zip(table["name"].to_pylist(), kept_by_hand(table, SHARE), strict=True)
    expected = Counter(name.upper() for name, is_kept in rows if is_kept and name)
    before = spark.conf.get("spark.medusa.engine")
    try:
        for engine in (Engine.KERNEL, Engine.SPARK):
            spark.conf.set("spark.medusa.engine", engine)
            whole = rows_out(spark, tmp_path / f"{engine} whole", 1, ())
            cut = rows_out(spark, tmp_path / f"{engine} cut", 2, (1, 3))
            assert whole == cut
            assert Counter(row[0] for row in whole.elements()) == expected  # type: ignore[index]
    finally:
        spark.conf.set("spark.medusa.engine", str(before))
