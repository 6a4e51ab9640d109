"""Counting distinct values by two groupings gives what one grouping of all records would."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from medusa_core.columns import Column, declare_columns
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Network, Output, Source
from pipelines.language.aggregates import CompiledAggregate, compile_aggregate
from pipelines.language.check import check_network, fragments_for
from pipelines.spark.distinct import Shares, in_shares, in_two_groupings
from pipelines.spark.step import StepEngine
from pipelines.storage.segment_rows import read_segments
from tests.replaying import Replayer, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"at_us": "bigint", "key": "string", "value": "double", "flag": "boolean"}
ANSWERS = {
    "records": "count(*)",
    "values": "count(distinct value)",
    "given": "count(value)",
    "flagged": "count(*) filter (where flag)",
    "most": "max(at_us) - min(at_us)",
    "all_flagged": "bool_and(flag)",
    "any_flagged": "bool_or(flag)",
    "half_again": "count(distinct value) + count(*) div 2",
}


def answer(rows: list[dict[str, Any]]) -> dict[str, Any]:
    values = [r["value"] for r in rows if r["value"] is not None]
    distinct = {"nan" if math.isnan(v) else v + 0.0 for v in values}
    flags = [r["flag"] for r in rows if r["flag"] is not None]
    times = [r["at_us"] for r in rows]
    return {
        "records": len(rows),
        "values": len(distinct),
        "given": len(values),
        "flagged": sum(flags),
        "most": max(times) - min(times),
        "all_flagged": all(flags) if flags else None,
        "any_flagged": any(flags) if flags else None,
        "half_again": len(distinct) + len(rows) // 2,
    }


@pytest.mark.usefixtures("interpreted")
@pytest.mark.long
def test_counts_beside_a_distinct_count_are_those_of_all_records(replayer: Replayer) -> None:
    edges = [0.0, -0.0, math.nan, -math.nan, None, 1.5, 1.5, math.inf]
    rows = [
        {
            "at_us": 1_000_000 + at,
            "key": ["a", "b", None][at % 3],
            "value": edges[at % 8] if at % 5 else float(at % 11),
            "flag": [True, False, None][at % 7 % 3],
        }
        for at in range(400)
    ]
    network = Network(
        name="counted",
        sources=(Source(name="given", columns=COLUMNS, time="at_us"),),
        boxes=(
            Aggregate(name="per_key", input="given", size="60s", group_by=("key",),
                      columns=ANSWERS),
        ),
        outputs=(Output(name="answers", input="per_key"),),
    )  # fmt: skip
    groups = defaultdict(list)
    for row in rows:
        groups[row["key"]].append(row)
    with replayer.home() as home:
        files = parquet_files(replayer.folder / "in", pa.Table.from_pylist(rows))
        replayer.run(home, network, {"given": files})
        segments = home.catalog.segments("answers")  # type: ignore[arg-type]
        columns = check_network(network).columns_of_output("answers")
        found = pa.concat_tables(read_segments(home.storage, segments, columns)).to_pylist()
    assert {row["key"]: {name: row[name] for name in ANSWERS} for row in found} == {
        key: answer(of_key) for key, of_key in groups.items()
    }


@pytest.mark.parametrize(
    "expressions",
    [
        ["count(*)", "max(x)"],
        ["count(DISTINCT x)", "count(DISTINCT y)"],
        ["count(DISTINCT x)", "sum(y)"],
        ["count(DISTINCT x) FILTER (WHERE y > 1)"],
        ["count(DISTINCT x, y)"],
        ["sum(DISTINCT x)"],
        ["max('DISTINCT')"],
    ],
)
def test_what_has_no_such_form_stays_as_it_is(expressions: list[str]) -> None:
    assert in_two_groupings(expressions) is None


def test_equal_parts_are_computed_once() -> None:
    two = in_two_groupings(
        ["count(DISTINCT x + 1)", "count(*)", "count(*) - count(DISTINCT x + 1)"]
    )
    assert two is not None
    assert (two.value, len(two.partials)) == ("x + 1", 1)


def compiled(*texts: str) -> list[CompiledAggregate]:
    columns = {
        name: Column(name, type_)
        for name, type_ in (("a", "int"), ("b", "string"), ("d", "double"), ("l", "bigint"))
    }
    return [compile_aggregate(text, columns, where="test", group_by=("b",)) for text in texts]


def shares_of(*texts: str) -> Shares | None:
    made = compiled(*texts)
    return in_shares([c.sql for c in made], [call for c in made for call in c.calls])


@pytest.mark.parametrize(
    "texts",
    [
        ["count(*)", "max(a)"],
        ["count(distinct a)", "sum(d)"],
        ["count(distinct a)", "sum(distinct a)"],
        ["count(distinct a, b)", "first(b)"],
        ["max(if(b = 'count(DISTINCT a), count(DISTINCT b)', 1, 2))"],
    ],
)
def test_one_distinct_value_has_no_shares(texts: list[str]) -> None:
    assert shares_of(*texts) is None


def test_each_distinct_value_has_a_share_and_all_else_share_0() -> None:
    shares = shares_of(
        "count(distinct a) + count(distinct a) filter (where d > 0)",
        "count(distinct a, b)",
        "count(*) filter (where a > 1)",
        "count(distinct a) + count(*)",
    )
    assert shares is not None
    assert [value.split(",")[0] for value in shares.values] == [
        "IF(_share = 1", "IF(_share = 2", "IF(_share = 3"
    ]  # fmt: skip
    assert [name for name, _ in shares.partials] == ["_partial0", "_partial1"]
    assert all("FILTER (WHERE _share = 0" in sql for _, sql in shares.partials)
    assert shares.expressions[1] == "count(_distinct3)"
    assert "DISTINCT" not in "".join(shares.expressions)


def test_text_in_a_literal_that_looks_like_an_aggregate_is_left_alone() -> None:
    shares = shares_of(
        "count(distinct a) + count(distinct b)", "coalesce(b, 'count(DISTINCT `a`)')"
    )
    assert shares is not None
    assert "'count(DISTINCT `a`)'" in shares.expressions[1]


@pytest.mark.parametrize(
    ("by_literal", "by_column"),
    [
        ("count(d) filter (where b = 'b')", "count(d) filter (where b = b)"),
        ("max('b')", "max(b)"),
    ],
)
def test_a_literal_is_not_taken_for_the_column_of_the_same_text(
    by_literal: str, by_column: str
) -> None:
    shares = shares_of("count(distinct a) + count(distinct b)", by_literal, by_column)
    assert shares is not None
    assert len(set(shares.expressions)) == 3


def test_two_distinct_counts_are_one_prepared_job(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own plan for them shuffles, so that it would have to be made for each step."""
    network = Network(
        name="counted",
        sources=(Source(name="given", columns=COLUMNS, time="at_us"),),
        boxes=(
            Aggregate(name="per_key", input="given", size="60s", group_by=("key",),
                      columns={"values": "count(distinct value)", "flags": "count(distinct flag)",
                               "first_value": "first(value)"}),
        ),
        outputs=(Output(name="answers", input="per_key"),),
    )  # fmt: skip
    (fragment,) = fragments_for(check_network(network))
    jobs = StepEngine(spark, tmp_path, check_network(network))._jobs_of(fragment)
    assert jobs.prepare({StreamName("given"): declare_columns("given", COLUMNS)})
