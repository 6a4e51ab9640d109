"""The page on metrics names all exported metrics and nothing else."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.metrics_core import Metric

from medusa_core.commits import Cause, Lane
from medusa_core.loads import LoadKey, LoadSample, Shares
from pipelines.base.settings import REPOSITORY
from pipelines.watching import jvm
from pipelines.watching.metrics import Metrics
from tests.catalog import building as a
from tests.docs.pages import page
from tests.watching.homes import World

ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w, ]*?) ?\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
OF_KIND = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


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


# ---------------------------------------------------------------- rules and dashboard


def labels_of_series() -> dict[str, set[str]]:
    """The labels of each series that is exported, by its name."""
    return {
        f"{name.removesuffix('_total')}{ending}": {
            "participant", "job", "instance", *({"le"} if ending == "_bucket" else ()),
            *row["labels"],
        }
        for name, row in rows().items()
        for ending in OF_KIND[row["kind"]]
    } | {"up": {"job", "instance"}}  # fmt: skip


PARTS = ("expr", "lhs", "rhs", "vector_selector", "param")
"""Where an expression of PromQL has other ones, beside the arguments of a function."""


def selectors_of(expression: object) -> Iterator[tuple[str, set[str]]]:
    """Each series that an expression of PromQL reads, with the labels that it is chosen by."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield str(expression.name), {one.name for one in expression.matchers.matchers}
    parts = [getattr(expression, name, None) for name in PARTS]
    for part in (*parts, *(getattr(expression, "args", None) or ())):
        if part is not None:
            yield from selectors_of(part)


def check_expression(text: str) -> None:
    """Fails if an expression is not PromQL, or reads a series or label that is not exported."""
    known = labels_of_series()
    found = list(selectors_of(promql_parser.parse(text)))
    assert found, text
    for name, labels in found:
        assert name in known, f"{name} in {text}"
        assert labels <= known[name], f"{labels} of {name} in {text}"


def rules() -> list[dict[str, Any]]:
    text = (REPOSITORY / "deploy" / "helm" / "medusa" / "rules.yaml").read_text()
    (group,) = yaml.safe_load(text)["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    document = json.loads((REPOSITORY / "deploy" / "grafana" / "medusa.json").read_text())
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def test_alerts_are_about_series_that_there_are_and_explained_on_the_page_of_alarms() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 10
    sections = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
                for title in re.findall(r"^##+ (.*)$", page("alarms"), re.MULTILINE)}  # fmt: skip
    for rule in rules():
        check_expression(rule["expr"])
        assert rule["annotations"]["page"].removeprefix("docs/alarms.md#") in sections
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        (series, *_) = [name for name, _ in selectors_of(promql_parser.parse(rule["expr"]))]
        assert labels <= labels_of_series()[series], rule["alert"]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_of_the_dashboard_is_about_series_that_there_are(panel: dict[str, Any]) -> None:
    assert panel["targets"], panel["title"]
    for target in panel["targets"]:
        check_expression(target["expr"])
        names = {label for _, labels in selectors_of(promql_parser.parse(target["expr"]))
                 for label in labels}  # fmt: skip
        assert names, "it is about the participants that are chosen"


def test_panels_lie_beside_each_other_and_never_on_one_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


@pytest.mark.parametrize(
    "wrong", ["sum(medusa_lag_second)", "medusa_lag_seconds{steam='x'}", "sum(medusa_lag_seconds"]
)
def test_an_expression_that_cannot_be_is_noticed(wrong: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check_expression(wrong)
