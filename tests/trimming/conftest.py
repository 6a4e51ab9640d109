"""A home with files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.trimming.building import Store, a_store


@pytest.fixture
def store(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Store]:
    """A home of alpha where the example is deployed and nothing is written."""
    with a_store(postgres_server, tmp_path / "home") as found:
        yield found
