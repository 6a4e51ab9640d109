"""Generated connections: the same from the same seed, and shaped as netmon needs them."""

import hashlib
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.sources.generated_files import generate_connections, write_generated
from pipelines.sources.generator import DISORDER_US, SCHEMA, START_US
from pipelines.sources.recorded.reader import read_recorded
from tests.sweeps import long_but

SOURCE = Source(
    name="connections",
    columns={
        "seq": "bigint", "ts_us": "bigint", "orig_h": "string", "orig_p": "int",
        "resp_h": "string", "resp_p": "int", "proto": "string", "state": "string",
        "duration_us": "bigint", "orig_bytes": "bigint", "resp_bytes": "bigint",
    },
    time="ts_us",
)  # fmt: skip


def connections(seed: int, records: int, **figures: int) -> pa.Table:
    return pa.concat_tables(generate_connections(seed=seed, records=records, **figures))


def test_a_seed_gives_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    (file,) = write_generated(tmp_path, seed=7, records=5_000, packed=False)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == (
        "564f90dd856602c69464dfa3a6765cda763a845ea0e37712b1009b9b48197567"
    )
    assert not connections(8, 5_000).equals(connections(7, 5_000))


@pytest.mark.parametrize("seed", long_but(1, [0, 1, 2]))
def test_an_hour_has_dozens_of_busy_sources_scans_and_scanning_prefixes(seed: int) -> None:
    table = connections(seed, 200_000)
    assert table.schema == SCHEMA
    with duckdb.connect() as database:
        database.register("connections", table)
        database.execute(
            "CREATE TABLE per_source AS SELECT ts_us // 60000000 AS w, orig_h, count(*) AS n,"
            " count(DISTINCT resp_p) AS ports FROM connections GROUP BY ALL"
        )
        (counts,) = database.execute(
            "SELECT count(*) FILTER (n > 100), count(*) FILTER (ports > 10),"
            " count(*) FILTER (ports > 10 AND orig_h LIKE '%:%'),"
            " count(*) FILTER (n > 100 AND ports <= 10) FROM per_source"
        ).fetchall()
        (prefixes,) = database.execute(
            "SELECT count(*), count(*) FILTER (n > 1) FROM (SELECT w, count(*) AS n"
            " FROM per_source WHERE ports > 10 AND orig_h NOT LIKE '%:%'"
            " GROUP BY w, regexp_extract(orig_h, '^(.*)[.]', 1))"
        ).fetchall()
    assert min(counts) >= 5
    assert min(counts[0], counts[1], counts[3]) >= 50
    assert min(prefixes) >= 24


def test_records_come_in_arrival_order_with_bounded_disorder() -> None:
    table = connections(3, 100_000)
    times = table["ts_us"].to_numpy()
    assert table["seq"].to_pylist() == list(range(1, 100_001))
    behind = np.maximum.accumulate(times) - times
    assert 0 < behind.max() <= DISORDER_US
    assert times.min() >= START_US
    hour_us = 100_000 // 56 * 1_000_000
    assert 0.9 * hour_us < times.max() - times.min() < 1.1 * hour_us
    assert (np.diff(connections(3, 70_000, disorder_us=0)["ts_us"].to_numpy()) >= 0).all()


def test_addresses_are_those_set_aside_for_documentation_and_benchmarks() -> None:
    table = connections(4, 20_000, sources=60_000)
    hosts = set(table["orig_h"].to_pylist()) | set(table["resp_h"].to_pylist())
    allowed = ("192.0.2.", "198.51.100.", "203.0.113.", "198.18.", "198.19.", "2001:db8:")
    assert all(host.startswith(allowed) for host in hosts)
    assert {host.startswith("2001:") for host in hosts} == {True, False}


@pytest.mark.parametrize("form", ["csv.gz", "csv", "parquet"])
@pytest.mark.parametrize("files", [1, 3])
def test_written_files_read_back_as_what_was_generated(
    tmp_path: Path, form: str, files: int
) -> None:
    paths = write_generated(
        tmp_path, seed=5, records=10_000, files=files, format=form.split(".")[0],
        packed=form == "csv.gz",
    )  # fmt: skip
    assert [p.name for p in paths] == (
        [f"connections.{form}"] if files == 1 else [f"connections-00{i}.{form}" for i in (1, 2, 3)]
    )
    assert sorted(tmp_path.iterdir()) == paths
    chunks = list(read_recorded(SOURCE, paths))
    assert not any(chunk.quarantined for chunk in chunks)
    records = pa.concat_tables([chunk.records for chunk in chunks])
    assert records.drop(["_stime"]).equals(connections(5, 10_000))
    assert records["_stime"].equals(records["ts_us"])


@pytest.mark.parametrize("records", [0, 1, 2, 60])
def test_few_records_are_generated_too(records: int) -> None:
    tables = list(generate_connections(seed=1, records=records))
    assert sum(map(len, tables)) == records


def test_figures_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="sources"):
        connections(1, 10, sources=0)
    with pytest.raises(Refused, match="records"):
        connections(1, -1)
    with pytest.raises(Refused, match="neither csv nor parquet"):
        write_generated(tmp_path, seed=1, records=1, format="xml")
    with pytest.raises(Refused, match="at least 1 file"):
        write_generated(tmp_path, seed=1, records=1, files=0)
