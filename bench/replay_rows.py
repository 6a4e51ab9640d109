"""The rows of a replay's outputs, compared with those of another engine over the same files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb

from bench.compared_rows import compare_tables, typed_columns
from bench.processes import ContenderFailed
from bench.replay_duckdb import FILE_COLUMNS
from bench.workload import PER_SOURCE, THREE
from medusa_core.names import StreamName
from pipelines.base.settings import Settings
from pipelines.homes.home import open_home
from pipelines.operations.recorded_replay import SOLO
from pipelines.storage.csv_export import export_stream

Answer = Mapping[str, str]
"""Output -> the relation in DuckDB's SQL that reads the rows of it."""


class Judge:
    """The outputs of netmon over some files, each a table."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def check(self, contender: str, answer: Answer) -> dict[str, int]:
        """The number of rows of each output; raises ContenderFailed where rows differ."""
        counts = {}
        for output in THREE.outputs:
            typed = typed_columns(self._connection, output)
            self._connection.execute(
                f"CREATE OR REPLACE TEMP TABLE answer AS SELECT {typed} FROM {answer[output]}"
            )
            found = compare_tables(self._connection, "answer", output)
            if not found.is_equal:
                raise ContenderFailed(
                    f"{contender} computed another {output}: {found.unexpected:,} of "
                    f"{found.rows:,} rows are wrong, and {found.lacking:,} are missing"
                )
            counts[output] = found.rows
        return counts


@contextmanager
def judge_of(files: Sequence[Path]) -> Iterator[Judge]:
    """A judge of the answers over these files, which DuckDB aggregates in one statement."""
    names = [str(file) for file in files]
    records = "read_parquet($files)"
    if files[0].suffix != ".parquet":
        records = f"read_csv($files, header = true, columns = {FILE_COLUMNS})"
    with duckdb.connect() as connection:
        per_source = PER_SOURCE.format(time="ts_us", records=records)
        connection.execute(f"CREATE TABLE per_source AS {per_source}", {"files": names})
        for output, rows in THREE.outputs.items():
            connection.execute(f"CREATE TABLE {output} AS {rows}")
        connection.execute("DROP TABLE per_source")
        yield Judge(connection)


def parquet_answer(folder: Path) -> Answer:
    """What a contender wrote: a folder of Parquet files for each output."""
    return {output: f"read_parquet('{folder}/{output}/*.parquet')" for output in THREE.outputs}


def medusa_answer(home: Path, folder: Path) -> Answer:
    """What a replay has committed, read from its home and exported."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = replace(Settings.from_environment({}), directory=home.absolute())
    with open_home(settings, SOLO) as opened:
        for output in THREE.outputs:
            export_stream(
                opened.catalog, opened.storage, StreamName(output), folder / f"{output}.csv"
            )
    return {
        output: f"read_csv('{folder / output}.csv', all_varchar = true, header = true)"
        for output in THREE.outputs
    }
