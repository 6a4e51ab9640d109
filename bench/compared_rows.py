"""Whether two tables of DuckDB have the same rows, each as often."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb


@dataclass(frozen=True, slots=True)
class Compared:
    """How many rows an answer has, and how many of them the other engine has not, or alone has."""

    rows: int
    unexpected: int
    lacking: int

    @property
    def is_equal(self) -> bool:
        """Whether both have the same rows, each as often."""
        return not self.unexpected and not self.lacking


def compare_tables(connection: duckdb.DuckDBPyConnection, answer: str, judged: str) -> Compared:
    """Compare two tables or views with the same columns."""
    return Compared(
        rows=_count(connection, f"FROM {answer}"),
        unexpected=_count(connection, f"FROM {answer} EXCEPT ALL FROM {judged}"),
        lacking=_count(connection, f"FROM {judged} EXCEPT ALL FROM {answer}"),
    )


def typed_columns(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    """The columns of a table as a list of casts, to read another one's rows with its types."""
    columns = connection.execute(f"DESCRIBE {table}").fetchall()
    return ", ".join(f'CAST("{name}" AS {type_}) AS "{name}"' for name, type_, *_ in columns)


def _count(connection: duckdb.DuckDBPyConnection, rows: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM ({rows})").fetchone()
    assert row is not None
    return int(row[0])
