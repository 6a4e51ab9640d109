"""`medusa simulate market`: what it refuses, what it keeps, and when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medusa_core.errors import Conflict, Refused, Unavailable
from pipelines.cli.main import main
from pipelines.operations.market_simulation import MarketRequest, parts_of
from pipelines.simulation.schemes import run_parts as running
from pipelines.simulation.schemes.drawn_worlds import Sizes
from pipelines.simulation.schemes.parts import CELL, PUBLISHED, Part, matrix_parts, run_part
from pipelines.simulation.schemes.run_file import kept_in
from pipelines.simulation.schemes.run_parts import run_parts
from pipelines.simulation.schemes.run_text import lines_of
from pipelines.simulation.schemes.verdict import missed

TINY = Sizes(participants=30, contracts=3, levels=1, utilisation=0.8)
PARTS = [Part(kind=CELL, sizes=TINY, seed=seed, schemes=("plain", "push")) for seed in (1, 2, 3)]
KEYS = [part.key for part in PARTS]
CELL_ARGUMENTS = ["--participants", "30", "--contracts", "3", "--levels", "1", "--jobs", "1"]


class Stopped(Exception):
    """Somebody pressed Ctrl-C."""


def without_time(given: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {scheme: {k: v for k, v in of.items() if k != "cpu_s"} for scheme, of in by.items()}
        for key, by in given.items()
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--participants", "0"], "--participants 0: write a whole number from 2"),
        (["--participants", "5", "--contracts", "5"], "--contracts 5: write a whole number"),
        (["--utilisation", "0"], "--utilisation 0.0: write a share"),
        (["--utilisation", "nan"], "--utilisation nan: write a share"),
        (["--levels", "-1"], "--levels -1: write a whole number"),
        (["--scheme", "best"], "there is no scheme 'best': choose of bounded, plain"),
        (["--load", "normal"], "there is no load 'normal': choose of uniform, pareto"),
        (["--seeds", "0"], "--seeds 0: write a number"),
        (["--schedules", "5"], "--schedules is of `medusa simulate faults`"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "market", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_options_of_the_market_say_nothing_about_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "faults", "--levels", "2"]) == 2
    assert "--levels is of `medusa simulate market`" in capsys.readouterr().err


def test_a_cell_is_shown_for_people_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "market", *CELL_ARGUMENTS, "--scheme", "plain", "--seed", "4"]
    assert main(arguments) == 0
    assert "3 contracts, 1 levels" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (figures,) = document["parts"].values()
    assert figures["plain"]["is_at_rest"]
    assert document["missed"] == []


def test_a_stopped_run_continues_and_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "market.json"

    def stop(done: int) -> None:
        raise Stopped

    with kept_in(file, KEYS, "code") as kept, pytest.raises(Stopped):
        run_parts(PARTS, kept, 1, stop)
    told: list[int] = []
    with kept_in(file, KEYS, "code") as kept:
        assert list(kept.done) == KEYS[:1]
        run_parts(PARTS, kept, 1, told.append)
        gone_on = kept.done
    assert told == [2, 3]
    assert without_time(gone_on) == without_time({p.key: run_part(p) for p in PARTS})


def test_what_other_code_did_is_done_again(tmp_path: Path) -> None:
    file = tmp_path / "market.json"
    with kept_in(file, KEYS, "old") as kept:
        kept.add(KEYS[0], {"plain": {}})
    with kept_in(file, KEYS, "new") as kept:
        assert kept.done == {}


def test_a_file_of_other_arguments_or_of_another_kind_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "market.json"
    with kept_in(file, KEYS, "code") as kept:
        kept.add(KEYS[0], {"plain": {}})
    assert main(["simulate", "market", *CELL_ARGUMENTS, "--resume", str(file)]) == 2
    assert "is of a run with other arguments" in capsys.readouterr().err
    for text in ("", "[]", "{}", '{"format": "medusa.market-simulation/1"}', "{" * 5_000):
        file.write_text(text)
        with (
            pytest.raises(Refused, match="not what a run of the market keeps"),
            kept_in(file, KEYS, "code"),
        ):
            pass


def test_two_runs_do_not_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "market.json"
    with kept_in(file, KEYS, "code"), pytest.raises(Conflict), kept_in(file, KEYS, "code"):
        pass


@pytest.mark.long
def test_a_killed_process_is_reported_and_finished_work_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "run_part", _die)
    with kept_in(tmp_path / "market.json", KEYS, "code") as kept:
        with pytest.raises(Unavailable, match="was killed"):
            run_parts(PARTS, kept, 2)
        assert kept.done == {}


def _die(part: Part) -> dict[str, Any]:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def figures(residual: float, rounds: int, **more: Any) -> dict[str, Any]:
    return {
        "residual_percent": residual,
        "rounds_to_95": rounds,
        "violations": [],
        "is_at_rest": True,
        **more,
    }


def verdict_on(sizes: Sizes, bounded: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    part = Part(kind=CELL, sizes=sizes, seed=1, schemes=("bounded", "plain"))
    return missed([part], {part.key: {"bounded": bounded, "plain": plain}})


def test_the_verdict_names_each_target_that_was_missed() -> None:
    few, many = Sizes(contracts=3, levels=2), Sizes(contracts=5, levels=2)
    assert verdict_on(few, figures(0.1, 5), figures(0.1, 10)) == []
    assert verdict_on(many, figures(0.05, 5), figures(0.05, 10)) == []
    (one,) = verdict_on(many, figures(0.06, 5), figures(0.1, 10))
    assert "0.060 % residual, 0.05 % at most" in one
    (one,) = verdict_on(few, figures(0.3, 5), figures(0.1, 10))
    assert "the plain rule left 0.100 %" in one
    (one,) = verdict_on(few, figures(0.1, 6), figures(0.1, 10))
    assert "6.0 rounds to 95 %, the plain rule took 10.0" in one
    (one,) = verdict_on(few, figures(0.1, 5, is_at_rest=False), figures(0.1, 10))
    assert "bounded: it did not come to rest" in one
    table = Part(kind=PUBLISHED, sizes=few, seed=1, schemes=("bounded", "plain"))
    both = {"bounded": figures(0.3, 9), "plain": figures(0.1, 10)}
    assert missed([table], {table.key: both}) == []
    (one,) = verdict_on(few, figures(0.1, 5), figures(0.1, 10, violations=["S4: ..."]))
    assert "plain: S4" in one


def test_the_matrix_is_what_is_run_when_nothing_says_which_world() -> None:
    parts = parts_of(MarketRequest())
    cells = {part.sizes for part in parts if part.kind == CELL and "optimum" in part.schemes}
    assert len(cells) == 32
    assert {part.seed for part in parts if part.sizes in cells} >= set(range(1, 11))
    assert {part.kind for part in parts} == {
        "cell", "published", "spread", "changing", "misreport", "demo", "small",
    }  # fmt: skip
    assert len({part.key for part in parts}) == len(parts)
    (part,) = parts_of(MarketRequest(levels=4, seed=7))
    assert (part.kind, part.seed, part.sizes.levels) == ("cell", 7, 4)


def test_every_experiment_has_a_line() -> None:
    parts = [
        part
        for part in matrix_parts(1, 1, Sizes(participants=20))
        if part.kind in ("changing", "demo", "misreport")
    ]
    plain = [
        Part(kind=part.kind, sizes=part.sizes, seed=part.seed, schemes=("plain",)) for part in parts
    ]
    lines = list(lines_of(plain, {part.key: run_part(part) for part in plain}))
    assert [line[:2] for line in lines].count("B6") == 4
    assert {line[:2] for line in lines} == {"B4", "B6", "B8"}
