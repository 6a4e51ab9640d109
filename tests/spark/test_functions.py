"""The escape hatch: a PySpark function is checked before its first commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.functions import max as max_of

from medusa_core.columns import declare_columns
from medusa_core.errors import Refused
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Function, Network, Output, Source
from pipelines.storage.arrow_schema import STIME
from pipelines.storage.segment_rows import read_segments
from tests.replaying import Replayer, parquet_files
from tests.spark.test_laws import events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


pytestmark = pytest.mark.usefixtures("interpreted")


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
