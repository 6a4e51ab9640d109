"""Homes whose streams a test writes by hand: one alone, and a producer with a reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.changes.building import Lines, some_lines
from tests.recalls.building import Pair, a_pair


@pytest.fixture
def lines(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Lines]:
    with some_lines(postgres_server, tmp_path / "home") as found:
        yield found


@pytest.fixture
def pair(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Pair]:
    with a_pair(postgres_server, tmp_path / "homes") as found:
        yield found
