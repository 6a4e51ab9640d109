"""Aggregates: the same value in every order of the rows, and the one that Spark gives."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.language.aggregates import EVENT_TIME, CompiledAggregate, compile_aggregate
from pipelines.storage.arrow_schema import STIME
from tests.language.conftest import OTHER_SETTINGS, in_tasks
from tests.sweeps import long_but

COLUMNS = {
    name: Column(name, type_)
    for name, type_ in {
        "k": "string",
        "seq": "bigint",
        "n": "int",
        "b": "bigint",
        "x": "double",
        "m": "decimal(10,2)",
        "w": "decimal(38,2)",
        "s": "string",
        "ok": "boolean",
    }.items()
}
pytestmark = pytest.mark.usefixtures("interpreted")
WHERE = "aggregate bars of network n, column 'c'"


def compiled(text: str, **more: Any) -> CompiledAggregate:
    return compile_aggregate(text, COLUMNS, where=WHERE, group_by=("k",), **more)


def rows() -> list[tuple[Any, ...]]:
    """Groups a, b (with ties and NULLs) and n (only NULLs); doubles with both zeros."""
    from decimal import Decimal

    found: list[tuple[Any, ...]] = []
    for i in range(60):
        k = "ab"[i % 2]
        found.append(
            (
                k,
                i // 5 if i % 7 else None,
                i * 37 % 11 - 5,
                (i * 7919 - 200_000) * 10**9,
                [0.0, -0.0, 1.5, 2.25, None][i % 5],
                Decimal(i * 13 % 17) / 4 if i % 6 else None,
                Decimal(i),
                "pqrst"[i % 5] if i % 9 else None,
                i % 4 != 0 if i % 11 else None,
                1_000 + i // 3,
            )
        )
    found += [("n", None, None, None, None, None, None, None, None, 5)] * 2
    return found


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> SparkSession:
    """Three views of one multiset of rows: as made, reversed, and in many partitions."""
    schema = ", ".join(f"{c.name} {c.type}" for c in COLUMNS.values()) + ", _stime bigint"
    made = rows()
    spark.createDataFrame(made, schema).coalesce(1).createOrReplaceTempView("as_made")
    spark.createDataFrame(made[::-1], schema).coalesce(1).createOrReplaceTempView("reversed")
    spark.createDataFrame(made[1::2] + made[::2], schema).repartition(7).createOrReplaceTempView(
        "scattered"
    )
    return spark


def values(session: SparkSession, view: str, *expressions: str) -> list[dict[str, Any]]:
    listed = ", ".join(f"{sql} AS v{i}" for i, sql in enumerate(expressions))
    answer = session.sql(f"SELECT k, {listed} FROM {view} GROUP BY k").toArrow().to_pylist()
    return sorted(answer, key=lambda row: str(row["k"]))


# Exact as Spark itself computes them.
LIKE_SPARK = [
    "count(*)", "count(s)", "count(1)", "count(distinct s)", "count(distinct n, s)", "count(n, s)",
    "count_if(ok)", "sum(n)", "sum(b)", "sum(m)", "sum(distinct n)", "sum(distinct b)", "avg(n)",
    "mean(n)", "avg(m)", "avg(distinct n)", "min(s)", "max(b)", "min(x)", "max(m)", "bool_and(ok)",
    "every(ok)", "bool_or(ok)", "some(ok)", "any(ok)", "bit_and(n)", "bit_or(b)", "bit_xor(n)",
    "count(*) filter (where n > 0 and ok)", "sum(b) filter (where s = 'p')",
    "max(b) - min(b)", "sum(n) / count(*)", "if(count(*) > 3, max(n), 0)", "round(avg(n), 1)",
    "concat(k, '-', count(*))", "size(collect_list(s))", "size(collect_set(s))",
    "array_join(sort_array(collect_set(s)), ',')", "count(distinct s) filter (where n > 0)",
    "round(stddev(x), 6)", "round(avg(x), 6)", "round(sum(x), 6)", "round(percentile(n, 0.5), 3)",
    "round(approx_count_distinct(s), 0)", "cast(avg(b) as decimal(38,3))",
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("is_distinct", long_but(1, [False, True]), ids=["plain", "distinct"])
def test_exact_aggregates_are_those_of_spark_in_every_order(
    groups: SparkSession, is_distinct: bool
) -> None:
    texts = [text for text in LIKE_SPARK if ("distinct" in text) == is_distinct]
    ours = [compiled(text) for text in texts]
    assert not [text for text, each in zip(texts, ours, strict=True) if each.tolerance_only]
    made = values(groups, "as_made", *(each.sql for each in ours))
    assert made == values(groups, "as_made", *texts)
    for view in ("reversed", "scattered"):
        assert made == values(groups, view, *(each.sql for each in ours))


@pytest.mark.long
@pytest.mark.sweep
def test_what_an_aggregate_means_is_settled_before_its_tasks_run(groups: SparkSession) -> None:
    # A plan for several distinct values stores rows, and is not prepared as it is.
    ours = [compiled(text).sql for text in LIKE_SPARK if "distinct" not in text]
    listed = ", ".join(f"{sql} AS v{i}" for i, sql in enumerate(ours))
    query = f"SELECT k, {listed} FROM as_made GROUP BY k"
    rows = sorted(map(repr, in_tasks(groups, query, {})))
    assert sorted(map(repr, in_tasks(groups, query, OTHER_SETTINGS))) == rows


def test_types_are_those_of_spark(groups: SparkSession) -> None:
    for text in [*LIKE_SPARK, "min_by(s, seq)", "max_by(x, n)", "first(m)", "last(s, true)"]:
        each = compiled(text)
        plain, ours = groups.sql(f"SELECT {text}, {each.sql} FROM as_made GROUP BY k").schema
        assert (plain.dataType, ours.dataType.simpleString()) == (ours.dataType, each.type), text


def by_hand(key: str, order: Any, value: Any, *, last: bool = False) -> Any:
    """The value in the first or last row by (order, event time, columns), NULLs first."""

    def weight(row: tuple[Any, ...]) -> tuple[Any, ...]:
        parts = (*order(row), row[-1], *row[:-1])
        return tuple((part is not None, part if part is not None else 0) for part in parts)

    candidates = [row for row in rows() if row[0] == key and None not in order(row)]
    if not candidates:
        return None
    return value((max if last else min)(candidates, key=weight))


@pytest.mark.long
def test_what_asks_for_an_order_takes_the_canonical_one(groups: SparkSession) -> None:
    texts = ["min_by(s, seq)", "max_by(s, seq)", "first(s)", "last(n)", "first(s) ignore nulls"]
    ours = [compiled(text).sql for text in texts]
    expected = [
        {
            "k": k,
            "v0": by_hand(k, lambda r: (r[1],), lambda r: r[7]),
            "v1": by_hand(k, lambda r: (r[1],), lambda r: r[7], last=True),
            "v2": by_hand(k, lambda _: (), lambda r: r[7]),
            "v3": by_hand(k, lambda _: (), lambda r: r[2], last=True),
            "v4": by_hand(k, lambda r: (0,) if r[7] is not None else (None,), lambda r: r[7]),
        }
        for k in "abn"
    ]
    for view in ("as_made", "reversed", "scattered"):
        assert values(groups, view, *ours) == expected, view


def test_a_list_is_in_canonical_order_whatever_came_first(groups: SparkSession) -> None:
    sql = compiled("array_join(collect_list(s), ',')").sql
    made = values(groups, "as_made", sql)
    assert made == values(groups, "reversed", sql) == values(groups, "scattered", sql)
    group = [row for row in rows() if row[0] == "a" and row[7]]
    in_order = sorted(group, key=lambda row: (row[-1], row[1] or -1))
    assert made[0]["v0"].split(",")[:3] == [r[7] for r in in_order[:3]]


def test_a_sum_overflows_only_if_the_total_does(spark: SparkSession) -> None:
    most = 2**63 - 1
    cases = {
        "way": [most, 1, -1, -5],
        "most": [most, 0],
        "least": [-most - 1],
        "back": [-most - 1, most, most, -most - 1, 7],
        "over": [most, 1],
        "under": [-most - 1, -1],
        "null": [None],
    }
    spark.createDataFrame(
        [(k, n) for k, ns in cases.items() for n in ns], "k string, b bigint"
    ).createOrReplaceTempView("sums")
    each = compiled("sum(b)")
    assert each.error is not None
    for row in values(spark, "sums", each.sql, each.error, compiled("avg(b)").sql):
        numbers = [n for n in cases[row["k"]] if n is not None]
        total = sum(numbers) if numbers else None
        fits = total is None or -most - 1 <= total <= most
        assert (row["v0"], row["v1"]) == (total if fits else None, not fits), row
        assert row["v2"] == (total / len(numbers) if total is not None else None)


def test_a_record_on_which_an_argument_fails_is_told_apart(groups: SparkSession) -> None:
    each = compiled("sum(n) + max(100 / n) filter (where ok)")
    assert each.record_error is not None
    failed = groups.sql(f"SELECT n, ok FROM as_made WHERE {each.record_error}").toArrow()
    assert set(failed.to_pylist()[0].items()) == {("n", 0), ("ok", True)}
    assert failed.num_rows == sum(1 for r in rows() if r[2] == 0 and r[8])
    assert compiled("sum(n)").record_error is None


def test_event_time_has_the_name_that_records_carry() -> None:
    assert f"`{STIME}`" == EVENT_TIME


def test_sums_of_doubles_and_their_kin_are_marked() -> None:
    for text in ("sum(x)", "avg(x)", "stddev(n)", "percentile(n, 0.5)", "median(x)", "corr(n, x)",
                 "approx_count_distinct(s)", "max(x) - avg(x)"):  # fmt: skip
        assert compiled(text).tolerance_only, text
    for text in ("max(x)", "round(avg(x), 2)", "cast(sum(x) as decimal(20,2))", "first(x)"):
        assert not compiled(text).tolerance_only, text
    assert compiled("max(x)", tolerance_only=frozenset({"x"})).tolerance_only


@pytest.mark.parametrize(
    "text", ["first(s)", "last(n)", "min_by(s, n)", "max_by(s, n)", "size(collect_list(s))"]
)
def test_ties_are_not_decided_by_a_column_that_differs_from_run_to_run(text: str) -> None:
    sentence = (
        "ties are decided by every column of the input, and it has x, whose last digits may differ "
        "from run to run: round it in a map"
    )
    with pytest.raises(Refused, match=sentence):
        compiled(text, tolerance_only=frozenset({"x"}))
    compiled("max(s) || count(*)", tolerance_only=frozenset({"x"}))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("n", "names column 'n' outside an aggregate function: write, for instance, max(n)"),
        ("sum(s)", "gives sum a string, but it takes number"),
        ("sum(w)", "whose sum may overflow on the way: cast it to at most 28 digits"),
        ("sum(n, n)", "gives sum 2 arguments, but it takes 1"),
        ("min_by(s)", "gives min_by 1 argument, but it takes 2"),
        ("summ(n)", "uses summ, not on the list of functions; did you mean 'sum'?"),
        ("any_value(n)", "may pick another row each time: use first(x), min(x) or max(x)"),
        ("mode(n)", "uses mode, which is refused"),
        ("string_agg(s, ',')", "use array_join(collect_list(x), ',')"),
        ("sum(sum(n))", "uses sum, which needs many rows"),
        ("sum(n) over ()", "uses a window function (OVER)"),
        ("max(distinct stddev(n))", "uses stddev, which needs many rows"),
        ("count_if(distinct ok)", "has DISTINCT in count_if"),
        ("upper(s) filter (where ok)", "has FILTER or NULLS behind what is no aggregate"),
        ("sum(n) filter (where n)", "gives FILTER an int, but it takes boolean"),
        ("collect_list(s)", "is an array, which no column can be: use array_join or size"),
        ("sum(*)", "has a `*`: name the columns"),
        ("percentile(n, 2)", "gives percentile a share that is not from 0 to 1"),
        ("count(distinct *)", "has a `*`: name the columns"),
        ("row_number()", "numbers rows of a window over the whole stream"),
    ],
)
def test_bad_aggregate_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(Refused) as refusal:
        compiled(text)
    assert str(refusal.value).startswith(WHERE)
    assert sentence in str(refusal.value)
