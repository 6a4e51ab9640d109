"""The oracle's types against Spark's own analyzer, over columns of random types.

Spark analyzes many expressions in one statement and runs none of them. A cast of a number is
written with parentheses, since the parser reads `cast(5 as bigint)` as `5L`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from medusa_core.columns import Column
from pipelines.language.functions import AGGREGATES, SCALARS, SPECIAL
from pipelines.language.parsing import parse
from pipelines.quality import aggregate_calls
from pipelines.quality.expression_types import FUNCTIONS, ExpressionTypes
from pipelines.quality.spark_expressions import SparkExpressions
from tests.language.conftest import COLUMNS
from tests.language.generated_expressions import compiled_text, expressions
from tests.language.test_expressions_agree_with_spark import TYPED, calls_of
from tests.sweeps import examples

_DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: f"decimal({precision},{scale})")
)
_NUMBERS = st.sampled_from(["int", "bigint", "double"]) | _DECIMALS
_BINARY = ("({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} % {})", "coalesce({}, {})",
           "if(flag, {}, {})", "greatest({}, {})", "try_add({}, {})", "try_divide({}, {})",
           "case when flag then {} else {} end", "nullif({}, {})", "nvl2(flag, {}, {})",
           "array_max(array({}, {}))", "mod({}, {})")  # fmt: skip
_UNARY = ("(- {})", "abs({})", "round({}, 2)", "round({})", "bround({}, 1)", "floor({})",
          "ceil({})", "({})", "cast(({}) as decimal(20,4))", "cast(({}) as bigint)", "sqrt({})",
          "coalesce({}, null)")  # fmt: skip
_AGGREGATES = ("sum({})", "avg({})", "min({})", "max({})", "first({})", "max_by({}, flag)",
               "median({})", "percentile_approx({}, 0.5)", "stddev({})", "count({})",
               "sum(distinct {})", "array_max(collect_list({}))")  # fmt: skip
_LITERALS = ("0", "7", "-12", "2147483648", "12345678901234567890", "0.5", "-3.250", "0.001", "1e3",
             "5L", "-5L", "2.5D")  # fmt: skip


@st.composite
def numbers(draw: st.DrawFn, depth: int = 3) -> str:
    """A numeric expression over columns x0 to x5, of any types."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([*(f"x{n}" for n in range(6)), *_LITERALS]))
    form = draw(st.sampled_from((*_BINARY, *_BINARY, *_UNARY)))
    return form.format(*(draw(numbers(depth - 1)) for _ in range(form.count("{}"))))


@st.composite
def typed_columns(draw: st.DrawFn) -> Mapping[str, Column]:
    """The columns of the generated expressions, those of numbers and decimals of random types."""
    chosen = {f"x{n}": draw(_NUMBERS) for n in range(6)}
    chosen |= {"money": draw(_DECIMALS), "wide": draw(_DECIMALS)}
    types = {**{name: column.type for name, column in COLUMNS.items()}, **chosen}
    return {name: Column(name, type_) for name, type_ in types.items()}


def check(spark: SparkSession, columns: Mapping[str, Column], texts: Sequence[str]) -> None:
    """The oracle gives each expression the type that Spark gives it, and so does its text."""
    typed = ", ".join(f"CAST(NULL AS {c.type}) AS {c.name}" for c in columns.values())
    trees = [parse(text, "m") for text in texts]
    listed = [f"({text})" for text in texts]
    listed += [SparkExpressions(columns).text(tree) for tree in trees]
    statement = f"SELECT {', '.join(listed)} FROM (SELECT {typed}, 0L AS _stime)"
    frame = spark.sql(statement)
    found = [type_ for _, type_ in frame.dtypes]
    types = ExpressionTypes(columns)
    for at, tree in enumerate(trees):
        expected = (found[at], found[at + len(trees)])
        assert (str(types.of(tree)),) * 2 == expected, f"{texts[at]} over {typed}"


SLOW = settings(
    max_examples=examples(3, 20),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


@pytest.mark.long
@pytest.mark.sweep
@SLOW
@given(typed_columns(), st.lists(numbers(), min_size=60, max_size=60))
def test_numbers_of_any_types_have_the_types_of_spark(
    spark: SparkSession, columns: Mapping[str, Column], texts: list[str]
) -> None:
    check(spark, columns, texts)


@pytest.mark.long
@pytest.mark.sweep
@SLOW
@given(typed_columns(), st.lists(st.tuples(st.sampled_from(_AGGREGATES), numbers(depth=1)),
                                 min_size=40, max_size=40))  # fmt: skip
def test_aggregates_of_any_types_have_the_types_of_spark(
    spark: SparkSession, columns: Mapping[str, Column], drawn: list[tuple[str, str]]
) -> None:
    check(spark, columns, [form.format(text) for form, text in drawn])


@pytest.mark.long
@pytest.mark.sweep
@SLOW
@given(typed_columns(), st.lists(expressions(), min_size=60, max_size=60))
def test_expressions_of_every_kind_have_the_types_of_spark(
    spark: SparkSession, columns: Mapping[str, Column], texts: list[str]
) -> None:
    check(spark, columns, [compiled_text(text) for text in texts])


def test_every_function_of_the_list_has_the_type_of_spark(spark: SparkSession) -> None:
    listed = [compiled_text(text) for function in SCALARS.values() for text in calls_of(function)]
    check(spark, COLUMNS, [*listed, *(text.strip() for text in TYPED.split(";") if text.strip())])


def test_the_oracle_knows_every_function_that_a_box_may_use() -> None:
    assert frozenset(SCALARS) | SPECIAL | AGGREGATES == FUNCTIONS
    assert aggregate_calls.AGGREGATES == AGGREGATES


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("small + big", "bigint"),
        ("small / other", "double"),
        ("money / money", "decimal(23,13)"),
        ("wide * wide", "decimal(38,6)"),
        ("money * 7", "decimal(12,2)"),
        ("money * small", "decimal(21,2)"),
        ("sum(money)", "decimal(20,2)"),
        ("avg(money)", "decimal(14,6)"),
        ("sum(small)", "bigint"),
        ("round(money, 1)", "decimal(10,1)"),
    ],
)
def test_types_that_the_reference_gives(text: str, type_: str) -> None:
    assert str(ExpressionTypes(COLUMNS).of(parse(text, "m"))) == type_
