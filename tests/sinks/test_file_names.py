"""Delivered files sort by name as their rows do by event time, and their names are read back."""

from __future__ import annotations

import pytest

from medusa_core.grid import Range
from medusa_core.names import StreamName, Version
from pipelines.sinks.file_names import FileName, file_name, parse_file_name

STREAM = StreamName("site/readings")
NOON_US = 1_767_614_400_000_000


@pytest.mark.parametrize("width_us", [1, 250_000, 500_000, 1_500_000, 1_000_000, 3_600_000_000])
def test_names_sort_by_event_time_whatever_the_width(width_us: int) -> None:
    parts = [Range(NOON_US + n * width_us, NOON_US + (n + 1) * width_us) for n in range(-9, 9)]
    found = [file_name(STREAM, part, Version(1), ".csv", width_us) for part in parts]
    assert found == sorted(found)
    assert [parse_file_name(name, STREAM, ".csv") for name in found] == [
        FileName(part=part, version=Version(1)) for part in parts
    ]


def test_whole_seconds_are_written_without_fractions() -> None:
    name = file_name(STREAM, Range(0, 2_000_000), Version(3), ".parquet", 2_000_000)
    assert name == "site.readings-19700101T000000Z-19700101T000002Z-v3.parquet"


def test_names_of_half_seconds_written_without_a_fraction_are_read_too() -> None:
    name = "site.readings-19700101T000000Z-19700101T000000.500000Z-v3.parquet"
    found = parse_file_name(name, STREAM, ".parquet")
    assert found == FileName(part=Range(0, 500_000), version=Version(3))
