"""The cause of a failed expression is that of the first error that Spark raises as it evaluates it.

The quick table was worked out by hand. In the long test Spark itself evaluates the expressions as
they are written, and the class of its error is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from medusa_core.columns import Column
from pipelines.language.aggregates import compile_aggregate
from pipelines.language.expressions import compile_expression
from pipelines.language.failure_causes import Failure, FailureCause, first_of, only_if
from tests.generated_code import without_generated_code
from tests.language.conftest import COLUMNS
from tests.language.generated_expressions import compiled_text, expressions, plain_text
from tests.language.test_expressions_agree_with_spark import RULES_THAT_GO_ROUND_ERRORS
from tests.sweeps import examples

ZERO, OVER, TEXT, TIME, PLACE, BYTES = FailureCause
RECORD = {
    "zero": ("int", "0"), "one": ("int", "1"), "least": ("int", "-2147483648"),
    "most": ("int", "2147483647"), "long_least": ("bigint", "-9223372036854775808L"),
    "long_most": ("bigint", "9223372036854775807L"), "real": ("double", "1e300D"),
    "nothing": ("int", "CAST(NULL AS INT)"), "word": ("string", "'x'"),
    "money": ("decimal(10,2)", "CAST(99999999.99 AS DECIMAL(10,2))"),
    "none": ("decimal(38,10)", "CAST(0 AS DECIMAL(38,10))"),
    "wide": ("decimal(38,10)",
             "CAST(9999999999999999999999999999.9999999999 AS DECIMAL(38,10))"),
    "day": ("date", "DATE '9999-12-31'"), "bytes": ("binary", "X'ff00'"),
}  # fmt: skip
OF_RECORD = {name: Column(name, type_) for name, (type_, _) in RECORD.items()}
CAUSES: Sequence[tuple[str, FailureCause | None]] = (
    ("one / zero", ZERO),
    ("one % zero", ZERO),
    ("money / none", ZERO),
    ("money % none", ZERO),
    ("one div zero", ZERO),
    ("pmod(one, zero)", ZERO),
    ("real / zero", ZERO),
    ("most + one", OVER),
    ("long_most * 2", OVER),
    ("-least", OVER),
    ("-long_least", OVER),
    ("abs(least)", OVER),
    ("long_least div -one", OVER),
    ("wide * wide", OVER),
    ("wide / 0.0000001", OVER),
    ("cast(long_most as int)", OVER),
    ("cast(money as decimal(5,1))", OVER),
    ("cast(real as bigint)", OVER),
    ("cast(real as decimal(20,2))", OVER),
    ("ceil(real)", OVER),
    ("cast(word as int)", TEXT),
    ("cast(word as date)", TEXT),
    ("to_timestamp(word, 'yyyy-MM-dd')", TEXT),
    ("cast('+99999-01-01' as date)", TIME),
    ("date_add(day, one)", TIME),
    ("cast(long_most as timestamp)", TIME),
    ("timestamp_micros(long_most)", TIME),
    ("split(word, ',')[one]", PLACE),
    ("element_at(split(word, ','), 2)", PLACE),
    ("cast(bytes as string)", BYTES),
    # Both would fail: operands come before their operator, from left to right.
    ("(most + one) * (one div zero)", OVER),
    ("(one div zero) + (most + one)", ZERO),
    ("cast(word as int) + (most + one)", TEXT),
    ("greatest(cast(word as int), most + one)", TEXT),
    # The divisor of a division is looked at first, and the division itself last.
    ("(most + one) / cast(word as int)", TEXT),
    ("(most + one) / zero", OVER),
    ("cast(word as int) % (one div zero)", ZERO),
    # What is not evaluated does not fail, and is no cause of another failure.
    ("nothing / zero", None),
    ("nothing + (most + one)", None),
    ("(most + one) + nothing", OVER),
    ("if(zero = 0, most + one, one div zero)", OVER),
    ("case when zero > 0 then most + one when one > 0 then one div zero else one end", ZERO),
    ("case when one / zero > 1 then most + one else cast(word as int) end", ZERO),
    ("coalesce(one, one div zero)", None),
    ("coalesce(nothing, one div zero, most + one)", ZERO),
    ("zero > 0 and one div zero > 0", None),
    ("zero = 0 or one div zero > 0", None),
    ("zero = 0 and one div zero > 0", ZERO),
    ("most + one between one div zero and 3", OVER),
    ("1 between most + one and cast(word as int)", OVER),
    ("nvl2(nothing, most + one, cast(word as int))", TEXT),
    ("try_divide(one, zero)", None),
    ("try_divide(most + one, one)", OVER),
    ("try_cast(word as int)", None),
)


def numbered(failure: Failure | None) -> str:
    return "CAST(NULL AS INT)" if failure is None else failure.number


def test_the_cause_is_that_of_the_first_evaluation_that_fails(spark: SparkSession) -> None:
    record = ", ".join(f"{value} AS {name}" for name, (_, value) in RECORD.items())
    compiled = [compile_expression(text, OF_RECORD, where="m") for text, _ in CAUSES]
    columns = ", ".join(f"{numbered(c.failure)} AS c{at}" for at, c in enumerate(compiled))
    with without_generated_code(spark):
        (row,) = spark.sql(f"SELECT {columns} FROM (SELECT {record})").toArrow().to_pylist()
    found = [None if n is None else FailureCause(n) for n in row.values()]
    assert list(zip([t for t, _ in CAUSES], found, strict=True)) == list(CAUSES)


def test_a_record_or_a_group_on_which_an_aggregate_fails_has_a_cause_too() -> None:
    total = compile_aggregate("sum(long_most)", OF_RECORD, where="a")
    assert total.failure is not None
    assert (total.failure.cause, total.record_failure) == (OVER, None)
    mean = compile_aggregate("sum(one) / count(word)", OF_RECORD, where="a")
    assert mean.failure is not None
    assert mean.failure.cause is ZERO
    record = compile_aggregate("sum(one div zero)", OF_RECORD, where="a").record_failure
    assert record is not None
    assert record.cause is ZERO


def test_an_expression_with_one_possible_cause_computes_none() -> None:
    """Then the number is a constant, for good and failed records alike."""
    (failure,) = (compile_expression("one / zero + one / zero", OF_RECORD, where="m").failure,)
    assert failure is not None
    assert failure.cause is ZERO
    assert failure.number_if_true == "0"


def test_failures_in_order_and_under_a_condition() -> None:
    zero, over = Failure("z", ZERO), Failure("o", OVER)
    assert first_of(None, None) is None
    assert first_of(zero, None) is zero
    assert first_of(zero, Failure("y", ZERO)) == Failure("(z OR y)", ZERO)
    assert first_of(zero, over) == Failure("(z OR o)", "coalesce(IF(z, 0, NULL), IF(o, 1, NULL))")
    assert only_if(None, zero) is zero
    assert only_if("c", zero) == Failure("(c AND z)", ZERO)


_CAUSES_OF_CLASS: Mapping[str, frozenset[FailureCause]] = {
    "DIVIDE_BY_ZERO": frozenset({ZERO}),
    "REMAINDER_BY_ZERO": frozenset({ZERO}),
    "ARITHMETIC_OVERFLOW": frozenset({OVER}),
    "BINARY_ARITHMETIC_OVERFLOW": frozenset({OVER}),
    "CAST_OVERFLOW": frozenset({OVER, TIME}),
    # Also of a text with too many digits.
    "NUMERIC_VALUE_OUT_OF_RANGE": frozenset({OVER, TEXT}),
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": frozenset({OVER, TEXT}),
    # Also of a double that is no number.
    "CAST_INVALID_INPUT": frozenset({TEXT, TIME}),
    "CANNOT_PARSE_TIMESTAMP": frozenset({TEXT}),
    "INVALID_ARRAY_INDEX": frozenset({PLACE}),
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": frozenset({PLACE}),
    "DATETIME_OVERFLOW": frozenset({TIME}),
}


def causes_of(error: PySparkException) -> frozenset[FailureCause]:
    """What an error of Spark may be called here."""
    text = str(error)
    if "no string" in text:
        return frozenset({BYTES})
    if "no date" in text or "no timestamp" in text:
        return frozenset({TIME})
    known = (error.getCondition() or "").partition(".")[0]
    if known in _CAUSES_OF_CLASS:
        return _CAUSES_OF_CLASS[known]
    assert "overflow" in text or "Exception" in text, text
    return frozenset({OVER, TIME, TEXT})


@contextmanager
def as_written(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.optimizer.excludedRules", RULES_THAT_GO_ROUND_ERRORS)
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    try:
        with without_generated_code(spark):
            yield
    finally:
        spark.conf.unset("spark.sql.optimizer.excludedRules")
        spark.conf.unset("spark.sql.subexpressionElimination.enabled")


def check_with_spark(
    spark: SparkSession, relation: str, columns: Mapping[str, Column], texts: Sequence[str]
) -> int:
    """Compare the causes with Spark's errors, of each expression over a record for each cause."""
    compiled = [compile_expression(compiled_text(t), columns, where="m") for t in texts]
    numbers = ", ".join(f"{numbered(c.failure)} AS n{at}" for at, c in enumerate(compiled))
    count = 0
    with as_written(spark):
        rows = spark.sql(f"SELECT *, {numbers} FROM {relation}").coalesce(1).cache()
        try:
            rows.createOrReplaceTempView("numbered")
            found = rows.select(*(f"n{at}" for at in range(len(texts)))).toArrow()
            for at, text in enumerate(texts):
                for number in {n for n in found[f"n{at}"].to_pylist() if n is not None}:
                    query = f"SELECT {plain_text(text)} AS v FROM numbered WHERE n{at} = {number}"
                    with pytest.raises(PySparkException) as raised:
                        spark.sql(f"{query} LIMIT 1").collect()
                    assert FailureCause(number) in causes_of(raised.value), (text, raised.value)
                    count += 1
        finally:
            rows.unpersist()
    return count


@pytest.mark.long(quick=True)
def test_spark_raises_an_error_of_the_causes_of_the_table(spark: SparkSession) -> None:
    record = ", ".join(f"{value} AS {name}" for name, (_, value) in RECORD.items())
    # What raises only because no column holds it is marked in the tests of expressions.
    texts = [text for text, cause in CAUSES if cause not in (TIME, BYTES)]
    relation = f"(SELECT {record} FROM range(1))"
    expected = sum(cause not in (TIME, BYTES, None) for _, cause in CAUSES)
    assert check_with_spark(spark, relation, OF_RECORD, texts) == expected


@pytest.mark.sweep
@settings(
    max_examples=examples(1, 6), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(texts=st.lists(expressions(), min_size=6, max_size=6))
def test_spark_raises_an_error_of_the_cause(records: SparkSession, texts: list[str]) -> None:
    check_with_spark(records, "records", COLUMNS, texts)
