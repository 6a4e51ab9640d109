"""Panes stand for the very records that a step would read again, and for no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from medusa_core.columns import Column
from medusa_core.decide import ComputeStep, decide
from medusa_core.digest import Digest
from medusa_core.failure_rules import failure_rules
from medusa_core.fragments import fragments_of
from medusa_core.knowledge import Knowledge
from medusa_core.names import Participant
from medusa_core.segments import Segment
from pipelines.language.check import check_network
from pipelines.language.panes import over_panes
from pipelines.spark.compiled_fragment import TAG, PaneShape
from pipelines.spark.step_panes import StepPanes
from pipelines.storage.arrow_schema import STIME
from tests.core import builders as a

NETWORK = a.a_network("60s", "10s")
PANED, FOLDS = over_panes(check_network(NETWORK))
(PANES,) = FOLDS
SHAPE = PaneShape(box=PANES, tag=7, columns=(Column("key", "string"),), slots=("s0",))
FIRST = a.a_segment(a.seconds(0, 60), {0: 3, 30: 2})
SECOND = a.a_segment(a.seconds(60, 120), {60: 1}, version=2)


def a_step(*segments: Segment, computed_s: int) -> ComputeStep:
    """The next step of windows of a minute every ten seconds."""
    known = a.a_fragment_knowledge(a.an_input(*segments), computed_s=computed_s, network=NETWORK)
    knowledge = Knowledge(participant=Participant("alpha"), landings=(), fragments=(known,))
    step = decide(knowledge, 0)[0]
    assert isinstance(step, ComputeStep)
    return step


@pytest.fixture
def step_panes() -> StepPanes:
    """One that has kept the panes of the first minute."""
    step = a_step(FIRST, computed_s=0)
    (over,) = fragments_of(PANED.network)
    step_panes = StepPanes([SHAPE], (), Path(), failure_rules(over))
    made = pa.table(
        {TAG: pa.array([7, 7], pa.int32()), "s0": ["a", "b"], STIME: [0, 30 * a.SECOND_US]}
    )
    step_panes.keep(step, step_panes.nothing(step.reads), made)
    return step_panes


@pytest.mark.long
def test_a_step_takes_the_panes_of_what_it_would_read_again(step_panes: StepPanes) -> None:
    step = a_step(FIRST, SECOND, computed_s=60)
    saved = step_panes.saved(step)
    assert {read.version for read in step.reads} == {1, 2}
    assert {read.version for read in saved.reads} == {2}
    assert saved.rows == 1, "the pane that the first window begins behind is not needed"


@pytest.mark.parametrize(
    "buckets",
    [
        {0: Digest(3, 3, 3), 30 * a.SECOND_US: Digest(2, 2, 5)},
        {0: Digest(3, 3, 3)},
        {0: Digest(3, 3, 3), 30 * a.SECOND_US: Digest(2, 2, 2), 40 * a.SECOND_US: Digest(1, 1, 1)},
    ],
    ids=["other records", "fewer", "more"],
)
def test_the_same_version_of_other_records_as_of_a_home_that_was_set_back_is_read(
    step_panes: StepPanes, buckets: dict[int, Digest]
) -> None:
    step = a_step(replace(FIRST, buckets=buckets), SECOND, computed_s=60)
    saved = step_panes.saved(step)
    assert saved.reads == step.reads
    assert saved.rows == 0


def test_what_lies_before_the_first_window_may_be_another(step_panes: StepPanes) -> None:
    other = replace(FIRST, buckets={0: Digest(9, 9, 9), 30 * a.SECOND_US: Digest(2, 2, 2)})
    assert step_panes.saved(a_step(other, SECOND, computed_s=60)).rows == 1
