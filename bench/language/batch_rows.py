"""The rows of each case by bare Spark: one batch job over the files that a window's rows need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.answering import WIDTH_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "at_us bigint, key string, port int"
GAP_US = 1_000_000


@dataclass(frozen=True)
class Batches:
    """A session, the files of the streams by window, and a folder for what is stored."""

    session: SparkSession
    inputs: Path
    folder: Path

    def read(self, stream: str, first: int, last: int) -> DataFrame:
        """A stream's records of windows; empty where no window has a record."""
        files = (self.inputs / stream / f"w{at:04}.parquet" for at in range(first, last + 1))
        return self.read_files([file for file in files if file.exists()])

    def read_files(self, files: list[Path]) -> DataFrame:
        """The records of files."""
        if not files:
            return self.session.createDataFrame([], SCHEMA)
        return self.session.read.schema(SCHEMA).parquet(*map(str, files))


def joined_rows(batches: Batches, window: int) -> DataFrame:
    """Pairs of this window's records with each other and with those of the window before."""
    before = max(window - 1, 0)
    return batches.session.sql(
        f"""
        SELECT l.key, l.at_us AS left_us, r.at_us AS right_us FROM {{l}} l JOIN {{r}} r
        ON l.key = r.key AND r.at_us - l.at_us BETWEEN -2000000 AND 2000000
        WHERE greatest(l.at_us, r.at_us) >= {window * WIDTH_US}
        """,
        l=batches.read("left", before, window),
        r=batches.read("right", before, window),
    )


def looked_up_rows(batches: Batches, window: int) -> DataFrame:
    """The table has one record of each key, so that a plain join finds it."""
    return batches.session.sql(
        """
        SELECT l.at_us, l.key, t.port AS level FROM {l} l LEFT JOIN {t} t
        ON l.key = t.key AND t.at_us <= l.at_us AND t.at_us >= l.at_us - 3600000000
        """,
        l=batches.read("left", window, window),
        t=batches.read("right", 0, 0),
    )


def session_rows(batches: Batches, window: int) -> DataFrame:
    """Sessions that end in the window: none is longer than two windows."""
    records = batches.read("left", max(window - 2, 0), window)
    sessions = sessions_of(records.selectExpr("*", "timestamp_micros(at_us) AS at"))
    start_us = window * WIDTH_US
    closes = f"last_us + {GAP_US - 1}"
    return sessions.where(f"{closes} >= {start_us} AND {closes} < {start_us + WIDTH_US}")


def sessions_of(records: DataFrame) -> DataFrame:
    """A record exactly the gap later begins a new session, unlike in Spark: so 1 us less there."""
    from pyspark.sql import functions

    window = functions.session_window("at", f"{GAP_US - 1} microseconds")
    return records.groupBy(window, "key").agg(
        expression("count(*) AS n"), expression("sum(port) AS total"),
        expression("max(at_us) AS last_us"),
    ).select("key", "n", "total", "last_us")  # fmt: skip


def first_rows(batches: Batches, window: int) -> DataFrame:
    """First records, without those of keys that the rows of earlier windows have."""
    first = batches.session.sql(
        "SELECT min(at_us) AS at_us, key, min_by(port, at_us) AS port FROM {r} GROUP BY key",
        r=batches.read("left", window, window),
    )
    earlier = sorted((batches.folder / "rows").glob("*.parquet"))
    return first.join(batches.read_files(earlier), "key", "left_anti") if earlier else first


def running_rows(batches: Batches, window: int) -> DataFrame:
    """Sums over the window's records, added to totals that the window before has stored."""
    before, after = (batches.folder / f"totals-{at}" for at in (window, window + 1))
    empty = batches.session.createDataFrame([], "key string, n bigint, total bigint")
    totals = batches.session.read.parquet(str(before)) if before.exists() else empty
    records = batches.read("left", window, window)
    batches.session.sql(
        "SELECT key, sum(n) AS n, sum(total) AS total FROM (SELECT * FROM {totals} UNION ALL "
        "SELECT key, 1, port FROM {records}) GROUP BY key", totals=totals, records=records,
    ).write.parquet(str(after))  # fmt: skip
    return batches.session.sql(
        """
        SELECT r.at_us, r.key, coalesce(b.n, 0) + count(*) OVER w AS n,
            coalesce(b.total, 0) + sum(r.port) OVER w AS total
        FROM {records} r LEFT JOIN {totals} b ON r.key = b.key
        WINDOW w AS (PARTITION BY r.key ORDER BY r.at_us)
        """,
        totals=totals, records=records,
    )  # fmt: skip


def expression(text: str) -> Any:
    """A column by SQL; Spark is loaded in the contenders' processes alone."""
    from pyspark.sql import functions

    return functions.expr(text)
