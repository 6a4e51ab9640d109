"""Made-up records for warming up: of every type a column may have, and good for every job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.columns import Column
from medusa_core.network import Aggregate, Filter, Map, Network, Output, Source
from pipelines.language.check import check_network
from pipelines.spark.deployment import fragments_for
from pipelines.spark.made_up_rows import ROWS, VALUES, made_up_rows
from pipelines.spark.step import StepEngine
from pipelines.storage.arrow_schema import STIME
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = (
    "boolean", "int", "bigint", "double", "string", "binary", "date", "timestamp",
    "decimal(1,0)", "decimal(2,2)", "decimal(38,0)", "decimal(38,38)",
)  # fmt: skip
COLUMNS: Mapping[str, str] = {"ts_us": "bigint", "who": "string", "what": "string", "size": "int"}


@pytest.mark.parametrize("type_", TYPES)
def test_every_type_has_values(type_: str) -> None:
    table = made_up_rows([Column("it", type_)])
    assert table.num_rows == ROWS
    assert table["it"].null_count == 0
    assert len(set(table["it"].to_pylist())) == (2 if type_ == "boolean" else VALUES)
    times = table[STIME].to_pylist()
    assert times == sorted(set(times))


def a_network(*boxes: Filter | Map | Aggregate, reads: str) -> Network:
    return Network(
        name="warmed",
        sources=(Source(name="given", columns=COLUMNS, time="ts_us"),),
        boxes=boxes,
        outputs=(Output(name="made", input=reads),),
        bucket="1s",
    )


AGGREGATED = a_network(
    Filter(name="large", input="given", cases={"yes": "size > 3"}),
    Aggregate(
        name="per_who",
        input="large",
        size="4s",
        advance="1s",
        group_by=("who",),
        columns={"n": "count(*)", "most": "max(size)", "kinds": "count(distinct what)"},
    ),
    reads="per_who",
)
FAILING = a_network(
    Map(
        name="asked",
        input="given",
        columns={"n": "cast(what as int) / (size - size)", "when": "cast(who as date)"},
    ),
    reads="asked",
)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    "network", long_but(1, [AGGREGATED, FAILING]), ids=["aggregated", "failing"]
)
def test_a_fragment_is_warmed_up_and_keeps_nothing_of_it(
    spark: SparkSession, tmp_path: Path, network: Network
) -> None:
    checked = check_network(network)
    (fragment,) = fragments_for(checked)
    engine = StepEngine(spark, tmp_path, checked)
    engine.warm_up(fragment)
    job = engine._jobs[fragment.id]._prepared
    assert job is not None
    ((port, stream),) = fragment.inputs.items()
    nothing = made_up_rows(checked.columns[port]).slice(0, 0)
    assert job.run({stream: nothing}).num_rows == 0
    assert list(tmp_path.iterdir()) == []
