"""The recorded test data: CSV and Parquet of each folder are the same, the answers export as is."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from medusa_core.columns import Column
from medusa_core.network import Source
from pipelines.base.settings import Settings
from pipelines.sources.recorded.reader import read_recorded_file
from pipelines.storage.csv_export import export_csv
from tests.sweeps import long_but

DATA = Settings.from_environment(os.environ).test_data
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no test data at {DATA}")

CONNECTIONS = {
    "seq": "bigint", "ts_us": "bigint", "orig_h": "string", "orig_p": "int", "resp_h": "string",
    "resp_p": "int", "proto": "string", "state": "string", "duration_us": "bigint",
    "orig_bytes": "bigint", "resp_bytes": "bigint",
}  # fmt: skip
TICKS = {"seq": "bigint", "ts_us": "bigint", "symbol": "string"}
RECORDED = {
    "netmon-honeypot-p0f/connections": (235_236, CONNECTIONS),
    "netmon-wrccdc2018/connections": (70_975, CONNECTIONS),
    "netmon-zeek-server/connections": (70_459, CONNECTIONS),
    "sensors-aarhus-traffic/readings": (
        827_265,
        {"seq": "bigint", "ts_us": "bigint", "report_id": "int", "avg_speed": "int",
         "vehicle_count": "int", "avg_measured_time": "int", "median_measured_time": "int"},
    ),
    "ticks-taq/trades": (
        39_470,
        {**TICKS, "ex": "string", "price": "double", "size": "bigint", "cond": "string",
         "corr": "int"},
    ),
    "ticks-taq/quotes": (
        66_695,
        {**TICKS, "ex": "string", "bid": "decimal(12,4)", "bid_size": "bigint",
         "ofr": "decimal(12,4)", "ofr_size": "bigint"},
    ),
    "ticks-taq/multi_trades": (43_581, {**TICKS, "price": "decimal(12,4)", "size": "bigint"}),
}  # fmt: skip


@pytest.mark.parametrize("name", long_but(2, RECORDED))
def test_csv_and_parquet_of_the_test_data_hold_the_same_records(name: str) -> None:
    count, columns = RECORDED[name]
    source = Source(name="recorded", columns=columns, time="ts_us")
    tables = []
    for ending in (".csv.gz", ".parquet"):
        chunks = list(read_recorded_file(source, DATA / (name + ending)))
        assert not any(chunk.quarantined for chunk in chunks)
        assert [len(c.records) for c in chunks[:-1]] == [250_000] * (len(chunks) - 1)
        tables.append(pa.concat_tables([chunk.records for chunk in chunks]))
    from_csv, from_parquet = tables
    assert len(from_csv) == count
    assert from_csv.equals(from_parquet)
    assert from_csv["seq"].to_numpy().tolist() == list(range(1, count + 1))
    assert from_csv["_stime"].equals(from_csv["ts_us"])


@pytest.mark.parametrize(
    "answer", sorted(DATA.glob("*/expected/*.csv")), ids=lambda p: f"{p.parts[-3]}/{p.name}"
)
def test_an_answer_exports_byte_for_byte_from_its_shuffled_rows(
    tmp_path: Path, answer: Path
) -> None:
    table = pyarrow.csv.read_csv(answer)
    types = {"int64": "bigint", "double": "double", "string": "string"}
    columns = [Column(field.name, types[str(field.type)]) for field in table.schema]
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    again = tmp_path / "again.csv"
    assert export_csv(again, columns, [shuffled]) == len(table)
    assert again.read_bytes() == answer.read_bytes()
