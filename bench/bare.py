"""Contender (a): bare Spark, one batch job per step, no catalog.

Nothing is promised: no knowledge of finished steps, no digest, no lineage, no hash, nothing
synced. The session is the one that Medusa opens, with its settings for small steps (no adaptive
plans, as many shuffle partitions as cores): they are the fastest for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contender import Milliseconds, three_outputs, write_rows
from bench.workload import QUERIES, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "ts_us bigint, orig_h string, resp_p int"
SETS = "CAST(size(collect_set(resp_p)) AS bigint)"
PER_SOURCE = """
    SELECT ts_us div 60000000 * 60 AS window_start, orig_h, count(*) AS connections,
        {distinct} AS distinct_ports
    FROM {{records}} GROUP BY 1, 2
"""
TWO_GROUPINGS = """
    SELECT window_start, orig_h, sum(n) AS connections, count(resp_p) AS distinct_ports FROM (
        SELECT ts_us div 60000000 * 60 AS window_start, orig_h, resp_p, count(*) AS n
        FROM {records} GROUP BY 1, 2, 3
    ) GROUP BY 1, 2
"""
NOISY = "connections > 100 OR distinct_ports > 10"
PREFIXES = """
    SELECT window_start, substring_index(orig_h, '.', 3) || '.0/24' AS prefix24, count(*) AS ips
    FROM {per_source} WHERE distinct_ports > 10 AND NOT contains(orig_h, ':') GROUP BY 1, 2
"""
TAGGED = f"""
    SELECT 0 AS tag, * FROM {{per_source}} WHERE connections > 100
    UNION ALL SELECT 1, * FROM {{per_source}} WHERE distinct_ports > 10
    UNION ALL SELECT 2, window_start, prefix24, ips, NULL FROM ({PREFIXES})
"""

ONE_PARTITION_RECORDS_MAX = 20_000


def fastest_form(records: int) -> Mapping[str, Any]:
    """The form that won for steps of this size (bench/README.md, the tries)."""
    return {"partitions": 1} if records <= ONE_PARTITION_RECORDS_MAX else {"distinct": SETS}


Way = Callable[["Bare", "DataFrame", int], None]


class Bare:
    """Reads a window's file, aggregates, writes the outputs."""

    def __init__(
        self, session: SparkSession, folder: Path, query: str, way: str = "filter", *,
        distinct: str | None = None, settings: Mapping[str, str] | None = None,
        partitions: int = 0,
    ) -> None:  # fmt: skip
        self.session = session.newSession()
        for key, value in (settings or {}).items():
            self.session.conf.set(key, value)
        self.query: Query = QUERIES[query]
        self.way = WAYS[way]
        self.folder = folder
        self.per_source = PER_SOURCE.format(distinct=distinct) if distinct else TWO_GROUPINGS
        self._partitions = partitions
        self._files: Sequence[Path] = ()

    def prepare(self, files: Sequence[Path]) -> Sequence[Path]:
        """Make a folder for each output."""
        self._files = files
        for name in self.query.outputs:
            (self.folder / name).mkdir(parents=True)
        return files

    def step(self, window: int) -> Milliseconds:
        """One Spark job over the window's file (or more, where the way needs them)."""
        start = time.perf_counter()
        records = self.session.read.schema(SCHEMA).parquet(str(self._files[window]))
        if self._partitions:
            records = records.coalesce(self._partitions)
        self.way(self, self.session.sql(self.per_source, records=records), window)
        return {"total": (time.perf_counter() - start) * 1000}

    def finish(self) -> Mapping[str, Sequence[Path]]:
        """The files of each output."""
        return {name: sorted((self.folder / name).rglob("*.parquet"))
                for name in self.query.outputs}  # fmt: skip

    def close(self) -> None:
        """Nothing runs between steps."""

    def path(self, output: str, window: int) -> str:
        """Where Spark writes an output of a window."""
        return str(self.folder / output / f"w{window:04}")


def filter_in_spark(bare: Bare, per_source: DataFrame, window: int) -> None:
    """One aggregation in Spark; the few rows that matter come over and are split here."""
    rows = per_source.where(NOISY).toArrow()
    outputs = {"noisy_sources": rows} if bare.query.name == "one" else three_outputs(rows)
    for name, table in outputs.items():
        write_rows(bare.folder / name, f"w{window:04}.parquet", table)


def tag_in_spark(bare: Bare, per_source: DataFrame, window: int) -> None:
    """Everything in Spark: the aggregate is kept, one job gives the rows of all outputs, tagged."""
    import pyarrow.compute as pc

    per_source.persist()
    rows = bare.session.sql(TAGGED, per_source=per_source).toArrow()
    per_source.unpersist()
    for tag, name in enumerate(bare.query.outputs):
        mine = rows.filter(pc.equal(rows["tag"], tag)).drop_columns(["tag"])
        if name == "scanning_prefixes":
            mine = mine.drop_columns(["distinct_ports"])
            mine = mine.rename_columns(["window_start", "prefix24", "ips"])
        write_rows(bare.folder / name, f"w{window:04}.parquet", mine)


def write_in_spark(bare: Bare, per_source: DataFrame, window: int) -> None:
    """What a first version does: keep the aggregate and let Spark write each output."""
    if bare.query.name == "one":
        per_source.where(NOISY).coalesce(1).write.parquet(bare.path("noisy_sources", window))
        return
    per_source.persist()
    outputs = {
        "busy_sources": per_source.where("connections > 100"),
        "scanning_sources": per_source.where("distinct_ports > 10"),
        "scanning_prefixes": bare.session.sql(PREFIXES, per_source=per_source),
    }
    for name, frame in outputs.items():
        frame.coalesce(1).write.parquet(bare.path(name, window))
    per_source.unpersist()


WAYS: Mapping[str, Way] = {
    "filter": filter_in_spark,
    "tag": tag_in_spark,
    "write": write_in_spark,
}
