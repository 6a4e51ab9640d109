"""What an expression becomes, and the sentence a user reads where it cannot be one."""

from __future__ import annotations

import pytest

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.language.expressions import compile_expression, compile_predicate

COLUMNS = {
    name: Column(name, type_)
    for name, type_ in {
        "orig_h": "string",
        "connections": "bigint",
        "small": "int",
        "price": "double",
        "bid": "decimal(10,2)",
        "day": "date",
        "at": "timestamp",
    }.items()
}
WHERE = "filter busy of network n, port 'yes'"


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("connections > 100", "(`connections` > 100)"),
        ("Connections", "`connections`"),
        ("unix_seconds(at)", "unix_seconds(`at`)"),
        ("not contains(orig_h, ':')", "(NOT contains(`orig_h`, ':'))"),
        (
            "substring_index(orig_h, '.', 3) || '.0/24'",
            "concat(substring_index(`orig_h`, '.', 3), '.0/24')",
        ),
        ("price / 60", "(`price` / 60)"),
        ("connections div 60", "(`connections` div 60)"),
        ("price * 2.50", "(`price` * 2.50)"),
        ("round(price, 2)", "round(`price`, 2)"),
        ("r'\\d'", "'\\\\d'"),
        ("'it\\'s'", "'it\\'s'"),
        ("date'2024-01-31'", "DATE '2024-01-31'"),
        ("cast(small as bigint)", "CAST(`small` AS bigint)"),
        ("cast(day as timestamp(6))", "CAST(`day` AS timestamp)"),
        ("cast(small as character varying)", "CAST(`small` AS string)"),
        ("regexp_extract(orig_h, r'^(\\d+)', 1)", "regexp_extract(`orig_h`, '^(\\\\d+)', 1)"),
    ],
)
def test_what_cannot_fail_carries_no_flag(text: str, sql: str) -> None:
    compiled = compile_expression(text, COLUMNS, where=WHERE)
    assert (compiled.sql, compiled.error) == (sql, None)


def test_what_can_fail_becomes_its_try_form_with_a_flag() -> None:
    compiled = compile_expression("connections + 1", COLUMNS, where=WHERE)
    assert compiled.sql == "try_add(`connections`, 1)"
    assert compiled.error == "(`connections` IS NOT NULL AND try_add(`connections`, 1) IS NULL)"
    assert compiled.type == "bigint"


def test_braces_in_a_text_are_only_text() -> None:
    text = "to_timestamp('{0}' || orig_h, 'yyyy')"
    sql = compile_expression(text, COLUMNS, where=WHERE).sql
    assert sql.startswith("IF((try_to_timestamp(concat('{0}', `orig_h`), 'yyyy') BETWEEN ")


def test_the_text_is_the_same_each_time() -> None:
    text = "case when small in (1, 2) then bid / small else coalesce(bid, 0.5) end"
    assert len({compile_expression(text, COLUMNS, where=WHERE) for _ in range(5)}) == 1


def test_rounding_makes_a_value_within_a_tolerance_exact() -> None:
    inexact = frozenset({"price"})
    for text, is_inexact in (
        ("price + 1", True),
        ("if(price > 1, 'a', 'b')", True),
        ("price is null", False),
        ("round(price, 2)", False),
        ("cast(price as decimal(10,2))", False),
        ("round(price, 2) * price", True),
        ("sin(small)", True),
    ):
        compiled = compile_expression(text, COLUMNS, where=WHERE, tolerance_only=inexact)
        assert compiled.tolerance_only is is_inexact, text
    with pytest.raises(Refused, match=r"last digits may differ .* round it first"):
        compile_predicate("price > 1", COLUMNS, where=WHERE, tolerance_only=inexact)


BAD = [
    ("", "has no expression: write a Spark SQL expression as text"),
    (
        "connection > 1",
        "names column 'connection', which is not there; did you mean",
    ),
    ("zzz > 1", "names column 'zzz', which is not there; there are orig_h, connections, small"),
    ("_stime > 1", "event time is not a column: aggregates give `window_start`"),
    ("a.connections", "has a dot in 'a.connections': name the column alone"),
    ("connections >", "cannot be read: look at character 13"),
    ("connections > 1 2", "cannot be read: look at character 17"),
    ("orig_h, small", "cannot be read: look at character 7"),
    ("'abc", "has a text or quoted name that does not end"),
    ("coalesce(i,, 1)", "write it, or remove the comma at character 12"),
    ("coalesce(, i)", "write it, or remove the comma at character 10"),
    ("i in (1, 2, )", "lacks a value beside a comma: write it, or remove the comma"),
    ("small; drop table x", "has a `;`: write one expression at character 6"),
    ("small -- 1", "has a comment: put it beside the expression"),
    ("small /* x */ + 1", "has a comment"),
    ("-- all", "has nothing but a comment"),
    ("select 1", "is no expression: write one value"),
    ("(select 1)", "has a subquery: a box sees one record at a time"),
    ("small in (select 1)", "has IN without a list"),
    ("exists (select 1)", "has a subquery"),
    ("drop table x", "is no expression"),
    ("*", "has a `*`: name the columns"),
    ("small as x", "has an alias: the name is the key beside the expression"),
    ("?", "has a parameter: write the value itself at character 1"),
    ("orig_h = '\\d'", "has the escape \\d in a text: write r'…' for a text with backslashes"),
    ("'a' 'b'", "has two texts side by side"),
    ("1. + 2", "has the number 1.: write 10, 0.5, 1e3, 10L or 0.5D"),
    ("1e999", "has the number 1e999, too large for a double"),
    ("9223372036854775808L", "has the number 9223372036854775808L, which is no bigint"),
    ("small & 1 | 2", "mixes | and &: put parentheses around what belongs together"),
    ("orig_h || small + 1", "mixes || and +: put parentheses"),
    ("small = 1 = true", "mixes = and =: put parentheses"),
    ("rand() > 0.5", "uses rand, which is refused: it gives another value each time"),
    ("uuid()", "uses uuid, which is refused"),
    ("now()", "uses now, which is refused: it reads the clock: use event time"),
    ("current_timestamp", "uses current_timestamp, which reads the clock: use event time"),
    ("current_timestamp()", "uses current_timestamp, which"),
    ("input_file_name()", "refused: it depends on which file and task a record is in"),
    ("monotonically_increasing_id()", "refused: it depends on which file and task"),
    ("spark_partition_id()", "refused: it depends on which file and task"),
    ("session_window(at, '5m')", "uses session_window, which is refused: it makes a session"),
    ("window(at, '5m')", "it makes a window: write it as `size` and `advance`, or `every` and"),
    ("from_utc_timestamp(at, 'Europe/Berlin')", "refused: it reckons with a time zone, but times"),
    ("count_distinct(small)", "it is a function of DataFrames: write count(distinct x)"),
    ("any_value(small)", "uses any_value, which is refused: it may pick another row each time"),
    ("java_method('a', 'b')", "uses java_method, which is refused: it runs code"),
    ("reflect('a', 'b')", "uses reflect, which is refused"),
    ("sum(small) over ()", "uses a window function (OVER): put an aggregate box before this one"),
    ("sum(small)", "uses sum, which needs many rows: compute it in an aggregate before"),
    ("transform(split(orig_h, ','), x -> x)", "uses transform, not on the list of functions"),
    ("orig_h -> 'a'", "uses `->`: for a field of a JSON text use get_json_object"),
    ("at + interval 5 minutes", "has an interval"),
    ("uper(orig_h)", "uses uper, not on the list of functions; did you mean 'upper'?"),
    ("unix_timestamp(orig_h)", "use unix_seconds(cast(x as timestamp))"),
    ("upper(small)", "gives upper an int as argument 1, but it takes string"),
    ("upper()", "gives upper 0 arguments, but it takes 1"),
    ("substring(orig_h, 1, 2, 3)", "gives substring 4 arguments, but it takes 2 to 3"),
    ("if(small, 1, 2)", "gives IF an int, but it takes boolean"),
    ("small and true", "gives AND an int, but it takes boolean"),
    ("orig_h > 5", "compares a string with an int: cast one of them"),
    ("at > '2024-01-31'", "or write timestamp'2024-01-31 12:00:00'"),
    ("small = null", "compares with NULL by =, never true: write IS NULL"),
    ("orig_h + 1", "reckons with string + int: both sides must be numbers"),
    ("day + 1", "reckons with date + int"),
    ("null", "is NULL of no type: write cast(NULL AS bigint)"),
    ("split(orig_h, ',')", "is an array, which no column can be"),
    ("case when true then small else orig_h end", "has int and string in the branches of CASE"),
    ("small in (connections)", "has IN with something other than constants"),
    ("orig_h like small", "has LIKE with a pattern that is not written out"),
    ("orig_h like '50\\\\'", "has the pattern '50\\\\', which has \\ before"),
    ("orig_h rlike '['", "gives regexp_like '[', which is no regular expression"),
    ("orig_h rlike '{'", "has '{' without a count from 0 to 1000"),
    ("orig_h rlike 'a{,3}'", "has '{' without a count"),
    ("orig_h rlike 'a{3000}'", "has '{' without a count"),
    ("orig_h rlike '[[]'", "has '[' between [ and ]: write a backslash before it"),
    ("orig_h rlike '[a&&b]'", "has '&&' between [ and ]"),
    ("orig_h rlike '[a||b]'", "has '||' between [ and ]"),
    ("orig_h rlike '[]a]'", "has ']' at the beginning of a class"),
    ("orig_h rlike '(?P<n>a)'", "has '(?P': there are (…), (?:…), (?<name>…)"),
    ("orig_h rlike '(a)(?(1)b|c)'", "has '(?(': there are"),
    ("orig_h rlike '(?#a)b'", "has '(?#': there are"),
    ("orig_h rlike '(?<a_b>a)'", "has '(?<': there are"),
    ("orig_h rlike '(?x)a'", "has '(?x': there are"),
    ("orig_h rlike r'\\p{Foo}'", "a class of characters that is not known"),
    ("orig_h rlike r'\\\\p{L}'", "has '{' without a count"),
    ("orig_h rlike r'[\\b]'", "which Java does not read as Python does"),
    ("orig_h rlike r'a\\Z'", "which Java does not read as Python does"),
    ("orig_h rlike r'(a)(?<=\\1)b'", "has a lookbehind and a group named by its number"),
    ("regexp_extract(orig_h, 'a', 1)", "takes group 1 of a pattern that has 0: write 0 for all"),
    ("regexp_replace(orig_h, 'a', '$1')", "names group $1, but the pattern has 0"),
    (
        "regexp_extract(orig_h, orig_h, 0)",
        "gives regexp_extract an argument 2 that is not written out",
    ),
    ("date_format(at, 'YYYY')", "gives date_format 'YYYY', which has 'YYYY'"),
    ("to_date(orig_h, 'E')", "which has 'E', which can be written but not read"),
    ("date_trunc('houer', at)", "gives date_trunc 'houer', which is not one of"),
    ("round(price, -1)", "gives round -1, which is not a whole number from 0"),
    ("element_at(split(orig_h, ','), 0)", "which is not a whole number other than 0"),
    ("cast(small as float)", "casts to float, which is not one of boolean, int"),
    ("cast(day as int)", "casts a date to int: Spark cannot"),
    ("cast(small as array<int>)", "casts to array<int>, which is not one of"),
    ("date'2024-02-30'", "has '2024-02-30', which is not a valid date"),
    ("timestamp'2024-01-31 12:00:00+02:00'", "has a zone in"),
    ("struct(small)", "makes a value with fields, which no column can have"),
    ("explode(split(orig_h, ','))", "makes several rows of one: use a function box"),
    ("(" * 3000 + "small" + ")" * 3000, "is nested too deeply: split it over two boxes"),
    ("small" + " + small" * 1600, "characters, more than 10000: split it"),
    ("small" + " + small" * 400, "split it over two boxes"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD, ids=[text[:40] for text, _ in BAD])
def test_bad_expression_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(Refused) as refusal:
        compile_expression(text, COLUMNS, where=WHERE)
    output = str(refusal.value)
    assert output.startswith(WHERE)
    assert sentence in output
    assert "\n" not in output


def test_the_position_names_the_line_where_there_are_several() -> None:
    with pytest.raises(Refused, match="look at character 4 of line 2"):
        compile_expression("small +\n 1 +", COLUMNS, where=WHERE)


def test_a_condition_must_be_boolean() -> None:
    with pytest.raises(Refused, match="`small` is an int, not a condition"):
        compile_predicate("small", COLUMNS, where=WHERE)


def test_a_text_with_a_time_alone_never_takes_its_date_from_the_clock() -> None:
    compiled = compile_expression("cast(orig_h as timestamp)", COLUMNS, where=WHERE)
    assert "RLIKE '^[^0-9A-Za-z]*([Tt]|[0-9]{1,2}:)', NULL" in compiled.sql
    with pytest.raises(Refused, match="to_timestamp 1 argument, but it takes 2"):
        compile_expression("to_timestamp(orig_h)", COLUMNS, where=WHERE)
