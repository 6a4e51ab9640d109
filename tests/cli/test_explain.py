"""`medusa explain NETWORK`: a network is explained without a home or a session of Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli.main import main


def test_boxes_ranges_missing_inputs_and_costs_of_a_network_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "road_sensors"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("network road_sensors: 1 source, 6 boxes, 2 outputs; buckets of 5m\n")
    assert "slow_segments  main      readings  t - 30 min  t   waits: it is made of" in text
    assert "CPU for a million records of the sources: about 0.8" in text


def test_the_document_has_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "netmon3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (fails,) = {box["can_fail"] for box in found["boxes"]}
    assert not fails
    assert found["cpu_us_per_record"] > found["read_us_per_record"] > 0
    busy = next(s for s in found["streams"] if s["stream"] == "busy_sources")
    assert {one["without"] for one in busy["inputs"]} == {"answers"}
    assert {one["from_before_us"] for one in busy["inputs"]} == {60_000_000}


def test_each_fragment_has_an_engine_or_the_reason_against_a_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "last.py").write_text(
        "from medusa_core.network import Aggregate, Network, Output, Source\n"
        "source = Source(name='s', columns={'at_us': 'bigint', 'd': 'double'}, time='at_us')\n"
        "def total(name, value):\n"
        "    return Aggregate(name=name, input='s', size='10s', columns={'n': value},\n"
        "                     fragment=name)\n"
        "network = Network(name='last', sources=(source,),\n"
        "    boxes=(total('counted', 'count(*)'), total('rounded', 'round(sum(d), 2)')),\n"
        "    outputs=tuple(Output(name=n + '_s', input=n) for n in ('counted', 'rounded')))\n"
    )
    network = str(tmp_path / "last.py")
    assert main(["explain", network]) == 0
    text = capsys.readouterr().out
    assert (
        "Fragment counted: DuckDB in a task of Spark computes steps of 100,000 to 1,000,000 "
        "records that give up to 500,000 rows, Spark SQL all others.\n"
        "Fragment rounded: Spark SQL computes all steps, since it has ROUND("
    ) in text
    assert main(["explain", network, "--json"]) == 0
    fragments = json.loads(capsys.readouterr().out)["fragments"]
    assert [(f["fragment"], f["has_kernel"]) for f in fragments] == [
        ("counted", True), ("rounded", False),
    ]  # fmt: skip


def test_a_network_of_sources_alone_computes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "landed.py").write_text(
        "from medusa_core.network import Network, Source\n"
        "source = Source(name='s', columns={'at_us': 'bigint'}, time='at_us')\n"
        "network = Network(name='landed', sources=(source,), boxes=(), outputs=())\n"
    )
    assert main(["explain", str(tmp_path / "landed.py")]) == 0
    assert "It computes nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["netmin"], "did you mean 'netmon'?"),
        (["netmon", "busy_sources"], "write the network alone, as in `medusa explain netmon`"),
        (["netmon", "--participant", "alpha"], "--participant is for `medusa explain diverged`"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_what_to_write(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *words]) == 2
    assert says in capsys.readouterr().err
