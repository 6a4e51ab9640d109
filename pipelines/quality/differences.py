"""Two multisets of rows, and two lists of columns, compared; rows by DuckDB, bucket by bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import zip_longest

import duckdb
import pandas as pd
import pyarrow as pa

from medusa_core.columns import Column
from pipelines.base.time_text import iso
from pipelines.quality.duck_tables import make_table
from pipelines.quality.stored_rows import STIME
from pipelines.quality.transpiled import quoted_name

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """`buckets`: for each bucket with rows, the rows of both sides and those of one side alone.

    `shown`: the first rows that only one side has, as texts that are safe in a page.
    """

    buckets: pd.DataFrame
    shown: pd.DataFrame


def differences(
    stable: pa.Table,
    recomputed: pa.Table,
    columns: tuple[Column, ...],
    width_us: int,
    derived: tuple[Column, ...] | None = None,
) -> Differences:
    """The rows of a stream against the rows that were recomputed; equal rows all count.

    `derived` are the columns of the recomputed rows, if they differ from the stream's: a column
    that both have with different types is compared as text, which is no more than a hint, since
    the types differ.
    """
    types = {c.name: c.type for c in derived or columns}
    common = [c for c in columns if c.name in types]
    listed = ", ".join(
        quoted_name(c.name) if types[c.name] == c.type
        else f"CAST({quoted_name(c.name)} AS VARCHAR) AS {quoted_name(c.name)}"
        for c in common
    )  # fmt: skip
    listed = f"{listed}, {STIME}" if common else STIME
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        make_table(connection, "stable", stable, columns)
        make_table(connection, "again", recomputed, derived or columns)
        for table, one, other in (("extra", "stable", "again"), ("lost", "again", "stable")):
            connection.execute(
                f"CREATE TEMP TABLE {table} AS SELECT {listed} FROM {one} "
                f"EXCEPT ALL SELECT {listed} FROM {other}"
            )
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
            names = [*(c.name for c in common), STIME]
            for row in rows:
                values = dict(zip(names, row, strict=True))
                at = iso(values.pop(STIME))
                text = ", ".join(f"{name}={value!r}"[:200] for name, value in values.items())
                found.append({"side": side, "at": at, "row": _for_page(f"{side}, at {at}: {text}")})
    counted.insert(0, "bucket", [iso(at) for at in counted["at_us"]])
    return Differences(
        buckets=counted.drop(columns=["at_us"]),
        shown=pd.DataFrame(found, columns=["side", "at", "row"]),
    )


def differing_columns(
    declared: tuple[Column, ...],
    derived: tuple[Column, ...],
    stored_types: Mapping[str, frozenset[str]],
) -> pd.DataFrame:
    """The columns with another name or type than derived, or another type in files than declared.

    A row for each, in order: the column, how it is declared and derived, its types in files.
    """
    rows = []
    for one, other in zip_longest(declared, derived):
        name = (one or other).name
        in_files = stored_types.get(name, frozenset())
        if one != other or in_files:
            rows.append(
                {
                    "column": name,
                    "declared": one.type if one else "missing",
                    "derived": _shown(other, name),
                    "in_files": ", ".join(sorted(in_files)) or "as declared",
                }
            )
    return pd.DataFrame(rows)


def _shown(column: Column | None, name: str) -> str:
    """The type of a column, with its name if that is another."""
    if column is None:
        return "missing"
    return column.type if column.name == name else f"{column.name} {column.type}"


def _for_page(text: str) -> str:
    """A text that a page shows as it is: Data Docs put values into pages unescaped."""
    return escape(text).replace("$", "&#36;").replace("{", "&#123;")
