"""Replays that all tests of the checks share, each kept open for the whole run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.language.load import load_network
from pipelines.sources.generated_files import write_generated
from tests.conftest import folder_on_memory
from tests.quality.homes import SECOND_US, Checked, checked_home, mixed, mixed_inputs
from tests.replaying import Replayer, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A folder for the homes."""
    made = folder_on_memory("medusa-quality-")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def netmon(postgres_server: EmbeddedServer, spark: SparkSession, folder: Path) -> Iterator[Checked]:
    """Generated connections."""
    inputs = write_generated(folder / "input", seed=5, records=6_000, files=2, format="csv")
    replayer = Replayer(postgres_server, spark, folder / "netmon")
    network = load_network("netmon")
    with checked_home(replayer, network, {"connections": inputs}, width_s=10,
                      records_per_step_max=2_500) as checked:  # fmt: skip
        yield checked


@pytest.fixture(scope="session")
def road_sensors(
    postgres_server: EmbeddedServer, spark: SparkSession, folder: Path
) -> Iterator[Checked]:
    """Readings of three sensors over two hours."""
    rows = [
        {"ts_us": at * 60 * SECOND_US, "report_id": at % 3, "avg_speed": (at * 7) % 90,
         "vehicle_count": (at * at) % 60}
        for at in range(120)
    ]  # fmt: skip
    schema = pa.schema([("ts_us", pa.int64()), *((n, pa.int32()) for n in list(rows[0])[1:])])
    table = pa.Table.from_pylist(rows, schema=schema)
    files = parquet_files(folder / "readings", table)
    replayer = Replayer(postgres_server, spark, folder / "roads")
    with checked_home(replayer, load_network("road_sensors"), {"readings": files},
                      width_s=300, records_per_step_max=50) as checked:  # fmt: skip
        yield checked


@pytest.fixture(scope="session")
def trade_bars(
    postgres_server: EmbeddedServer, spark: SparkSession, folder: Path
) -> Iterator[Checked]:
    """Ticks of two symbols, many at one time, some without a price."""
    ticks = [
        {"seq": at, "ts_us": at // 3 * SECOND_US, "symbol": "AB"[at % 2],
         "price": None if at % 11 == 0 else (at * 37) % 100 / 4, "size": at % 9, "ex": "NT"[at % 2]}
        for at in range(600)
    ]  # fmt: skip
    trade = pa.schema([("seq", pa.int64()), ("ts_us", pa.int64()), ("symbol", pa.string()),
                       ("price", pa.float64()), ("size", pa.int64()),
                       ("ex", pa.string())])  # fmt: skip
    quote = pa.schema([("ts_us", pa.int64()), ("ex", pa.string()), ("bid", pa.float64()),
                       ("ofr", pa.float64())])  # fmt: skip
    quotes = [
        {"ts_us": t["ts_us"], "ex": t["ex"], "bid": t["size"] * 1.5, "ofr": 4.0} for t in ticks
    ]
    trades = pa.Table.from_pylist(ticks, schema=trade)
    tables = {"trades": trades, "multi_trades": trades.drop_columns(["ex"]),
              "quotes": pa.Table.from_pylist(quotes, schema=quote)}  # fmt: skip
    inputs = {name: parquet_files(folder / name, table) for name, table in tables.items()}
    replayer = Replayer(postgres_server, spark, folder / "bars")
    with checked_home(replayer, load_network("trade_bars"), inputs, width_s=60) as checked:
        yield checked


@pytest.fixture(scope="session")
def both_engines(
    postgres_server: EmbeddedServer, spark: SparkSession, folder: Path
) -> Iterator[Checked]:
    """A network of which some boxes are left to Spark."""
    replayer = Replayer(postgres_server, spark, folder / "mixed")
    inputs = mixed_inputs(folder / "mixed input")
    with checked_home(replayer, mixed, inputs, width_s=10) as checked:
        yield checked
