"""The sensor of the demo: whole files of connections, in order, as many as were set."""

from __future__ import annotations

import csv
from pathlib import Path

from pipelines.cli.demo_sensor import Sensor
from tests.waiting import until


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("connections-*.csv"))


def records(folder: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for path in files(folder):
        with path.open(encoding="utf-8", newline="") as file:
            found += csv.DictReader(file)
    return found


def test_its_files_are_in_the_order_of_event_time_and_follow_the_rate(tmp_path: Path) -> None:
    with Sensor(tmp_path / "incoming", per_s=200) as sensor:
        until(lambda: len(files(tmp_path / "incoming")) >= 2, "two files are there", 60)
        few = len(records(tmp_path / "incoming"))
        sensor.per_s = 20_000
        until(lambda: len(records(tmp_path / "incoming")) > 10 * few, "the rate has risen", 60)
    found = records(tmp_path / "incoming")
    times = [int(record["ts_us"]) for record in found]
    assert times == sorted(times)
    assert {record["orig_h"] for record in found[few:]} > {"198.18.0.0"}
    assert [path for path in (tmp_path / "incoming").iterdir() if path.name.startswith(".")] == []
