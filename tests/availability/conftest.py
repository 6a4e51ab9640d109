"""One pair of homes for the tests of the advice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.cli.watched import Watched, watched_homes


@pytest.fixture
def watched(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Watched]:
    with watched_homes(postgres_server, tmp_path) as homes:
        yield homes
