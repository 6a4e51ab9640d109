"""The escape hatch: a PySpark function is checked before its first commit."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.functions import max as max_of

from medusa_core.columns import declare_columns
from medusa_core.errors import Refused
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Box, Function, Map, Network, Output, Source, Union
from pipelines.language.check import check_network, fragments_for
from pipelines.spark.compiler import compile_fragment
from pipelines.spark.inputs import handed_over
from pipelines.spark.job import _planned
from pipelines.spark.prepared import _nodes
from pipelines.storage.arrow_schema import STIME
from pipelines.storage.segment_rows import read_segments
from tests.replaying import Replayer, parquet_files
from tests.spark.test_laws import events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.usefixtures("interpreted")


def as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def halved(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("cast(bytes div 2 as int) as place", "stime")


def numbered_by_partition(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("spark_partition_id() as place", "stime")


def numbered_by_order(frame: DataFrame) -> DataFrame:
    return frame.selectExpr(
        "cast(monotonically_increasing_id() % 1000000007 as int) as place", "stime"
    )


def without_time(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("1 as place")


def of_another_type(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("'1' as place", "stime")


def that_shifts_time(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("1 as place", "stime + 1 as stime")


def that_groups(frame: DataFrame) -> DataFrame:
    return frame.groupBy().agg(max_of("stime").alias("stime")).selectExpr("1 as place", "stime")


def that_raises(frame: DataFrame) -> DataFrame:
    raise ValueError("not today")


def that_fails_on_its_data(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("cast(1 / (bytes - bytes) as int) as place", "stime")


def a_network(function: Any) -> Network:
    return Network(
        name="hatch",
        sources=(Source(name="events", columns={"at_us": "bigint", "bytes": "bigint"},
                        time="at_us"),),
        boxes=(Function(name="f", input="events", function=function, columns={"place": "int"}),),
        outputs=(Output(name="out", input="f"),),
    )  # fmt: skip


def test_a_function_that_is_a_map_of_rows_gives_its_rows_in_every_cut(replayer: Replayer) -> None:
    table = events(200)
    files = parquet_files(replayer.folder / "in", table)
    network = a_network(halved)
    with replayer.home() as home:
        limits = Limits(records_per_step_max=120)
        result = replayer.run(home, network, {"events": files}, limits=limits)
        segments = home.catalog.segments(StreamName("out"))
        columns = declare_columns("out", {"place": "int"})
        rows = pa.concat_tables(read_segments(home.storage, segments, columns)).to_pylist()
    assert result.steps > 1
    assert sorted((row[STIME], row["place"]) for row in rows) == sorted(
        (row["at_us"], row["bytes"] // 2) for row in table.to_pylist()
    )


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (numbered_by_partition, "function f of network hatch gives other rows"),
        pytest.param(
            numbered_by_order,
            "function f of network hatch gives other rows",
            marks=pytest.mark.long,
        ),
        (without_time, "function f returns column 'stime' as nothing but bigint is declared"),
        (of_another_type, "function f returns column 'place' as string but int is declared"),
        (that_shifts_time, "function f writes stime, which no box may"),
        pytest.param(
            that_groups, "function f of network hatch gives other rows", marks=pytest.mark.long
        ),
        (that_raises, "function f raised ValueError: not today"),
        (that_fails_on_its_data, "failed on its data"),
    ],
)
def test_a_function_that_is_no_pure_map_of_rows_is_refused_and_nothing_is_committed(
    replayer: Replayer, function: Any, sentence: str
) -> None:
    files = parquet_files(replayer.folder / "in", events(200))
    with replayer.home() as home:
        with pytest.raises(Refused, match=sentence):
            replayer.run(home, a_network(function), {"events": files})
        assert home.catalog.segments("out") == ()  # type: ignore[arg-type]


def chained(functions: int) -> Network:
    """A chain of Functions; each reads the output of the previous one twice."""
    boxes: list[Box] = []
    last = "s"
    for at in range(functions):
        boxes += [
            Function(name=f"f{at}", input=last, function=as_it_is, columns={"n": "int"}),
            Map(name=f"a{at}", input=f"f{at}", columns={"n": "n"}),
            Map(name=f"b{at}", input=f"f{at}", columns={"n": "n"}),
            Union(name=f"u{at}", inputs=(f"a{at}", f"b{at}")),
        ]
        last = f"u{at}"
    return Network(
        name="chained",
        sources=(Source(name="s", columns={"ts_us": "bigint", "n": "int"}, time="ts_us"),),
        boxes=tuple(boxes),
        outputs=(Output(name="all", input=last),),
    )


def test_spark_starts_python_with_the_installed_packages_whose_compiled_code_is_kept(
    spark: SparkSession,
) -> None:
    def where(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    (found,) = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert ".zip" not in found


@pytest.mark.long
def test_a_plan_that_is_made_anew_does_not_grow_where_boxes_read_the_same(
    spark: SparkSession,
) -> None:
    given = pa.table({"n": pa.array([1], pa.int32()), STIME: pa.array([7], pa.int64())})
    counts = []
    for functions in (1, 6):
        checked = check_network(chained(functions))
        (fragment,) = fragments_for(checked)
        compiled = compile_fragment(fragment, checked)
        frames = {StreamName("s"): partial(handed_over, spark, given)}
        with ExitStack() as stack:
            frame: Any = _planned(spark, compiled, frames, stack)
            counts.append(len(list(_nodes(frame._jdf.queryExecution().analyzed()))))
            assert frame.count() == 2**functions
        assert not any(spark.catalog.tableExists(s.view) for s in compiled.statements)
    assert counts[0] == counts[1]
