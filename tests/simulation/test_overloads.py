"""Schedules in which participants are overloaded and drop records by the QoS of outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipelines.cli.main import main
from pipelines.simulation.faults.scenario import draw_scenario
from pipelines.simulation.faults.schedule import run_schedule
from pipelines.simulation.faults.schedule_runs import run_schedules
from pipelines.simulation.faults.schedule_shapes import OVERLOADS, WHOLE
from tests.sweeps import examples

if TYPE_CHECKING:
    from pipelines.simulation.faults.events import Event

SEED = 110_000


@pytest.mark.sweep
def test_schedules_with_overloads_break_no_law() -> None:
    figures = run_schedules(examples(2, 40), SEED, shape=OVERLOADS)
    assert figures.violations == []
    assert figures.faults["overload"] > 0


def test_in_schedules_whole_buckets_are_dropped() -> None:
    events: list[Event] = []
    for seed in (2, 3):
        run_schedule(seed, observe=events.append, shape=OVERLOADS)
    decided = [event.what for event in events if event.kind == "decide"]
    assert any(what.startswith("drop ") for what in decided)


def test_schedules_without_overloads_are_drawn_unchanged() -> None:
    for seed in range(SEED, SEED + 5):
        plain = draw_scenario(seed, WHOLE)
        assert plain.qos == {}
        assert draw_scenario(seed, OVERLOADS).feeds == plain.feeds


def test_the_command_runs_them_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "faults", "--overloads", "--schedules", "1", "--jobs", "1"]) in (0, 1)
    assert "overload=" in capsys.readouterr().out
