"""What the tests of live sources share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sources.live.building import Landing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    """A home in memory."""
    return Landing(tmp_path)


@pytest.fixture
def watching(tmp_path: Path, spark: SparkSession) -> Landing:
    """A home in memory whose sources may use the run's Spark session."""
    return Landing(tmp_path, session=lambda: spark)
