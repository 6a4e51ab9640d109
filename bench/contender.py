"""The interface of a contender to the harness, and how a contender writes few rows.

A contender runs in a separate process with a separate JVM; `worker.py` calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Milliseconds = Mapping[str, float]
"""Of a step: `total`, and parts of it where the contender knows them."""


class Contender(Protocol):
    """One way of computing a workload."""

    def prepare(self, files: Sequence[Path]) -> Sequence[Path]:
        """Take the windows' files; who lands them gets none and returns those it made."""

    def step(self, window: int) -> Milliseconds:
        """Close one window and write its results."""

    def finish(self) -> Mapping[str, Sequence[Path]]:
        """Close what is still open and name the files of each output."""

    def close(self) -> None:
        """Stop everything."""


def write_rows(folder: Path, name: str, table: pa.Table) -> None:
    """Write the rows as one Parquet file, compressed as Medusa compresses; nothing is synced."""
    pq.write_table(table, folder / name, compression="zstd", compression_level=1)


def three_outputs(per_source: pa.Table) -> dict[str, pa.Table]:
    """The outputs of `netmon` from those rows per source that are busy or scanning."""
    scanning = per_source.filter(pc.greater(per_source["distinct_ports"], 10))
    ipv4 = scanning.filter(pc.invert(pc.match_substring(scanning["orig_h"], ":")))
    prefix24 = pc.replace_substring_regex(ipv4["orig_h"], r"\.[^.]*$", ".0/24")
    prefixes = pa.table({"window_start": ipv4["window_start"], "prefix24": prefix24})
    counted = prefixes.group_by(["window_start", "prefix24"]).aggregate([([], "count_all")])
    return {
        "busy_sources": per_source.filter(pc.greater(per_source["connections"], 100)),
        "scanning_sources": scanning,
        "scanning_prefixes": counted.rename_columns(["window_start", "prefix24", "ips"]),
    }
