"""Spellings that other systems have too, taken in a SQL file: the rows are those of DuckDB."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.language.sql.sql_file import network_of_sql_text
from tests.replaying import Replayer

START_S = 1_699_999_800
"""A multiple of five minutes."""

FILE = """
CREATE SOURCE ticks (ts BIGINT, symbol VARCHAR, venue TEXT, price NUMERIC(10, 2), lot DECIMAL(5),
                     is_odd BOOL, weight DOUBLE PRECISION)
WITH (time = 'ts');

CREATE STREAM bars AS
SELECT window_start, symbol, count(*) AS n, sum(price) AS total, max(lot) AS lot,
       bool_or(is_odd) AS odd, max(weight) AS heaviest
FROM TUMBLE(TABLE ticks, INTERVAL '5' MIN)
WHERE lot BETWEEN 3 AND 90
GROUP BY 1, 2;

CREATE STREAM sizes AS
SELECT ALL ts, venue, CASE WHEN lot > 50 THEN 'big' END AS size FROM ticks;

CREATE VIEW numbered AS
SELECT window_start, ts, symbol, price, n FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, symbol ORDER BY stime) AS n
    FROM TUMBLE(TABLE ticks, INTERVAL '5 min')
);
CREATE VIEW earlier AS SELECT symbol, price, n + 1 AS n FROM numbered;
CREATE STREAM with_previous AS
SELECT a.ts, a.symbol, a.price, b.price AS previous
FROM numbered AS a
JOIN earlier AS b ON a.symbol = b.symbol AND a.n = b.n AND b.stime = a.stime;
"""

JUDGED = {
    "bars": """
        SELECT time_bucket(INTERVAL '5 min', make_timestamp(ts * 1000000)) AS window_start, symbol,
               count(*) AS n, sum(price) AS total, max(lot) AS lot, bool_or(is_odd) AS odd,
               max(weight) AS heaviest
        FROM ticks WHERE lot BETWEEN 3 AND 90 GROUP BY 1, 2""",
    "sizes": "SELECT ALL ts, venue, CASE WHEN lot > 50 THEN 'big' END AS size FROM ticks",
    "with_previous": """
        SELECT * FROM (
            SELECT ts, symbol, price, LAG(price) OVER (
                PARTITION BY symbol, ts // 300 ORDER BY ts
            ) AS previous FROM ticks
        ) WHERE previous IS NOT NULL""",
}


@pytest.mark.long
def test_spellings_of_other_systems_give_the_rows_of_duckdb(replayer: Replayer) -> None:
    drawn, rows = random.Random(20), range(400)
    columns: dict[str, tuple[pa.DataType, Callable[[], object]]] = {
        "symbol": (pa.string(), lambda: drawn.choice("abc")),
        "venue": (pa.string(), lambda: drawn.choice(("x", "it's", None))),
        "price": (pa.decimal128(10, 2), lambda: Decimal(drawn.randrange(99_999)) / 100),
        "lot": (pa.decimal128(5, 0), lambda: Decimal(drawn.randrange(100))),
        "is_odd": (pa.bool_(), lambda: drawn.choice((True, False, None))),
        "weight": (pa.float64(), lambda: drawn.randrange(1_000) / 8),
    }
    times = [START_S + second for second in sorted(drawn.sample(range(3_600), len(rows)))]
    ticks = pa.table(
        {"ts": times}
        | {name: pa.array([draw() for _ in rows], type_) for name, (type_, draw) in columns.items()}
    )
    file = replayer.folder / "ticks.parquet"
    pq.write_table(ticks, file)
    network, export = network_of_sql_text(FILE, "f.sql", "f"), replayer.folder / "export"
    with replayer.home() as home:
        replayer.run(home, network, {"ticks": [file]}, width_s=300, export=export)
    for stream, judged in JUDGED.items():
        rows, unexpected, lacking = compared(file, judged, export / f"{stream}.csv")
        assert rows > 20, stream
        assert (unexpected, lacking) == (0, 0), stream


def compared(file: Path, judged: str, answer: Path) -> tuple[int, ...]:
    """Rows of the answer, those that DuckDB does not find, and those that the answer lacks."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.read_parquet(str(file)).create_view("ticks")
        connection.execute(f"CREATE TABLE judged AS {judged}")
        columns = connection.execute("DESCRIBE judged").fetchall()
        typed = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_, *_ in columns)
        connection.read_csv(str(answer), all_varchar=True, header=True).create_view("given")
        connection.execute(f"CREATE TABLE answer AS SELECT {typed} FROM given")
        counts = [
            connection.execute(f"SELECT count(*) FROM ({query})").fetchall()[0][0]
            for query in (
                "FROM answer",
                "FROM answer EXCEPT ALL FROM judged",
                "FROM judged EXCEPT ALL FROM answer",
            )
        ]
    return tuple(counts)
