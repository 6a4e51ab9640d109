"""Two offices for all tests of the folder: each test begins with homes that know nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.partners.offices import Office, office


@pytest.fixture(scope="package")
def served(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Office, Office]]:
    folder: Path = tmp_path_factory.mktemp("offices")
    with (
        office(postgres_server, folder / "a", "alpha") as alpha,
        office(postgres_server, folder / "b", "beta") as beta,
    ):
        yield alpha, beta


@pytest.fixture
def offices(served: tuple[Office, Office]) -> tuple[Office, Office]:
    """Those of alpha and of beta, who do not know each other."""
    for one in served:
        one.forget()
    return served
