"""The least event time of a file is taken from its statistics, where these tell it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.grid import FOREVER_US
from medusa_core.network import Source
from pipelines.sources.recorded.earliest_times import earliest_time
from pipelines.sources.recorded.reader import read_recorded_file
from pipelines.storage.arrow_schema import STIME

UTC_US = pa.timestamp("us", "UTC")
UNITS = st.sampled_from([None, "s", "ms", "us", "ns"])
TYPES = {
    "int": (pa.int32(), "int"),
    "bigint": (pa.int64(), "bigint"),
    "timestamp": (UTC_US, "timestamp"),
    "milliseconds": (pa.timestamp("ms", "Europe/Berlin"), "timestamp"),
    "nanoseconds": (pa.timestamp("ns", "UTC"), "timestamp"),
    "local": (pa.timestamp("us"), "timestamp"),
    "text": (pa.string(), "bigint"),
    "double": (pa.float64(), "double"),
}


def a_source(declared: str, unit: str | None = None, time: str = "at") -> Source:
    return Source(name="s", columns={time: declared}, time=time, time_unit=unit, time_zone="UTC")


def a_file(folder: Path, values: pa.Array, name: str = "at", **options: object) -> Path:
    path = folder / "part.parquet"
    pq.write_table(pa.table({name: values}), path, row_group_size=3, **options)
    return path


@given(
    seconds=st.lists(st.integers(1_000_000_000, 2_000_000_000) | st.none(), max_size=9),
    form=st.sampled_from(sorted(TYPES)), unit=UNITS,
)  # fmt: skip
def test_no_record_is_earlier(
    tmp_path_factory: pytest.TempPathFactory, seconds: list[int | None], form: str, unit: str | None
) -> None:
    given_type, declared = TYPES[form]
    values = pa.array(seconds, pa.int64())
    if pa.types.is_timestamp(given_type):
        values = values.cast(pa.timestamp("s", given_type.tz)).cast(given_type)
    source = a_source(declared, unit)
    file = a_file(tmp_path_factory.mktemp("given"), values.cast(given_type))
    earliest = earliest_time(source, file)
    if earliest is None:
        return
    assert form in ("int", "bigint", "timestamp", "milliseconds")
    chunks = read_recorded_file(source, file) if any(s is not None for s in seconds) else ()
    found = [at for chunk in chunks for at in chunk.records[STIME].to_pylist()]
    assert earliest == min(found, default=FOREVER_US)


@pytest.mark.parametrize(
    ("time", "unit", "least"),
    [("at", "s", 5_000_000), ("at_ms", None, 5_000), ("at_us", "s", 5_000_000), ("at", None, None)],
)
def test_the_unit_of_a_number_is_the_declared_one(
    tmp_path: Path, time: str, unit: str | None, least: int | None
) -> None:
    file = a_file(tmp_path, pa.array([9, 5, 7, 8]), time)
    assert earliest_time(a_source("bigint", unit, time), file) == least


def test_a_file_without_statistics_or_of_another_format_says_nothing(tmp_path: Path) -> None:
    source = a_source("bigint", "s")
    file = a_file(tmp_path, pa.array([9, 5]), write_statistics=False)
    assert earliest_time(source, file) is None
    file.write_text("at\n9\n5\n")
    assert earliest_time(source, file) is None
    file.write_bytes(b"PAR1 and no more PAR1")
    assert earliest_time(source, file) is None
    assert earliest_time(source, tmp_path / "missing") is None


def test_a_time_that_no_calendar_has_says_nothing(tmp_path: Path) -> None:
    values = pa.array([-(2**63), 5], pa.int64()).cast(UTC_US)
    assert earliest_time(a_source("timestamp"), a_file(tmp_path, values)) is None


def test_a_damaged_footer_is_left_to_the_reading(tmp_path: Path) -> None:
    source = a_source("bigint", "s")
    file = a_file(tmp_path, pa.array([9, 5]))
    whole = file.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    file.write_bytes(whole[: -8 - footer] + b"\xff" * footer + whole[-8:])
    assert earliest_time(source, file) is None
    with pytest.raises(Refused, match="damaged"):
        list(read_recorded_file(source, file))


def test_a_pipe_is_not_opened_before_its_turn(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert earliest_time(a_source("bigint", "s"), pipe) is None
