"""A user's own Spark program: the documented one as it is written, and one that is killed.

`make test` runs the documented program in the session of the tests, `make test-long` all of them in
processes and JVMs of their own.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipelines.base.settings import REPOSITORY
from tests.datasource.building import Medusa, Replayed, run_job

BLOCKS = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs/datasource.md").read_text(), re.S)
JOINED = ("busy_sources", "scanning_sources")

KILLED = '''\
"""Streams a stream into files by batch, and kills itself after writing the batch it is told."""
import os
import signal
import sys

from pyspark.sql import SparkSession

from pipelines.datasource import register

stream, kill_at = sys.argv[1], int(sys.argv[2])
spark = SparkSession.builder.getOrCreate()
register(spark)


def write(batch, number):
    batch.toPandas().to_parquet(f"batch-{number:03}.parquet", index=False)
    if number == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


reader = spark.readStream.format("medusa").option("stream", stream)
query = (
    reader.option("maxBucketsPerTrigger", 3).load()
    .writeStream.foreachBatch(write).option("checkpointLocation", "checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
'''


@pytest.mark.long
def test_the_documented_job_joins_two_streams_and_streams_one(
    replayed: Replayed,
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(BLOCKS[0].splitlines()) <= 10
    # The working folder of the JVM of the tests is not this test's.
    job = re.sub(r'"(busy|busy\.at)"\)', rf'"{tmp_path}/\1")', "\n".join(BLOCKS))
    environment = {"MEDUSA_DIR": str(replayed.directory)}
    monkeypatch.setenv("MEDUSA_DIR", environment["MEDUSA_DIR"])
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    with Medusa(spark).seeing(environment):
        exec(compile(job, "docs/datasource.md", "exec"), {})
    check_results(capsys.readouterr().out, replayed, tmp_path)


@pytest.mark.long
def test_the_documented_job_runs_in_a_process_of_its_own(
    replayed: Replayed, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text("\n".join(BLOCKS))
    ran = run_job(tmp_path / "job.py", replayed.directory, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    check_results(ran.stdout, replayed, tmp_path)


def check_results(printed: str, replayed: Replayed, folder: Path) -> None:
    """The rows that the job printed and wrote are those of `medusa read`."""
    lines = [[cell.strip() for cell in line.split("|")] for line in printed.splitlines()]
    shown = {(int(c[1]), c[2]) for c in lines if len(c) > 2 and c[1].isdigit()}
    busy, scanning = ({row[1:3] for row in replayed.rows[s]} for s in JOINED)
    assert 0 < len(busy & scanning) <= 20, "as many as the example shows"
    assert shown == busy & scanning
    columns = ("window_start", "orig_h", "connections", "distinct_ports")
    streamed = [tuple(r[c] for c in columns) for r in pq.read_table(folder / "busy").to_pylist()]
    assert sorted(streamed) == sorted(row[1:] for row in replayed.rows["busy_sources"])


@pytest.mark.long
def test_a_job_killed_between_writing_and_committing_a_batch_has_every_row_once_in_the_end(
    replayed: Replayed, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(KILLED)
    arguments = (tmp_path / "job.py", replayed.directory, "connections")
    killed = run_job(*arguments, "1", folder=tmp_path)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3_000:]
    before = {path.name: pq.read_table(path) for path in tmp_path.glob("batch-*.parquet")}
    ran = run_job(*arguments, "-1", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    after = {path.name: pq.read_table(path) for path in tmp_path.glob("batch-*.parquet")}
    assert set(before) == {"batch-000.parquet", "batch-001.parquet"}
    assert len(after) > len(before)
    for name, table in before.items():
        assert after[name].equals(table), f"{name}: a batch tried again has the same rows"
    columns = ("ts_us", "orig_h", "resp_p")
    rows = [tuple(r[c] for c in columns) for table in after.values() for r in table.to_pylist()]
    assert sorted(rows) == sorted(row[1:] for row in replayed.rows["connections"])
