"""Homes that Spark reads: one written by hand, anew for each test, and one replayed for all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import SERVER
from tests.conftest import folder_on_memory
from tests.datasource.building import Medusa, Replayed, environment_of, read_by_medusa
from tests.trimming.building import Store, a_store, a_store_of_its_own


@pytest.fixture(scope="session")
def one_folder() -> Iterator[Path]:
    """Where all homes written by hand lie, one after the other: Spark keeps processes for each."""
    folder = folder_on_memory("medusa-datasource-")
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def store(
    postgres_server: EmbeddedServer, one_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    """A home of alpha with src, sums and big, in which nothing is written; the environment's."""
    with a_store(postgres_server, one_folder) as found:
        see(found, monkeypatch)
        yield found


@pytest.fixture
def store_of_its_own(
    postgres_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    """The same, whose database a test may make anew."""
    with a_store_of_its_own(postgres_server, tmp_path / "home") as found:
        see(found, monkeypatch)
        yield found


def see(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment be that of a home."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # what a refusal sets is undone after the test
    for name, value in environment_of(store).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def medusa(store: Store, spark: Any) -> Iterator[Medusa]:
    """The run's Spark session, whose Python processes see the store's home."""
    with Medusa(spark).seeing(environment_of(store)) as found:
        yield found


@pytest.fixture(scope="session")
def replayed(spark: Any) -> Iterator[Replayed]:
    """netmon over 6,000 generated connections, in several steps; nobody runs its server."""
    from medusa_core.knowledge import Limits
    from pipelines.language.load import load_network
    from pipelines.sources.generated_files import write_generated
    from tests.cli.kept import kept_replay

    folder = folder_on_memory("medusa-kept-")
    inputs = write_generated(folder / "input", seed=3, records=6_000, files=2, format="csv")
    limits = Limits(records_per_step_max=2_500)
    with kept_replay(folder, load_network("netmon"), inputs, spark, limits) as kept:
        rows = {s.stream.name: read_by_medusa(kept.home, s) for s in kept.home.catalog.streams()}
    yield Replayed(kept.directory, rows)
    EmbeddedServer(kept.directory / SERVER).discard()
    shutil.rmtree(folder, ignore_errors=True)
