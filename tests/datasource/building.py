"""A user's side of the data source: a Spark session, and queries that a test drives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.grid import Range
from pipelines.base.settings import REPOSITORY
from pipelines.catalog.records import StreamStatus
from pipelines.homes.home import Home
from pipelines.report.figures import stream_figures
from pipelines.spark.classes import reading
from pipelines.spark.java import java_home
from pipelines.storage.segment_rows import columns_of
from pipelines.storage.stable_rows import read_rows

if TYPE_CHECKING:
    from tests.trimming.building import Store

JOB_S_MAX = 300
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Replayed:
    """A home that was kept and closed; `rows` are those of `medusa read`, with event time first."""

    directory: Path
    rows: Mapping[str, Sequence[Row]]


def read_by_medusa(home: Home, status: StreamStatus) -> Sequence[Row]:
    """What `medusa read` gives of a stream: event time in microseconds, then the columns."""
    of = stream_figures(home, status)
    assert status.origin_us is not None
    assert of.stable_through_us is not None
    part = Range(status.origin_us, of.stable_through_us)
    rows = read_rows(home.storage, of.segments, columns_of(status.stream), part, 10**9)
    return [(at, *values) for at, values in zip(rows.stimes_us, rows.values, strict=True)]


def environment_of(store: Store) -> dict[str, str]:
    """What says where a store's home is."""
    return {
        "MEDUSA_DIR": str(store.settings.directory),
        "MEDUSA_CATALOG_URL": str(store.settings.catalog_url),
    }


@dataclass(frozen=True)
class Medusa:
    """Reads with `format("medusa")` in a session."""

    spark: Any

    @contextmanager
    def seeing(self, environment: Mapping[str, str]) -> Iterator[Medusa]:
        """The session's Python processes have these variables; ours has to have them too."""
        from pipelines.datasource import register

        seen = self.spark.sparkContext.environment
        before = dict(seen)
        seen.update(environment)
        try:
            register(self.spark)
            yield self
        finally:
            seen.clear()
            seen.update(before)

    def read(self, stream: str, schema: str | None = None, **options: object) -> Any:
        """A DataFrame."""
        reader = self.spark.read.format("medusa").options(stream=stream, **options)
        return (reader.schema(schema) if schema else reader).load()

    def rows(self, stream: str, schema: str | None = None, **options: object) -> list[Row]:
        """Its rows, sorted."""
        return sorted(tuple(row) for row in self.read(stream, schema, **options).collect())

    def drain(
        self, stream: str, checkpoint: Path, sink: Sink | None = None, **options: object
    ) -> Sink:
        """Run a streaming query over all that is available, to its end."""
        sink = sink or Sink()
        source = self.spark.readStream.format("medusa").options(stream=stream, **options).load()
        query = (
            source.writeStream.foreachBatch(sink.take)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return sink


@dataclass
class Sink:
    """Takes batches by their number, as a sink has to that is to hold every row once."""

    batches: dict[int, list[Row]] = field(default_factory=dict)
    seen: list[tuple[int, list[Row]]] = field(default_factory=list)
    breaks_at: int | None = None

    def take(self, batch: Any, number: int) -> None:
        """Write a batch; where it is to break, only after that."""
        rows = sorted(tuple(row) for row in batch.collect())
        self.seen.append((number, rows))
        self.batches[number] = rows
        if number == self.breaks_at:
            raise ConnectionResetError("the sink went away after it had written")

    @property
    def rows(self) -> list[Row]:
        """All rows, sorted."""
        return sorted(row for rows in self.batches.values() for row in rows)


def run_job(
    script: Path, directory: Path, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """A Spark program of a user's own: of Medusa it has where a home is, and what it imports."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MEDUSA_", "SPARK_"))}
    java = java_home(folder)
    # What may be told from outside: to begin sooner, to leave nothing elsewhere if killed, and that
    # there are few rows (200 partitions are Spark's own choice).
    told = (*reading(java), f"-Djava.io.tmpdir={folder}")
    options = " ".join((os.environ.get("JDK_JAVA_OPTIONS", ""), *(f'"{one}"' for one in told)))
    environment |= {
        "MEDUSA_DIR": str(directory),
        "JAVA_HOME": java,
        "JDK_JAVA_OPTIONS": options,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false "
        "--conf spark.sql.shuffle.partitions=2 "
        "--driver-java-options -Dderby.system.home=. pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(REPOSITORY),
    }
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=JOB_S_MAX,
        check=False,
    )
