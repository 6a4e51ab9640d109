"""What a sink takes of memory does not grow with how wide the rows of a run are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sinks.building import READINGS, SinkHome, a_memory_home, a_row

MIB = 1 << 20
LIMIT_BYTES = 100 * MIB
"""For each sink at work, as docs/sinks.md says."""

WIDE_CHARACTERS = 32_768
WIDE_ROWS = 4_000


@dataclass
class Peak:
    """What was taken at most, in Arrow's memory and in Python's."""

    bytes: int = 0


@contextmanager
def watched() -> Iterator[Peak]:
    peak, before = Peak(), pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    tracemalloc.start()
    pa.set_memory_pool(pool)
    try:
        yield peak
    finally:
        pa.set_memory_pool(before)
        peak.bytes = (pool.max_memory() or 0) + tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkHome]:
    """125 MiB of text that cannot be pressed together, in one bucket, so that no run cuts it."""
    random = Random(1)
    with a_memory_home(tmp_path_factory.mktemp("wide")) as home:
        texts = (random.randbytes(WIDE_CHARACTERS // 2).hex() for _ in range(WIDE_ROWS))
        home.write(READINGS, 0, 1, [a_row(at, 0, name=text) for at, text in enumerate(texts)])
        yield home


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_bucket_of_wide_rows_is_delivered_in_bounded_memory(
    wide: SinkHome, tmp_path: Path, kind: str
) -> None:
    wide.declare(READINGS, kind, kind=kind, path=str(tmp_path / "lake"))
    with watched() as peak:
        wide.deliver(kind)
    assert peak.bytes < LIMIT_BYTES
    (file,) = (tmp_path / "lake").glob(f"*.{kind}")
    if kind == "parquet":
        assert pq.read_table(file, columns=["id"])["id"].to_pylist() == list(range(WIDE_ROWS))
    assert file.stat().st_size > (LIMIT_BYTES if kind == "csv" else LIMIT_BYTES // 2)


@pytest.mark.long
def test_texts_that_are_written_down_once_and_meant_a_thousand_times_are_no_burst(
    tmp_path: Path,
) -> None:
    with a_memory_home(tmp_path / "home") as home:
        text = "x" * (MIB // 4)
        home.write(READINGS, 0, 1, [a_row(at, 0, name=text) for at in range(1_000)])
        (segment,) = home.segments(READINGS)
        assert sum(file.size_bytes for file in segment.files) < MIB
        home.declare(READINGS, kind="csv", path=str(tmp_path / "lake"))
        with watched() as peak:
            home.deliver()
    assert peak.bytes < LIMIT_BYTES
    (file,) = (tmp_path / "lake").glob("*.csv")
    assert file.stat().st_size > 1_000 * len(text)
    assert file.read_bytes().count(b"\n") == 1_001


@pytest.mark.long
def test_runs_of_wide_rows_are_cut_where_they_can_still_be_put_in_order(tmp_path: Path) -> None:
    random = Random(2)
    with a_memory_home(tmp_path / "home") as home:
        rows = [a_row(at, at // 100, name=random.randbytes(8_192).hex()) for at in range(2_000)]
        home.write(READINGS, 0, 20, rows)
        home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"))
        home.deliver()
    files = sorted((tmp_path / "lake").glob("*.parquet"))
    assert len(files) > 1
    stimes = [pq.read_table(f, columns=["stime"])["stime"].to_pylist() for f in files]
    assert all(found == sorted(found) for found in stimes)
    assert sum(map(len, stimes)) == len(rows)
