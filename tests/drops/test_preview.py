"""`medusa drops`: the load equation and the road map of a network before it runs."""

from __future__ import annotations

import json

import pytest

from pipelines.cli.main import main


def preview(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["drops", "netmon", *arguments, "--json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_a_load_that_fits_drops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = preview(capsys, "--rate", "1000")
    assert found["chosen"] == {**found["plans"][0], "number": 0}  # type: ignore[index]


def test_an_overload_is_dropped_at_the_source_for_all_outputs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = preview(capsys, "--rate", "connections=900000")
    chosen = found["chosen"]
    assert isinstance(chosen, dict)
    assert chosen["load"] <= found["load_max"] < found["load"]  # type: ignore[operator]
    assert [drop["source"] for drop in chosen["drops"]] == ["connections"]


def test_the_table_says_which_plan_is_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drops", "netmon", "--rate", "900000"]) == 0
    shown = capsys.readouterr().out
    assert "plan 6 is in force" in shown
    assert "connections 30%" in shown


def test_a_source_that_the_network_does_not_have_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["drops", "netmon", "--rate", "conections=5"]) == 2
    assert "did you mean 'connections'" in capsys.readouterr().err
