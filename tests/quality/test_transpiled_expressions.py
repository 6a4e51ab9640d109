"""The oracle's two engines against each other: equal values, and failures on the same records.

Spark evaluates the expressions as they are written; nothing of the compiler takes part.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from medusa_core.columns import Column
from pipelines.language.expressions import compile_expression
from pipelines.language.parsing import parse
from pipelines.quality.duck_tables import arrow_of, make_table
from pipelines.quality.expression_types import ExpressionTypes
from pipelines.quality.spark_expressions import AS_WRITTEN, SparkExpressions, raises
from pipelines.quality.stored_rows import STIME
from pipelines.quality.transpile_aggregates import AggregateTranspiler
from pipelines.quality.transpile_functions import ScalarTranspiler
from pipelines.quality.transpiled import NotTranspiled, Transpiled, duckdb_type
from tests.language.conftest import COLUMNS
from tests.language.conftest import records as records
from tests.language.generated_expressions import compiled_text, expressions, plain_text
from tests.language.test_expressions_agree_with_spark import HOSTILE
from tests.sweeps import examples, long_but

Both = tuple[SparkSession, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def both(records: SparkSession, interpreted: None) -> Both:
    """The same records in both engines, with an event time each."""
    table = records.sql(
        f"SELECT *, CAST(monotonically_increasing_id() * 7 - 300 AS bigint) AS {STIME} FROM records"
    ).toArrow()
    spark = records.newSession()
    for name, value in AS_WRITTEN.items():
        spark.conf.set(name, value)
    spark.createDataFrame(table).coalesce(1).createOrReplaceTempView("timed")
    connection = duckdb.connect()
    make_table(connection, "timed", table, tuple(COLUMNS.values()))
    return spark, connection


def transpiled(text: str) -> Transpiled | None:
    """The expression in DuckDB; None if it is left to Spark."""
    try:
        return ScalarTranspiler(COLUMNS).transpile(parse(text, "m"))
    except NotTranspiled:
        return None


def in_spark(spark: SparkSession, marked: list[str]) -> pa.Table:
    """Value (NULL where it fails) and failure of each expression, by event time.

    What the oracle writes for Spark has the type of the plain text, fails where the plain text
    raises an error, or makes what is marked and no column holds, and else has its value.
    """
    listed = []
    for at, text in enumerate(marked):
        written = SparkExpressions(COLUMNS).text(parse(compiled_text(text), "m"))
        for name, sql in ((f"{at}", written), (f"_plain{at}", f"({plain_text(text)})")):
            fails = raises([sql])
            listed += [f"IF({fails}, NULL, {sql}) AS v{name}", f"{fails} AS f{name}"]
    frame = spark.sql(f"SELECT {STIME}, {', '.join(listed)} FROM timed")
    types, found = dict(frame.dtypes), frame.toArrow().sort_by(STIME)
    for at, text in enumerate(marked):
        expected = str(ExpressionTypes(COLUMNS).of(parse(compiled_text(text), "m")))
        assert (types[f"v{at}"], types[f"v_plain{at}"]) == (expected, expected), text
        for name in "fv":
            assert same(found[f"{name}{at}"]) == same(found[f"{name}_plain{at}"]), text
    return found


def compare(both: Both, marked: list[str]) -> int:
    """Compare both engines on every record; how many of the texts are transpiled."""
    spark, connection = both
    requested, texts = in_spark(spark, marked), [compiled_text(text) for text in marked]
    done = {at: one for at, text in enumerate(texts) if (one := transpiled(text)) is not None}
    if not done:
        return 0
    columns, listed = [], []
    for at, one in done.items():
        listed += [f"CAST({one.sql} AS {duckdb_type(one.type)}) AS v{at}",
                   f"({one.fails or 'NULL'}) IS NOT NULL AS f{at}"]  # fmt: skip
        columns += [Column(f"v{at}", str(one.type)), Column(f"f{at}", "boolean")]
    selected = f"{STIME}, {', '.join(listed)} FROM timed ORDER BY {STIME}"
    made = arrow_of(connection.sql(f"SELECT {selected}"), tuple(columns))
    source = connection.execute(f"SELECT * FROM timed ORDER BY {STIME}").fetchall()
    for at, one in done.items():
        failed, should = made[f"f{at}"].to_pylist(), requested[f"f{at}"].to_pylist()
        values = zip(same(made[f"v{at}"]), same(requested[f"v{at}"]), strict=True)
        for number, (value, expected) in enumerate(values):
            where = f"{texts[at]}\non {source[number]}\n{one}"
            assert failed[number] == should[number], where
            assert should[number] or value == expected, f"{value} {expected} {where}"
    return len(done)


def same(column: pa.ChunkedArray) -> list[object]:
    """Values that compare: one NaN, and 0.0 for -0.0."""
    values = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [None if v is None else "NaN" if v != v else v + 0.0 for v in values]
    return values


@pytest.mark.sweep
@settings(
    max_examples=examples(1, 8),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # a failure names its expression; each try costs a Spark job
)
@given(texts=st.lists(expressions(), min_size=40, max_size=40))
def test_both_engines_give_the_same_and_fail_on_the_same_records(
    both: Both, texts: list[str]
) -> None:
    assert compare(both, list(dict.fromkeys(texts))) > 0


TRANSPILED = r"""
    small + 1; small + big; big - 1L; small * other; big * large; money + 1; money - small;
    money * money; real + money; real * 2; small / other; big / 2L; real / ratio; small % other;
    big % large; real % ratio; small div other; big div large; -small; -big; -money; -real;
    2147483648;
    12345678901234567890; 1e3; 2.5D; 5L; 100.50; small & 3; (big | small) ^ big; ~small;
    small = 1; text < word; money > 5; money >= wide; day < time; real = ratio; bytes = bytes;
    flag and small > 1; flag or 1 / other > 0; not flag; text is null; flag is not true;
    small between 1 and other; text in ('a', 'b', '12'); small in (1, 7); text like 'a%';
    text not like '%!_' escape '!'; small is distinct from other; real <=> ratio; small <=> big;
    text || word; text || small || 'x'; concat(flag, '-', big);
    case when flag then 1 when small > 3 then big else 2 end; if(flag, small, big);
    case small when 1 then 'a' when 7 then 'b' end; if(flag, money, small); coalesce(small, big, 2);
    nvl(other, 0); nullif(small, 0); nvl2(text, small, other); nanvl(real, 1 / ratio); isnan(real);
    cast(small as decimal(12,2)); cast(big as int); cast(small as bigint); cast(big as double);
    cast(real as int); cast(real as bigint); cast(time as bigint); cast(time as date);
    cast(day as timestamp); cast(flag as int); cast(small as boolean); cast(big as string);
    «timestamp cast(big as timestamp)»; cast(money as double); try_cast(big as int);
    cast(wide as decimal(38,10));
    cast(null as double); abs(small); abs(big); abs(money); abs(real); floor(real); ceil(real);
    floor(small); ceil(big); pmod(small, 7); mod(big, 3); greatest(small, big); least(real, ratio);
    length(text); trim(text); contains(text, ','); startswith(word, 'a'); endswith(text, word);
    substring_index(text, ',', 1); substring_index(text, ',', 2); substring_index(word, '-', -1);
    substring_index(text, ',', -9); substring_index(text, ',', 0); replace(text, ',', '+');
    instr(text, ','); substring(text, 2, 3); substring(text, 2); left(word, 3); right(word, 2);
    split_part(text, ',', 2); md5(text); sqrt(real); unix_seconds(time); unix_millis(time);
    unix_micros(time); «timestamp timestamp_seconds(big)»; «timestamp timestamp_millis(big)»;
    «timestamp timestamp_micros(big)»; «date date_add(day, small)»; «date date_sub(day, other)»;
    datediff(day, time); «date date_from_unix_date(small)»;
    date_trunc('hour', time); date_trunc('day', time); year(day); quarter(day); month(time);
    day(time); dayofyear(day); dayofweek(day); weekday(time); weekofyear(day); hour(time);
    minute(time); second(time); try_add(small, 1); try_divide(small, other); try_multiply(big, big);
    timestamp'1969-12-31 23:59:59.5'; date'2024-01-31'; 'it\'s'; true; octet_length(text)
"""


@pytest.mark.long
def test_everything_that_is_listed_here_is_transpiled_and_gives_the_same(both: Both) -> None:
    texts = [text.strip() for text in TRANSPILED.split(";") if text.strip()]
    assert [text for text in texts if transpiled(compiled_text(text)) is None] == []
    assert compare(both, texts) == len(texts)


@pytest.mark.parametrize(
    "text",
    ["upper(text)", "text rlike '^a'", "cast(text as int)", "round(real, 2)", "ln(ratio)",
     "cast(real as string)", "text ilike 'A%'", "date_format(time, 'yyyy')", "money / money",
     "wide * wide", "hash(text)", "cast(wide as double)", "reverse(text)", "split(text, ',')[0]",
     "substring_index(text, 'ab', 1)", "cast(text as timestamp)"],
)  # fmt: skip
def test_what_may_differ_between_the_engines_is_left_to_spark(text: str) -> None:
    compile_expression(text, COLUMNS, where="m")
    assert transpiled(text) is None


@pytest.mark.long
def test_what_no_column_holds_is_a_failure_where_it_is_made(both: Both) -> None:
    compare(both, HOSTILE)


@pytest.mark.parametrize(
    ("text", "value", "fails"),
    long_but(
        3,
        [
            ("cast('12:30:00' as timestamp)", None, True),
            ("cast(' T12:30' as timestamp)", None, True),
            ("try_cast('12:30:00' as timestamp)", None, False),
            ("unix_seconds(cast('1970-01-01 00:00:07' as timestamp))", 7, False),
            ("cast(18446744073709.551616 as timestamp)", None, True),
            ("cast(cast(-1e13 as decimal(38,0)) as timestamp)", None, True),
            ("try_cast(18446744073709.551616 as timestamp)", None, False),
            ("unix_seconds(cast(7.5 as timestamp))", 7, False),
            ("floor(1e19)", None, True),
            ("ceil(-1e19)", None, True),
            ("floor(cast('NaN' as double))", 0, False),
            ("year(try_to_date('99999-01-01'))", None, False),
        ],
    ),
)
def test_what_spark_lets_pass_or_takes_from_the_clock_is_a_failure(
    both: Both, text: str, value: object, fails: bool
) -> None:
    written = SparkExpressions(COLUMNS).text(parse(text, "m"))
    failed = raises([written])
    row = both[0].sql(f"SELECT {failed}, IF({failed}, NULL, {written})").collect()[0]
    assert tuple(row) == (fails, value)


AGGREGATES = r"""
    count(*); count(small); count(small, text); count(distinct small); count(distinct small, other);
    count(distinct real); count(*) filter (where small > 0); count_if(flag); sum(small); sum(big);
    sum(money); sum(distinct small); sum(distinct other); avg(small); avg(other); avg(big);
    min(text); max(text); min(real); max(real); min(day); max(time); max(bytes); min(flag);
    bool_and(flag); bool_or(flag) filter (where small > 0); bit_and(small); bit_or(big);
    bit_xor(other); first(text); last(text); first(text) ignore nulls; last(small, true);
    min_by(text, other); max_by(real, small); min_by(word, real) filter (where flag);
    sum(small + 1); sum(other) + count(*); max(other) * 2147483647; sum(small) / count(small);
    coalesce(sum(other), 0); sum(100 div other); max(cast(big as int)); min(money) - 1
"""


@pytest.mark.long
def test_aggregates_that_are_transpiled_give_the_same_for_every_group(both: Both) -> None:
    usable: dict[str, list[str]] = {}
    for text in (text.strip() for text in AGGREGATES.split(";")):
        transpiler = AggregateTranspiler(COLUMNS)
        transpiler.transpile(parse(text, "m"))
        # Those that fail on no record are compared at once: each comparison costs a Spark job.
        usable.setdefault(" OR ".join(transpiler.record_fails), []).append(text)
    assert len(usable) > 2
    for texts in usable.values():
        compare_aggregates(both, texts)


def compare_aggregates(both: Both, texts: list[str]) -> None:
    """Compare both engines on every group; a record on which one expression fails is left out."""
    spark, connection = both
    ours, theirs, columns, ours_bad, theirs_bad = [], [], [Column("word", "string")], [], []
    for at, text in enumerate(texts):
        transpiler, written = AggregateTranspiler(COLUMNS), SparkExpressions(COLUMNS)
        tree = parse(text, "m")
        one, in_spark = transpiler.transpile(tree), written.text(tree)
        ours_bad += transpiler.record_fails
        theirs_bad += written.arguments(tree)
        ours += [f"CAST({one.sql} AS {duckdb_type(one.type)}) AS v{at}",
                 f"({one.fails or 'NULL'}) IS NOT NULL AS f{at}"]  # fmt: skip
        fails = raises([in_spark])
        theirs += [f"IF({fails}, NULL, {in_spark}) AS v{at}", f"{fails} AS f{at}"]
        columns += [Column(f"v{at}", str(one.type)), Column(f"f{at}", "boolean")]
    bad = " OR ".join(f"{fails} IS NOT NULL" for fails in ours_bad) or "false"
    grouped = f"{', '.join(ours)}, 0 AS {STIME} FROM timed WHERE NOT ({bad}) GROUP BY word"
    made = arrow_of(connection.sql(f"SELECT word, {grouped}"), tuple(columns))
    usable = f"NOT {raises(theirs_bad or ['0'])}"
    frame = spark.sql(f"SELECT word, {', '.join(theirs)} FROM timed WHERE {usable} GROUP BY word")
    assert frame.dtypes == [(c.name, c.type) for c in columns]
    expected = frame.toArrow()
    for at, text in enumerate(texts):
        assert rows_of(made, at) == rows_of(expected, at), text


def rows_of(table: pa.Table, at: int) -> list[tuple[str, ...]]:
    """Values and failures by group, in an order, without the value where it is lost."""
    failed = table[f"f{at}"].to_pylist()
    rows = zip(table["word"].to_pylist(), same(table[f"v{at}"]), failed, strict=True)
    shown = ((repr(word), "lost" if lost else repr(value), lost) for word, value, lost in rows)
    return sorted((word, value, str(lost)) for word, value, lost in shown)


@pytest.mark.parametrize(
    ("text", "by_hand"),
    long_but(2, [
        ("array_join(collect_list(text), ',')", "string_agg(text, ',' ORDER BY _stime)"),
        ("array_join(collect_set(text), ',')",
         "array_to_string(list_sort(list(DISTINCT text) FILTER (text IS NOT NULL)), ',')"),
        ("array_join(collect_list(text) filter (where small > 0), ',')",
         "string_agg(text, ',' ORDER BY _stime) FILTER (small > 0)"),
        ("avg(distinct other)", "avg(DISTINCT other)"),
        ("sum(distinct small) filter (where flag)", "sum(DISTINCT small) FILTER (flag)::BIGINT"),
        ("last(text) ignore nulls", "last(text ORDER BY _stime) FILTER (text IS NOT NULL)"),
        ("cast(min(real) filter (where real = 0) as string)", "if(bool_or(real = 0), '0.0', '')"),
        ("array_join(collect_list(real) filter (where real = 0), ',')",
         "array_to_string(list('0.0') FILTER (real = 0), ',')"),
        ("size(collect_set(real) filter (where real = 0))",
         "count(DISTINCT real) FILTER (real = 0)"),
    ]),
)  # fmt: skip
def test_spark_aggregates_in_the_order_of_the_records(both: Both, text: str, by_hand: str) -> None:
    spark, connection = both
    written = SparkExpressions(COLUMNS).text(parse(text, "m"))
    frame = spark.sql(f"SELECT word, {written} AS v FROM timed GROUP BY word").toArrow().to_pylist()
    grouped = f"SELECT word, {by_hand} AS v FROM timed GROUP BY word"
    expected = {word: value or "" for word, value in connection.execute(grouped).fetchall()}
    assert {row["word"]: row["v"] or "" for row in frame} == expected
