"""The first third of the sweep of drawn networks (see test_differential.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.drawn.trials import Drawing, part_of_sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERIFIES = True
"""Prepared jobs are verified here."""


@pytest.mark.differential_long
@pytest.mark.parametrize("drawing", part_of_sweep(0), ids=str)
def test_drawn_networks_give_the_rows_that_duckdb_gives(
    spark: SparkSession, drawing: Drawing
) -> None:
    drawing.run_once(spark)
