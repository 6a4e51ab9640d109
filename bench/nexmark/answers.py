"""Nexmark's queries, and whether an answer to one has the rows that another engine finds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from bench.compared_rows import Compared, compare_tables, typed_columns
from medusa_core.network import Network
from pipelines.language.load import load_network

FOLDER = Path(__file__).parent
QUERIES = tuple(
    sorted((f.stem for f in (FOLDER / "queries").glob("*.sql")), key=lambda q: int(q[1:]))
)
RESULT = "result"


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
        typed = typed_columns(connection, "judged")
        given = connection.read_csv(str(answer), all_varchar=True, header=True)
        given.create_view("given")
        connection.execute(f"CREATE TABLE answer AS SELECT {typed} FROM given")
        return compare_tables(connection, "answer", "judged")
