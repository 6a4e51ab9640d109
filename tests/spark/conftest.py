"""What the tests of the Spark step share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.replaying import Replayer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def replayer(postgres_server: EmbeddedServer, spark: SparkSession, tmp_path: Path) -> Replayer:
    """Replays in the run's one server and session."""
    return Replayer(postgres_server, spark, tmp_path)
