"""The union over partitions is the result without them: drawn networks, compared with DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipelines.base.settings import Engine
from tests.partitions.drawn import PartitionedTrial, has_grouping, partitioned
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (49,)
"""A network of few boxes."""

MORE = (
    14,
    31,
    81,
    8,
    11,
    17,
    20,
    23,
    34,
    37,
    44,
    48,
    51,
    61,
    67,
    70,
    80,
    86,
    92,
    94,
    100,
    105,
    126,
    144,
)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("engine", long_but(1, (Engine.KERNEL, Engine.SPARK)))
@pytest.mark.parametrize("seed", long_but(len(SEEDS), (*SEEDS, *MORE)))
def test_partitions_of_drawn_networks_give_the_rows_that_duckdb_gives_without_partitions(
    spark: SparkSession, tmp_path: Path, seed: int, engine: Engine
) -> None:
    before = spark.conf.get("spark.medusa.engine")
    spark.conf.set("spark.medusa.engine", engine)
    try:
        PartitionedTrial(spark, tmp_path, seed).check()
    finally:
        spark.conf.set("spark.medusa.engine", str(before))


def test_the_drawn_networks_have_boxes_that_bring_records_together() -> None:
    for seed in SEEDS:
        network = partitioned(seed)
        assert network is not None
        assert has_grouping(network)
