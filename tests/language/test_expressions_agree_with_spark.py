"""Compiled expressions against plain ANSI evaluation by Spark itself.

Spark tells whether an expression raises on a record by way of `try_to_binary`, which turns any
error inside it into NULL. Its optimizer is held back from rules that go round errors, since the
promise is about expressions as written. What makes a time outside the years 1 to 9999, or a text
that is no UTF-8, is marked in the texts; there Spark is made to raise.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipelines.language.constants import JAVA_CLASS_NAMES, quote
from pipelines.language.expressions import compile_expression
from pipelines.language.functions import CONSTANT_KINDS, SCALARS, Scalar
from tests.generated_code import without_generated_code
from tests.language.conftest import COLUMNS, OTHER_SETTINGS, in_tasks
from tests.language.generated_expressions import compiled_text, expressions, plain_text
from tests.sweeps import examples, long_but

RULES_THAT_GO_ROUND_ERRORS = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in (
        "BooleanSimplification",
        "ConstantFolding",
        "NullPropagation",
        "PushFoldableIntoBranches",
        "ReorderAssociativeOperator",
        "SimplifyConditionals",
        "UnwrapCastInBinaryComparison",
    )
)

TYPED = r"""
    small + 1; small + big; big - 1L; small * 2.5; money + 1; money + small; money + big;
    money * money; wide * wide; wide + wide; money / 3; wide / 7; small / other; big / 2L;
    money / money; money - 0.5; 1.5 / 3; real + money; real * 2; small % 7; big % small;
    money % 3; money % wide; small div 2; small div other; -small; -money; -real; - 5;
    -2147483648; -9223372036854775808L; 2147483648; 12345678901234567890; 1e3; 2.5D; 0.001;
    5L; 100.50; small & 3; (big | small) ^ big; ~small; small << 2; shiftright(big, 3);
    small = 1; text < word; money > 5; day < time; flag and small > 1; not flag; text is null;
    small between 1 and 5; text in ('a', 'b'); text like 'a%'; text not like '%!_' escape '!';
    text ilike 'A%'; text rlike r'^\d+$'; text not rlike 'a'; flag is not true;
    small is distinct from other; small <=> other; text || word; text || small || 'x';
    case when flag then 1 else 2.5 end; case small when 1 then 'a' when 2 then 'b' end;
    if(flag, small, big); if(flag, money, small); if(flag, 1, null); coalesce(small, big, 1.5D);
    coalesce(money, wide); nvl(small, 0); ifnull(text, ''); nullif(small, 0); nvl2(text, 1, 2);
    cast(text as int); cast(text as timestamp); cast(small as decimal(12,2)); text::date;
    cast(time as bigint); cast(day as timestamp); cast(null as double); cast(bytes as string);
    cast(money as decimal(5,1)); cast(real as decimal(20,5)); cast(flag as int);
    cast(text as bigint);
    abs(small); abs(money); round(real, 2); round(money, 1); round(money); round(wide, 3);
    bround(money, 1); round(small, 1); floor(real); floor(money); ceil(big); floor(floor(money));
    pmod(small, 7); mod(big, 3); greatest(small, big); least(real, small); sign(money);
    split(text, ',')[0]; element_at(split(text, ','), -1); size(split(text, ','));
    array_join(array_distinct(split(text, ',')), '-'); array_max(array(small, other));
    array_contains(split(text, ','), 'a'); try_add(small, 1); try_divide(small, 0);
    date'2024-01-31'; timestamp'2024-01-31 12:00:00.5'; 'it\'s'; r'\d'; "double"; true;
    concat_ws('-', text, small, word); hash(text, small); nanvl(real, ratio);
    equal_null(small, other); (small + 1) * (other - 2); small + other * 2 - big div 3;
"""


@pytest.mark.parametrize(
    "text", long_but(30, [cell.strip() for cell in TYPED.split(";") if cell.strip()])
)
def test_type_is_the_one_that_spark_finds(records: SparkSession, text: str) -> None:
    compiled = compile_expression(text, COLUMNS, where="map m")
    frame = records.sql(f"SELECT {text} AS plain, {compiled.sql} AS compiled FROM records")
    assert [field.dataType.simpleString() for field in frame.schema] == [compiled.type] * 2


def check(records: SparkSession, marked: list[str]) -> None:
    """The compiled form never raises, flags what plain evaluation raises on, and else is equal.

    Plain evaluation is by generated code, which looks at no argument behind a NULL of `concat`.
    """
    batch = [(t, compile_expression(compiled_text(t), COLUMNS, where="map m")) for t in marked]
    ours = [
        f"({compiled.error or 'false'}) AS flagged{i}, ({compiled.sql}) AS ours{i}"
        for i, (_, compiled) in enumerate(batch)
    ]
    # Spark's own settings here: what is compiled must not raise under any of them.
    with without_generated_code(records):
        answered = records.sql(f"SELECT *, {', '.join(ours)} FROM records").toArrow()
    records.createDataFrame(answered).coalesce(1).createOrReplaceTempView("answered")
    both = [
        f"flagged{i}, try_to_binary(coalesce(CAST(({text}) AS STRING), ''), 'utf-8') IS NULL "
        f"AS raised{i}, (CASE WHEN NOT flagged{i} THEN ({text}) END) <=> "
        f"(CASE WHEN NOT flagged{i} THEN ours{i} END) AS same{i}"
        for i, text in enumerate(plain_text(marked) for marked, _ in batch)
    ]
    records.conf.set("spark.sql.optimizer.excludedRules", RULES_THAT_GO_ROUND_ERRORS)
    records.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    try:
        rows = records.sql(f"SELECT {', '.join(both)} FROM answered").toArrow().to_pylist()
    finally:
        records.conf.unset("spark.sql.optimizer.excludedRules")
        records.conf.unset("spark.sql.subexpressionElimination.enabled")
    for i, (text, compiled) in enumerate(batch):
        for number, row in enumerate(rows):
            told = f"row {number} of {text}: {compiled}"
            assert row[f"flagged{i}"] is not None, told
            assert row[f"flagged{i}"] == row[f"raised{i}"], told
            assert row[f"same{i}"], told


@pytest.mark.sweep
@settings(
    max_examples=examples(1, 5),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(texts=st.lists(expressions(), min_size=12, max_size=12))
def test_flag_is_true_exactly_where_plain_evaluation_raises(
    records: SparkSession, texts: list[str]
) -> None:
    check(records, texts)


@pytest.mark.parametrize(
    "text", ["${env:HOME}", "${system:user.name}", "${spark:spark.app.name}", "cost ${price}", "${"]
)
def test_a_text_with_the_form_of_a_variable_is_only_text(records: SparkSession, text: str) -> None:
    compiled = compile_expression(f"'{text}'", COLUMNS, where="map m")
    assert records.sql(f"SELECT {compiled.sql}").toArrow()[0].to_pylist() == [text]


LAZY = [
    "if(small = 0, 0, 100 / small)",
    "case when other > 0 then small div other when other < 0 then small % other else 1 end",
    "coalesce(small, cast(text as int))",
    "flag and 1 / other > 0",
    "flag or cast(word as boolean)",
    "nvl2(text, cast(text as int), small + other)",
    "small + cast(text as int)",
    "cast(text as int) / other",
    "word < cast(cast(text as int) as string)",
    "nanvl(real, 1 / ratio)",
    "real between 1 / ratio and 10 / other",
    "text = 'x' or cast(text as double) > 1",
    "concat(word, cast(text as int))",
    "greatest(small, cast(text as int))",
    "concat_ws('-', word, cast(text as int))",
]


@pytest.mark.long
@pytest.mark.sweep
def test_an_error_in_a_branch_not_taken_does_not_count(records: SparkSession) -> None:
    check(records, LAZY)


# For each kind of argument: a column that may be NULL, and an expression that raises on some rows.
_COLUMN_OF = {
    "string": "text", "text": "text", "any": "text", "int": "other", "integral": "big",
    "common": "small", "number": "real", "double": "real", "day": "day", "date": "day",
    "timestamp": "time", "array": "split(text, ',')", "boolean": "flag",
}  # fmt: skip
_FAILING = {
    "string": "cast(cast(word as int) as string)", "text": "cast(word as int)",
    "any": "cast(cast(word as int) as string)", "int": "cast(word as int)",
    "integral": "cast(word as bigint)", "common": "cast(word as int)",
    "number": "cast(word as double)", "double": "cast(word as double)",
    "day": "cast(word as date)", "date": "cast(word as date)",
    "timestamp": "cast(word as timestamp)",
    "array": "split(cast(cast(word as int) as string), ',')",
}  # fmt: skip
_CONSTANT = {
    "digits": "1", "count": "1", "index": "1", "constant": "','", "pattern": "'(a)'",
    "replacement": "'b'", "format": "'yyyy-MM-dd'", "parse_format": "'yyyy-MM-dd'",
    "unit": "'month'", "path": "'$.a'",
}  # fmt: skip


def calls_of(function: Scalar) -> list[str]:
    """The function over columns, and once for each argument with one that fails."""
    kinds = [kind.rstrip("?*") for kind in function.takes]
    plain = [_CONSTANT.get(kind) or _COLUMN_OF[kind] for kind in kinds]
    variants = [plain] + [
        [*plain[:i], _FAILING[kind], *plain[i + 1 :]]
        for i, kind in enumerate(kinds)
        if kind not in CONSTANT_KINDS
    ]
    calls = [f"{function.name}({', '.join(arguments)})" for arguments in variants]
    gives_array = function.gives.startswith("array") or (
        function.gives == "first" and kinds[0] == "array"
    )
    if function.gives in ("date", "timestamp") and not function.name.startswith("try_"):
        calls = [f"«{function.gives} {call}»" for call in calls]
    return [f"size({call})" for call in calls] if gives_array else calls


@pytest.mark.sweep
def test_every_listed_function_is_as_total_and_as_lazy_as_the_list_says(
    records: SparkSession,
) -> None:
    calls = [text for function in SCALARS.values() for text in calls_of(function)]
    calls = calls[:: examples(8, 1)]
    for start in range(0, len(calls), 20):
        check(records, calls[start : start + 20])


PATTERNS = [
    "", r"\{", "a{2}", "a{2,}", "a{0,1000}?", "a{1,2}+", "a*+b", "(?>a|b)c", "(?<n1>a)b", "(a|b)*",
    "(?i)x", "(?i:x)y", "(?im-s:x)", "(?=a)", "(?!a)", "(?<=a)b", "(?<!ab)c", r"(a)\1", "(((a)))",
    r"[\[\]&{}(?)#-]", "[^a-z]", r"[\p{L}\d]", r"\p{IsAlphabetic}\P{Lu}", "[a&b]", "}", "]", "a|",
    r"\x41\u0041\t\.\-", r"\\", "[-a]", "[a-]", r"\A\b\B$", "(?=a)*", "()*", "a??",
]  # fmt: skip


HOSTILE = [
    "cast(«date date_add(day, small)» as timestamp)",
    "cast(«date date_sub(day, small)» as timestamp)",
    "cast(«date dateadd(time, small)» as timestamp)",
    "cast(«date date_from_unix_date(small)» as timestamp)",
    "date_format(«date date_add(day, small)», 'yyyy-MM-dd')",
    "last_day(«date date_add(day, small)»)",
    "«date date_add(day, small)» < time",
    "date_trunc('week', «timestamp timestamp_micros(big)»)",
    "date_trunc('year', «timestamp timestamp_micros(big)»)",
    "date_trunc('hour', «timestamp cast(big as timestamp)»)",
    "date_trunc('hour', «timestamp cast(real as timestamp)»)",
    "date_trunc('week', «timestamp timestamp_seconds(big)»)",
    "date_trunc('week', «timestamp timestamp_millis(big)»)",
    "cast(money as timestamp)",
    "cast(«date cast('+' || large || '2024-01-31' as date)» as timestamp)",
    "date_trunc('week', «timestamp cast('+' || large || '2024-01-31' as timestamp)»)",
    "date_trunc('week', «timestamp cast('0001-01-01 00:00:00+12:00' as timestamp)»)",
    "upper(«string cast(bytes as string)»)",
    "concat_ws('-', «string cast(bytes as string)», text)",
]


@pytest.mark.long
@pytest.mark.sweep
def test_times_beyond_the_years_and_texts_that_are_none_are_flagged_where_they_are_made(
    records: SparkSession,
) -> None:
    check(records, HOSTILE)


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_no_time_beyond_the_years_and_no_text_that_is_none_comes_out(records: SparkSession) -> None:
    made = {
        "cast(wide as timestamp)": 3, "try_cast(wide as timestamp)": 3,
        "try_to_date('+' || large || '2024-01-31')": 1, "try_cast(bytes as string)": 2,
        "try_cast(real * 1e9 as timestamp)": 3, "date_add(date'9999-12-31', other)": 2,
        "date_sub(date'0001-01-01', other)": 2, "timestamp_micros(253402300799999999 + other)": 2,
        "cast(253402300799L + other as timestamp)": 2,
        "cast(-62135596800L + other as timestamp)": 3,
    }  # fmt: skip
    for text, expected in made.items():
        sql = compile_expression(text, COLUMNS, where="m").sql
        answered = records.sql(f"SELECT DISTINCT {sql} AS made FROM records").toArrow()
        values = [value for value in answered["made"].to_pylist() if value is not None]
        assert len(values) == expected, (text, values)


@pytest.mark.usefixtures("interpreted")
def test_patterns_that_pass_the_check_are_read_by_java(records: SparkSession) -> None:
    every_class = "".join(rf"\p{{{name}}}" for name in sorted(JAVA_CLASS_NAMES))
    texts = [f"text rlike {quote(pattern)}" for pattern in (*PATTERNS, every_class)]
    compiled = [compile_expression(text, COLUMNS, where="m").sql for text in texts]
    listed = ", ".join(f"{sql} AS found{i}" for i, sql in enumerate(compiled))
    records.sql(f"SELECT {listed} FROM records").collect()


PLAIN = [cell.strip() for cell in TYPED.split(";") if cell.strip()] + [
    compiled_text(calls_of(function)[0]) for function in SCALARS.values()
]


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.usefixtures("interpreted")
def test_what_an_expression_means_is_settled_before_its_tasks_run(records: SparkSession) -> None:
    chosen = PLAIN[:: examples(4, 1)]
    for start in range(0, len(chosen), 40):
        texts = chosen[start : start + 40]
        compiled = [compile_expression(text, COLUMNS, where="map m") for text in texts]
        columns = [sql for c in compiled for sql in (c.error or "false", c.sql)]
        listed = ", ".join(f"({column}) AS c{i}" for i, column in enumerate(columns))
        query = f"SELECT {listed} FROM records"
        rows = in_tasks(records, query, {})
        for number, other in enumerate(in_tasks(records, query, OTHER_SETTINGS)):
            assert repr(other) == repr(rows[number]), f"row {number} of {texts}"


@pytest.mark.usefixtures("interpreted")
def test_tasks_would_follow_a_setting_that_they_look_up(records: SparkSession) -> None:
    parsed = "SELECT try_to_timestamp(word, 'yyyy-MM-dd') AS parsed FROM records"
    legacy = {"spark.sql.legacy.timeParserPolicy": "LEGACY"}
    assert in_tasks(records, parsed, legacy) != in_tasks(records, parsed, {})
