"""Drawn networks through every mode that a step can take, compared with DuckDB row for row.

`make test` runs 11 networks of few outputs over three or four steps, each in one mode, so that
every mode has its turn, and a hundred over six steps (test_differential_hundred.py). With the
marker `differential_long`, some networks take every mode, with generated code, and the tests
`test_differential_sweep_*` run 2,000 networks over six steps, several in one deployment:

    MEDUSA_DIFFERENTIAL=0-1000 pytest tests/spark -m differential_long

names the seeds of these; those in every mode then take three modes each. The seed of a test that
failed, such as 17, runs alone as 17-18. Where MEDUSA_DIFFERENTIAL_DONE names a file, seeds listed
there are skipped and those that pass are added, so that a run can be stopped and continued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, get_args

import pyarrow as pa
import pytest

from tests.spark.drawn.modes import Trial
from tests.spark.drawn.oracle import Oracle
from tests.spark.drawn.records import pieces
from tests.spark.drawn.spec import KINDS, Box, Session, drawn, kind_of
from tests.spark.drawn.trials import (
    MODES,
    NETWORKS_IN_SWEEP,
    Drawing,
    by_plans_in_turn,
    by_plans_without_shared_files,
    drawing_of,
    modes_alone,
    quick_drawings,
    run,
    sweep,
)
from tests.sweeps import is_of_part, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERIFIES = True
"""Prepared jobs are verified here."""


@pytest.mark.parametrize("drawing", list(quick_drawings()), ids=str)
def test_drawn_networks_give_the_rows_that_duckdb_gives(
    spark: SparkSession, drawing: Drawing
) -> None:
    drawing.run(spark)


@pytest.mark.differential_long
@pytest.mark.parametrize("seed", [seed for seed in range(len(KINDS)) if is_of_part(seed)])
def test_drawn_networks_in_every_mode(spark: SparkSession, seed: int) -> None:
    run(spark, seed, 1, *modes_alone(seed))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", long_but(1, (54, 23, 67)))
def test_drawn_networks_whose_tasks_share_no_file_carry_rows_through_the_driver(
    spark: SparkSession, seed: int
) -> None:
    taken: Counter[str] = Counter()

    def mode(trial: Trial) -> None:
        by_plans_without_shared_files(trial)
        taken.update(trial.taken)

    run(spark, seed, 1, mode)
    assert taken["panes of the step before"]


def test_duckdb_answers_drawn_networks_with_sessions() -> None:
    seeds = (seed for seed in range(1_000) if _has_session(seed))
    for seed in islice(seeds, 3):
        net = drawn(seed)
        tables = {
            source: pa.concat_tables([piece.records[source] for piece in pieces(seed, net.sources)])
            for source in net.sources
        }
        expected = Oracle().expected(net, tables)
        assert {box.name for box in net.boxes if isinstance(box, Session)} <= set(expected.rows)


def _has_session(seed: int) -> bool:
    return any(isinstance(box, Session) for box in drawn(seed).boxes)


def test_every_kind_of_network_and_of_box_and_every_mode_occurs() -> None:
    drawings = list(quick_drawings())
    assert {kind_of(drawing.seed) for drawing in drawings} == set(KINDS)
    assert {drawing.mode for drawing in drawings} == set(MODES)
    boxes = {type(box) for drawing in drawings for box in drawn(drawing.seed).boxes}
    assert boxes == set(get_args(Box))


def test_the_sweep_has_many_networks_of_each_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEDUSA_DIFFERENTIAL", raising=False)
    networks: Counter[Callable[[Trial], None]] = Counter()
    for drawing in sweep():
        assert drawing == drawing_of(drawing.seed)
        networks[drawing.mode] += drawing.networks
    assert networks.total() >= NETWORKS_IN_SWEEP
    assert all(networks[mode] >= (90 if mode is by_plans_in_turn else 200) for mode in MODES)
