"""An export holds the final rows of a stream: what may still change is not written."""

from __future__ import annotations

import csv
from pathlib import Path

from medusa_core.segments import Stability
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.storage.csv_export import export_stream
from tests.trimming.building import SUMS, Store, a_store


def exported(store: Store, path: Path) -> tuple[int, list[int]]:
    """How many rows were written, and how many the file holds of each bucket."""
    count = export_stream(store.home.catalog, store.root, SUMS, path)
    with path.open(newline="") as file:
        return count, [int(row["n"]) for row in csv.DictReader(file)]


def test_an_export_leaves_tentative_rows_out_until_they_are_corrected(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "sums.csv"
    with a_store(postgres_server, tmp_path / "home") as store:
        store.write(SUMS, 0, 1, rows=2)
        store.write(SUMS, 1, 2, rows=3, stability=Stability.TENTATIVE)
        store.write(SUMS, 2, 3, rows=1)
        count, rows = exported(store, path)
        assert count == len(rows) == 3
        tentative = {row["n"] for row in store.rows(SUMS)} - set(rows)
        assert len(tentative) == 3

        store.write(SUMS, 1, 2, rows=4)
        count, rows = exported(store, path)
        assert count == len(rows) == 7


def test_an_export_of_tentative_rows_alone_has_a_header_and_no_row(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "sums.csv"
    with a_store(postgres_server, tmp_path / "home") as store:
        store.write(SUMS, 0, 2, stability=Stability.TENTATIVE)
        assert exported(store, path) == (0, [])
        assert path.read_text() == "window_start,n\n"
