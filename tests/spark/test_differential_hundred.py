"""A hundred drawn networks over six steps, ten in a deployment (see test_differential.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.drawn.trials import Drawing, hundred

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERIFIES = True
"""Prepared jobs are verified here."""


@pytest.mark.parametrize("drawing", hundred(), ids=str)
def test_drawn_networks_give_the_rows_that_duckdb_gives(
    spark: SparkSession, drawing: Drawing
) -> None:
    drawing.run(spark)


def test_they_are_a_hundred_over_six_steps() -> None:
    assert sum(drawing.networks for drawing in hundred()) == 100
    assert {drawing.steps for drawing in hundred()} == {6}
