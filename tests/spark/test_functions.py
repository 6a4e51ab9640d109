"""The escape hatch: a PySpark function is checked before its first commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import max as max_of

from medusa_core.errors import Refused
from medusa_core.network import Function, Network, Output, Source
from tests.replaying import Replayer, parquet_files
from tests.spark.test_laws import events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


pytestmark = pytest.mark.usefixtures("interpreted")


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


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (numbered_by_partition, "function f of network hatch gives other rows"),
        (numbered_by_order, "function f of network hatch gives other rows"),
        (without_time, "function f returns column 'stime' as nothing but bigint is declared"),
        (of_another_type, "function f returns column 'place' as string but int is declared"),
        (that_shifts_time, "function f writes stime, which no box may"),
        (that_groups, "function f of network hatch gives other rows"),
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
