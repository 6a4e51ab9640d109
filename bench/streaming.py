"""Contender (b): Structured Streaming, append mode, exact distinct counts, the fastest we found.

One stateful query: windows of 60 s per source, closed by a watermark without delay, one file to a
micro-batch. A batch closes the window before the previous one, so a window's rows come out two
batches after its records; the closing windows at the end make up for that. The time of a step is
the engine's own `triggerExecution` of its micro-batch: not the polling for the file, not the wait
of the caller. Nothing is synced to disk by Spark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.bare import NOISY, SCHEMA
from bench.contender import Milliseconds, three_outputs, write_rows
from bench.workload import CLOSING_WINDOWS, QUERIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STREAMING = "spark.sql.streaming."
_STATE = "org.apache.spark.sql.execution.streaming.state."
_FILES = "org.apache.spark.sql.execution.streaming.checkpointing."

ONE_BATCH_PER_FILE = {f"{_STREAMING}noDataMicroBatches.enabled": "false"}
EMPTY_BATCHES = {f"{_STREAMING}noDataMicroBatches.enabled": "true"}
HDFS_STATE = {f"{_STREAMING}stateStore.providerClass": f"{_STATE}HDFSBackedStateStoreProvider"}
ROCKSDB_STATE = {f"{_STREAMING}stateStore.providerClass": f"{_STATE}RocksDBStateStoreProvider"}
CHANGELOG = {f"{_STREAMING}stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
PLAIN_RENAMES = {
    f"{_STREAMING}checkpointFileManagerClass": f"{_FILES}FileSystemBasedCheckpointFileManager"
}
"""The default manager starts processes (readlink, chmod) for every file on a local disk."""
DEFAULT_RENAMES = {
    f"{_STREAMING}checkpointFileManagerClass": f"{_FILES}FileContextBasedCheckpointFileManager"
}
NO_CHECKSUMS = {f"{_STREAMING}checkpoint.fileChecksum.enabled": "false"}
CHECKSUMS = {f"{_STREAMING}checkpoint.fileChecksum.enabled": "true"}
ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
TWO_PARTITIONS = {"spark.sql.shuffle.partitions": "2"}
ADAPTIVE = {"spark.sql.adaptive.enabled": "true"}
FEW_KEPT = {f"{_STREAMING}minBatchesToRetain": "2"}
NO_CHECKS = {
    f"{_STREAMING}stateStore.commitValidation.enabled": "false",
    f"{_STREAMING}stateStore.formatValidation.enabled": "false",
    f"{_STREAMING}stateStore.stateSchemaCheck": "false",
    f"{_STREAMING}statefulOperator.checkCorrectness.enabled": "false",
    f"{_STREAMING}stateStore.numStateStoreInstanceMetricsToReport": "0",
}
CHECKS = {key: "true" for key in NO_CHECKS if not key.endswith("ToReport")}
NO_CODEGEN = {"spark.sql.codegen.wholeStage": "false"}

COLUMNS = ("unix_seconds(window.start) AS window_start", "orig_h", "connections", "distinct_ports")

POLLING_MS = 100
"""How often an idle query looks for files: rarely, so that it takes no CPU from the others."""

FASTEST = {
    **ONE_BATCH_PER_FILE,
    **HDFS_STATE,
    **PLAIN_RENAMES,
    **NO_CHECKSUMS,
    **NO_CHECKS,
}
FASTEST_SMALL = {**FASTEST, **ONE_PARTITION}
FASTEST_LARGE = {**FASTEST, **TWO_PARTITIONS}


def fastest_settings(records: int) -> Mapping[str, str]:
    """The settings that won for steps of this size (bench/README.md, the tries)."""
    return FASTEST_SMALL if records <= 20_000 else FASTEST_LARGE


@dataclass(kw_only=True)
class Streaming:
    """A running query; a step hands it one more file."""

    session: SparkSession
    folder: Path
    query: str
    settings: Mapping[str, str]
    distinct: str = "set"
    sink: str = "callback"
    checkpoint: Path | None = None
    disorder: str = "0 seconds"
    format: str = "parquet"
    schema: str = SCHEMA
    files_per_batch: int = 1
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files: Sequence[Path] = ()
        self._last_batch = -1
        self._fed = 0
        self._stream: Any = None

    def prepare(self, files: Sequence[Path]) -> Sequence[Path]:
        """Start the query over an empty folder."""
        self._files = files
        for name in ("source", *QUERIES[self.query].outputs):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        session = self.session.newSession()
        session.conf.set(f"{_STREAMING}pollingDelay", f"{POLLING_MS}ms")
        for key, value in self.settings.items():
            session.conf.set(key, value)
        records = (
            session.readStream.schema(self.schema)
            .option("maxFilesPerTrigger", self.files_per_batch)
            .option("header", "true")  # of CSV; Parquet has no such option
            .format(self.format)
            .load(str(self.folder / "source"))
            .selectExpr("orig_h", "resp_p", "timestamp_micros(ts_us) AS at")
            .withWatermark("at", self.disorder)
        )
        noisy = DISTINCT[self.distinct](records).where(NOISY)
        checkpoint = self.checkpoint or self.folder / "checkpoint"
        writer = noisy.writeStream.outputMode("append").option(
            "checkpointLocation", str(checkpoint)
        )
        for key, value in self.options.items():
            writer = writer.option(key, value)
        if self.sink == "callback":
            writer = writer.foreachBatch(self._write)
        elif self.sink == "spark":
            writer = writer.foreachBatch(self._write_in_spark)
        elif self.sink == "file":
            assert self.query == "one", "a file sink has one output"
            writer = writer.format("parquet").option("path", str(self.folder / "noisy_sources"))
        else:
            writer = writer.format(self.sink)
        self._stream = writer.start()
        return files

    def step(self, window: int) -> Milliseconds:
        """Give the query the window's file and wait until the batch is committed."""
        start = time.perf_counter()
        os.link(self._files[window], self.folder / "source" / f"w{window:04}.parquet")
        self._fed = window + 1
        self._stream.processAllAvailable()
        waited_ms = (time.perf_counter() - start) * 1000
        ms: dict[str, float] = {}
        for progress in self._stream.recentProgress:
            if progress.batchId > self._last_batch and "addBatch" in progress.durationMs:
                last_batch = progress.batchId
                for phase, took_ms in progress.durationMs.items():
                    ms[phase] = ms.get(phase, 0.0) + took_ms
        self._last_batch = last_batch
        return {"total": ms.pop("triggerExecution"), "waited": waited_ms, **ms}

    def replay(self, files: Sequence[Path]) -> None:
        """Run the query over all files, in their order, and stop; the last one closes windows."""
        (self.folder / "source").mkdir(parents=True)
        for number, file in enumerate(files):
            name = f"{number:04}{''.join(file.suffixes)}"
            os.link(file, self.folder / "source" / name)
        self.prepare(files)
        self._stream.processAllAvailable()
        self._stream.stop()

    def finish(self) -> Mapping[str, Sequence[Path]]:
        """Close the last windows with those behind them, and stop."""
        for window in range(self._fed, self._fed + CLOSING_WINDOWS):
            self.step(window)
        self._stream.stop()
        outputs = QUERIES[self.query].outputs
        return {name: sorted((self.folder / name).rglob("*.parquet")) for name in outputs}

    def close(self) -> None:
        """Stop the query."""
        if self._stream is not None:
            self._stream.stop()

    def _write(self, closed: DataFrame, batch: int) -> None:
        rows = closed.toArrow()
        outputs = {"noisy_sources": rows} if self.query == "one" else three_outputs(rows)
        for name, table in outputs.items():
            write_rows(self.folder / name, f"b{batch:04}.parquet", table)

    def _write_in_spark(self, closed: DataFrame, batch: int) -> None:
        from bench.bare import PREFIXES

        closed.persist()
        outputs = {
            "busy_sources": closed.where("connections > 100"),
            "scanning_sources": closed.where("distinct_ports > 10"),
            "scanning_prefixes": closed.sparkSession.sql(PREFIXES, per_source=closed),
        }
        for name, frame in outputs.items():
            frame.coalesce(1).write.parquet(str(self.folder / name / f"b{batch:04}"))
        closed.unpersist()


def by_sets(records: DataFrame) -> DataFrame:
    """One aggregation: the set of a source's ports is its state."""
    return records.groupBy(_window("at"), "orig_h").agg(
        _expr("count(*) AS connections"),
        _expr("CAST(size(collect_set(resp_p)) AS bigint) AS distinct_ports"),
    ).selectExpr(*COLUMNS)  # fmt: skip


def by_chain(records: DataFrame) -> DataFrame:
    """Two chained aggregations: per source and port, then per source."""
    per_port = records.groupBy(_window("at"), "orig_h", "resp_p").agg(_expr("count(*) AS n"))
    return per_port.groupBy(_window("window_time(window)"), "orig_h").agg(
        _expr("sum(n) AS connections"), _expr("count(*) AS distinct_ports")
    ).selectExpr(*COLUMNS)  # fmt: skip


DISTINCT = {"set": by_sets, "chain": by_chain}


def _window(time_column: str) -> Any:
    from pyspark.sql import functions

    return functions.window(functions.expr(time_column), "60 seconds")


def _expr(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)
