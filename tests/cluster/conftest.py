"""Records, and what a local run says of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from pipelines.homes.home import open_home
from pipelines.quality.check_run import run_checks
from pipelines.quality.windows import WindowRequest
from tests.cluster.clustered import (
    ROWS,
    SOLO,
    Answers,
    answers,
    home_of,
    supervised,
    wait_for_end,
    write_contracts,
)
from tests.conftest import folder_on_memory
from tests.replaying import parquet_files

if TYPE_CHECKING:
    from pipelines.catalog.server.embedded_server import EmbeddedServer


@pytest.fixture(scope="package")
def records() -> Iterator[Path]:
    """Two minutes from 3,000 sources to as many ports."""
    chance = np.random.default_rng(7)
    times = np.sort(chance.integers(0, 120_000_000, ROWS)) + 1_600_000_000_000_000
    table = pa.table(
        {
            "ts_us": pa.array(times, pa.int64()),
            "orig_h": pa.array([f"host{n}" for n in chance.integers(0, 3_000, ROWS)]),
            "resp_p": pa.array(chance.integers(0, 3_000, ROWS), pa.int32()),
        }
    )
    folder = folder_on_memory("medusa-cluster-")
    (records,) = parquet_files(folder / "given", table)
    yield records
    shutil.rmtree(folder)


@pytest.fixture(scope="package")
def contracts(records: Path) -> Path:
    return write_contracts(records.parents[1] / "contracts", records)


@pytest.fixture(scope="package")
def local(
    postgres_server: EmbeddedServer, contracts: Path, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    """What the job says when its steps run in its own process, checked by another engine."""
    folder = tmp_path_factory.mktemp("local")
    with home_of(postgres_server, folder, contracts) as settings:
        with supervised(settings, None) as job:
            wait_for_end(settings, job)
        found = answers(settings)
        with open_home(settings, SOLO) as home:
            outcome = run_checks(home, WindowRequest(stream=None, from_us=None, to_us=None))
        assert outcome.passed, outcome
    assert len(found["counted"]) >= 12
    return found
