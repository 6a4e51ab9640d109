"""The three contenders of a case, each in a process of its own (`bench.worker`)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.answering import WIDTH_US, Answering
from bench.contender import Contender, Milliseconds, write_rows
from bench.language.batch_rows import SCHEMA, Batches
from bench.language.cases import CASES, Case
from bench.panes import cpu_s
from bench.process_tree import processes_of
from bench.streaming import POLLING_MS
from bench.workload import CLOSING_WINDOWS, Workload
from medusa_core.commits import Cause
from medusa_core.grid import Range
from medusa_core.names import StreamName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_case(name: str, session: SparkSession, folder: Path, workload: Workload) -> Contender:
    """The contender of that name for the case that the workload names."""
    case = CASES[workload.query]
    match name:
        case "medusa":
            return Product(session, folder, case, workload)
        case "bare":
            return BareSpark(session, folder, case)
        case "streaming":
            return Streaming(session, folder, case)
    raise AssertionError(f"no such contender: {name}")


class Product:
    """Steps of Medusa's engine. It makes the records of all windows, as segments."""

    def __init__(self, session: SparkSession, folder: Path, case: Case, workload: Workload) -> None:
        self._world = Answering(session, folder / "home", case.network)
        self._case, self._workload, self._inputs = case, workload, folder / "inputs"
        self._made: list[Path] = []

    def prepare(self, files: Sequence[Path]) -> Sequence[Path]:
        """A folder for each stream with a file for each window that has records of it."""
        assert not files, "Medusa makes the records itself"
        made = []
        for stream in self._case.streams:
            (self._inputs / stream).mkdir(parents=True)
            for window in range(self._workload.windows):
                records = self._case.records(
                    stream, window, self._workload.records, self._workload.sources
                )
                self._world.comes(stream, records, _window(window))
                for file in self._world.came[StreamName(stream)][-1].files:
                    path = self._inputs / stream / f"w{window:04}.parquet"
                    os.link(self._world.root / file.path, path)
                    made.append(path)
        return made

    def step(self, window: int) -> Milliseconds:
        """The window's step, from named segments to synced files and digests."""
        step = self._world.step(_window(window), Cause.NORMAL)

        def compute() -> Mapping[str, float]:
            result = self._world.engine.compute(step)
            self._made += [self._world.root / f.path for w in result.written for f in w.files]
            return result.metrics.phases_ms

        return _timed(compute)

    def finish(self) -> Mapping[str, Sequence[Path]]:
        """Compute the closing windows, too."""
        for window in _closing(self._workload.windows):
            self.step(window)
        return {"rows": self._made}

    def close(self) -> None:
        """Nothing runs between steps."""


class BareSpark:
    """One batch job for each window, whose rows are fetched and written as one file."""

    def __init__(self, session: SparkSession, folder: Path, case: Case) -> None:
        self._session, self._case, self._folder = session.newSession(), case, folder
        self._windows = 0

    def prepare(self, files: Sequence[Path]) -> Sequence[Path]:
        """Note where the records are."""
        (self._folder / "rows").mkdir()
        inputs = files[0].parents[1]
        self._batches = Batches(self._session, inputs, self._folder)
        self._windows = max(int(file.stem[1:]) for file in files) + 1
        return files

    def step(self, window: int) -> Milliseconds:
        """One job over the files that the window's rows need."""

        def compute() -> Mapping[str, float]:
            rows = self._case.batch(self._batches, window).toArrow()
            write_rows(self._folder / "rows", f"w{window:04}.parquet", rows)
            return {}

        return _timed(compute)

    def finish(self) -> Mapping[str, Sequence[Path]]:
        """Compute the closing windows, too."""
        for window in _closing(self._windows):
            self.step(window)
        return {"rows": sorted((self._folder / "rows").glob("*.parquet"))}

    def close(self) -> None:
        """Nothing runs between steps."""


class Streaming:
    """A running query of Structured Streaming over folders of files."""

    def __init__(self, session: SparkSession, folder: Path, case: Case) -> None:
        self._folder, self._case, self._last_batch = folder, case, -1
        self._files: Sequence[Path] = ()
        self._session = session.newSession()

    def prepare(self, files: Sequence[Path]) -> Sequence[Path]:
        """Start the query; it is given no records yet."""
        assert self._case.streamed is not None
        self._files = files
        self._session.conf.set("spark.sql.streaming.pollingDelay", f"{POLLING_MS}ms")
        for key, value in self._case.settings.items():
            self._session.conf.set(key, value)
        streams = {}
        for stream in self._case.streams:
            (self._folder / stream).mkdir()
            read = self._session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
            records = read.parquet(str(self._folder / stream))
            timed = records.selectExpr("*", "timestamp_micros(at_us) AS at")
            streams[stream] = timed.withWatermark("at", "0 seconds")
        (self._folder / "rows").mkdir()
        writer = self._case.streamed(streams).writeStream.outputMode("append")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        self._query = writer.foreachBatch(self._write).start()
        return files

    def _write(self, rows: DataFrame, batch: int) -> None:
        write_rows(self._folder / "rows", f"b{batch:04}.parquet", rows.toArrow())

    def step(self, window: int) -> Milliseconds:
        """The batches that read the window's files, without the waits between them."""

        def compute() -> Mapping[str, float]:
            for file in self._files:
                if file.stem == f"w{window:04}":
                    os.link(file, self._folder / file.parent.name / file.name)
            self._query.processAllAvailable()
            new = [p for p in self._query.recentProgress if p.batchId > self._last_batch]
            self._last_batch = new[-1].batchId
            return {"total": sum(p.durationMs.get("triggerExecution", 0) for p in new)}

        return _timed(compute)

    def finish(self) -> Mapping[str, Sequence[Path]]:
        """Close the last windows with those behind them, and stop."""
        for window in _closing(max(int(file.stem[1:]) for file in self._files) + 1):
            self.step(window)
        self._query.stop()
        return {"rows": sorted((self._folder / "rows").glob("*.parquet"))}

    def close(self) -> None:
        """Stop the query."""
        self._query.stop()


def _window(window: int) -> Range:
    return Range(window * WIDTH_US, (window + 1) * WIDTH_US)


def _closing(windows: int) -> range:
    return range(windows - CLOSING_WINDOWS, windows)


def _timed(compute: Callable[[], Mapping[str, float]]) -> Milliseconds:
    """`total` is the wall time, unless the phases have it; `cpu` that of the process tree."""
    pids = list(processes_of(os.getpid()))
    cpu, start = cpu_s(pids), time.perf_counter()
    phases = compute()
    passed_ms = (time.perf_counter() - start) * 1000
    return {"total": passed_ms, **phases, "cpu": (cpu_s(pids) - cpu) * 1000}
