"""Two multisets of rows held against each other, bucket by bucket, by DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import duckdb
import pandas as pd
import pyarrow as pa

from medusa_core.columns import Column
from pipelines.base.time_text import iso
from pipelines.quality.duck_tables import make_table
from pipelines.storage.arrow_schema import STIME

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """`buckets` has a row for each that holds something: rows of both sides, and of one alone.

    `shown` are the first rows that only one side has, in words that are safe in a page.
    """

    buckets: pd.DataFrame
    shown: pd.DataFrame


def differences(
    stable: pa.Table, recomputed: pa.Table, columns: tuple[Column, ...], width_us: int
) -> Differences:
    """What stands in the stream beside what was computed again; equal rows all count."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        make_table(connection, "stable", stable, columns)
        make_table(connection, "again", recomputed, columns)
        connection.execute("CREATE TEMP TABLE extra AS FROM stable EXCEPT ALL FROM again")
        connection.execute("CREATE TEMP TABLE lost AS FROM again EXCEPT ALL FROM stable")
        bucket = f"{STIME} - ((({STIME} % {width_us}) + {width_us}) % {width_us})"
        sides = " UNION ALL ".join(
            f"SELECT {bucket} AS at_us, '{name}' AS side FROM {name}"
            for name in ("stable", "again", "extra", "lost")
        )
        counted = connection.execute(
            "SELECT at_us, count(*) FILTER (WHERE side = 'stable') AS rows, "
            "count(*) FILTER (WHERE side = 'again') AS recomputed, "
            "count(*) FILTER (WHERE side = 'extra') AS only_in_stream, "
            "count(*) FILTER (WHERE side = 'lost') AS only_recomputed "
            f"FROM ({sides}) GROUP BY at_us ORDER BY at_us"
        ).df()
        found = []
        for table, side in (("extra", "only in the stream"), ("lost", "only recomputed")):
            rows = connection.execute(
                f"SELECT * FROM {table} ORDER BY {STIME} LIMIT {SHOWN_MAX}"
            ).fetchall()
            names = [*(c.name for c in columns), STIME]
            for row in rows:
                values = dict(zip(names, row, strict=True))
                at = iso(values.pop(STIME))
                told = ", ".join(f"{name}={value!r}"[:200] for name, value in values.items())
                found.append({"side": side, "at": at, "row": _for_page(f"{side}, at {at}: {told}")})
    counted.insert(0, "bucket", [iso(at) for at in counted["at_us"]])
    return Differences(
        buckets=counted.drop(columns=["at_us"]),
        shown=pd.DataFrame(found, columns=["side", "at", "row"]),
    )


def _for_page(text: str) -> str:
    """A text that a page shows as it is: Data Docs put values into pages unescaped."""
    return escape(text).replace("$", "&#36;").replace("{", "&#123;")
