"""Nexmark's queries, and whether an answer to one has the rows that another engine finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from medusa_core.network import Network
from pipelines.language.load import load_network

FOLDER = Path(__file__).parent
QUERIES = tuple(
    sorted((f.stem for f in (FOLDER / "queries").glob("*.sql")), key=lambda q: int(q[1:]))
)
RESULT = "result"


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


def network_of(query: str) -> Network:
    """The query as a network."""
    return load_network(str(FOLDER / "queries" / f"{query}.sql"))


def compare(query: str, files: Mapping[str, Path], answer: Path) -> Compared:
    """Compare an answer, exported as CSV, with DuckDB's over the same files."""
    judged = (FOLDER / "judge" / f"{query}.sql").read_text()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for stream, file in files.items():
            connection.read_parquet(str(file)).create_view(stream)
        connection.execute(f"CREATE TABLE judged AS {judged}")
        columns = connection.execute("DESCRIBE judged").fetchall()
        typed = ", ".join(f'CAST("{name}" AS {type_}) AS "{name}"' for name, type_, *_ in columns)
        given = connection.read_csv(str(answer), all_varchar=True, header=True)
        given.create_view("given")
        connection.execute(f"CREATE TABLE answer AS SELECT {typed} FROM given")
        (rows,) = _one(connection, "SELECT count(*) FROM answer")
        (unexpected,) = _one(connection, _beyond("answer", "judged"))
        (lacking,) = _one(connection, _beyond("judged", "answer"))
    return Compared(rows, unexpected, lacking)


def _beyond(one: str, other: str) -> str:
    return f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})"


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[int, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row
