"""The page on metrics names all exported metrics and nothing else."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics_core import Metric

from medusa_core.commits import Cause, Lane
from medusa_core.loads import LoadKey, LoadSample, Shares
from pipelines.watching import jvm
from pipelines.watching.metrics import Metrics
from tests.catalog import building as a
from tests.docs.pages import page
from tests.watching.homes import World

ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w, ]*?) ?\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
OF_KIND = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
SERIES_OF_SCRAPE = {"up": "gauge"}
"""What Prometheus adds itself."""


@pytest.fixture
def java_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process below this one of which there is a file of counters, as a JVM keeps it."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = b"java.threads.live\0"
    entry = struct.pack("<IIIBBBBI", 48, 20, 0, ord("J"), 0, 0, 0, 40)
    counters = struct.pack(">IB19x", jvm.MAGIC, 1) + struct.pack("<II", 32, 1)
    counters += entry + name.ljust(20, b"\0") + struct.pack("<q", 7)
    (tmp_path / "hsperfdata_me").mkdir()
    (tmp_path / "hsperfdata_me" / str(child.pid)).write_bytes(counters)
    monkeypatch.setattr(jvm, "TEMPORARY", tmp_path)
    yield
    child.communicate(b"\n")


@pytest.fixture
def exported(java_below: None) -> Mapping[str, Metric]:
    """What a driver exports whose home has lines, states and load, by the names of the page."""
    assert [of.threads for _, of in jvm.jvms_of(os.getpid())] == [7]
    world = World()
    world.close()
    world.compute()
    shares = Shares(by_key={LoadKey(a.MAIN, 0, Cause.NORMAL): 1_000_000}, kinds={})
    sample = LoadSample(driver="d", number=1, lane=Lane.LIVE, length_ms=10_000, shares=shares)
    world.catalog.record_load(sample)
    found = Metrics("alpha", str, world.catalog).registry.collect()
    return {f"{m.name}_total" if m.type == "counter" else m.name: m for m in found}


def rows() -> dict[str, dict[str, Any]]:
    """The table of the page."""
    found = {
        name: {"kind": kind, "labels": {part for part in labels.split(", ") if part}, "unit": unit}
        for name, kind, labels, unit, _ in ROW.findall(page("metrics"))
    }
    assert len(found) == page("metrics").count("\n| `")
    return found


def test_the_page_has_every_name_that_is_exported_and_no_other(
    exported: Mapping[str, Metric],
) -> None:
    assert {name: row["kind"] for name, row in rows().items()} == {
        name: metric.type for name, metric in exported.items()
    }


def test_labels_of_the_page_are_those_of_the_series(exported: Mapping[str, Metric]) -> None:
    told = rows()
    seen = 0
    for name, metric in exported.items():
        for sample in metric.samples:
            general = {"participant"} if name.startswith("medusa_") else set()
            assert set(sample.labels) == told[name]["labels"] | general, name
            seen += 1
    assert seen > 20


def test_units_of_the_page_are_those_that_names_end_with() -> None:
    for name, row in rows().items():
        ending = name.removesuffix("_total").rpartition("_")[2]
        if ending == "seconds":
            assert row["unit"] in ("seconds", "time"), name
        if ending == "bytes":
            assert row["unit"] == "bytes", name


def test_alarms_of_the_page_are_about_series_that_there_are() -> None:
    series = {
        f"{name.removesuffix('_total')}{ending}"
        for name, row in rows().items()
        for ending in OF_KIND[row["kind"]]
    }
    (block,) = re.findall(r"```yaml\n(.*?)```", page("metrics"), re.DOTALL)
    (group,) = yaml.safe_load(block)["groups"]
    alerts = [rule["alert"] for rule in group["rules"]]
    assert len(alerts) == len(set(alerts)) > 10
    for rule in group["rules"]:
        bare = re.sub(r"\{[^}]*\}|\[\w+\]|'[^']*'", "", rule["expr"])
        for name in re.findall(r"\b[a-z]\w+", bare):
            is_known = name in series or name in SERIES_OF_SCRAPE
            assert is_known or name in ("increase", "delta"), name
