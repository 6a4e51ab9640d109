"""Schedules in which operators revise sources, late records are admitted, and readers follow."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from medusa_core.grid import Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer
from pipelines.cli.main import main
from pipelines.simulation.faults.drawn_revisions import NO_REVISIONS
from pipelines.simulation.faults.expected import expected_buckets
from pipelines.simulation.faults.revised_contents import RevisedContents
from pipelines.simulation.faults.scenario import Scenario, draw_scenario
from pipelines.simulation.faults.schedule import run_schedule
from pipelines.simulation.faults.schedule_runs import run_schedules
from pipelines.simulation.faults.schedule_shapes import (
    MIXED,
    REVISION_KINDS,
    REVISIONS,
    TRIMS,
    WHOLE,
    shape_of,
)
from pipelines.simulation.faults.simulated_networks import WIDTH_US
from pipelines.simulation.faults.world import World
from tests.sweeps import examples

if TYPE_CHECKING:
    from pipelines.simulation.faults.events import Event

SEED = 90_000


@pytest.mark.sweep
def test_schedules_with_revisions_break_no_law() -> None:
    figures = run_schedules(examples(1, 24), SEED, shape=REVISIONS)
    assert figures.violations == []
    assert figures.revisions["schedules"] == figures.schedules
    assert min(figures.revisions[made] for made in ("sources", "computed", "followed")) > 0
    assert figures.revisions["mixed"] < figures.revisions["compared"] / 5


@pytest.mark.long
def test_among_the_schedules_every_kind_of_revision_happens() -> None:
    figures = run_schedules(6, SEED + 100, shape=REVISIONS)
    assert figures.violations == []
    assert all(figures.faults[kind] > 0 for kind in REVISION_KINDS)
    assert figures.events["agree"] > 0


def test_schedules_without_revisions_are_drawn_unchanged() -> None:
    for seed in range(SEED, SEED + 20):
        plain = draw_scenario(seed)
        assert plain.revisions == draw_scenario(seed, TRIMS).revisions == NO_REVISIONS
        # What a source does with late records is part of a plan.
        none_admits = replace(REVISIONS, admits=0.0, retention_buckets=WHOLE.retention_buckets)
        revised = draw_scenario(seed, none_admits)
        assert revised.revisions.commands
        assert replace(revised, revisions=NO_REVISIONS, shape=WHOLE) == plain


def test_of_the_other_schedules_of_a_run_every_third_has_revisions() -> None:
    assert [shape_of(seed, MIXED) == REVISIONS for seed in (3, 6, 12, 15, 18)] == [
        True, True, False, False, True
    ]  # fmt: skip


def test_a_network_without_faults_computes_exactly_what_a_revision_concerns() -> None:
    told: list[Event] = []
    quiet = replace(REVISIONS, faults=(0, 0), kinds_min=0, follows=1.0, admits=0.0)
    schedule = run_schedule(SEED, told.append, quiet)
    assert schedule.violation is None
    assert not {"conflict", "unavailable", "ended"} & set(schedule.events)
    made = [event for event in told if event.kind == "revise"]
    assert len(made) == schedule.revisions["sources"] > 0


@pytest.mark.long
def test_schedules_with_revisions_can_be_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "faults", "--revisions", "--schedules", "1", "--seed", str(SEED)]
    assert main(command) == 0
    assert "revisions in 1 schedules" in capsys.readouterr().out


# ------------------------------------------------------------ what a bucket is to hold


def source_of(scenario: Scenario) -> tuple[StreamName, Producer, int]:
    """A source, who lands it, and a bucket of it that holds records."""
    stream = next(iter(scenario.feeds))
    rows = expected_buckets(scenario)[stream]
    return stream, scenario.writers()[stream][0], max(at for at, found in rows.items() if found)


def test_a_bucket_of_a_source_holds_what_each_version_gave_it() -> None:
    scenario = draw_scenario(SEED, REVISIONS)
    stream, producer, at_us = source_of(scenario)
    before = expected_buckets(scenario)
    contents = RevisedContents(scenario, before)
    added = (at_us, at_us, 1, 1)
    now = before[stream][at_us] + Counter([added])
    contents.revise(stream, Version(5), {at_us: now})
    bucket = Range(at_us, at_us + WIDTH_US)
    assert contents.expected((stream, producer, Version(4)), bucket) == before[stream][at_us]
    assert contents.expected((stream, producer, Version(5)), bucket) == now
    assert contents.newest(stream, at_us) == now
    assert added in contents.final()[StreamName("gathered")][at_us]


def test_the_laws_stand_where_nothing_is_revised() -> None:
    with closing(World(draw_scenario(SEED))) as world:
        assert world.revisions is None
        assert not world.commands
