"""Durations, times, names, catalog URLs, ports, folders and expressions that are refused."""

from __future__ import annotations

from tests.hostile.cases.shapes import ESCAPES, MARKUP, SHELL, SQL, TextCase


def cases(refused: str, **texts: str) -> tuple[TextCase, ...]:
    """Cases that are all refused in one sentence; what a case is called is its key."""
    return tuple(
        TextCase(name=name.replace("_", " "), text=text, refused=refused)
        for name, text in texts.items()
    )


DURATIONS = (
    *cases(
        "is not one",
        nothing="",
        blank=" ",
        no_unit="10",
        negative="-1s",
        fraction="1.5s",
        exponent="1e9s",
        Arabic_digits="٣s",
        fullwidth_digits="３s",
        many_digits="9" * 5_000 + "s",
        escapes=ESCAPES,
        SQL="10s; DROP TABLE x",
        two_units="1d1h",
        infinity="inf s",
        NUL="1\0s",
    ),
    *cases("out of range", zero="0s", beyond_a_year="367d", of_fifteen_digits="9" * 15 + "d"),
)

INSTANTS = cases(
    "is no time",
    nothing="",
    a_word="now",
    many_digits="9" * 5_000,
    a_huge_exponent="1e999999999",
    NaN="nan",
    infinity="-inf",
    no_such_day="2024-02-30",
    no_such_hour="2024-01-01T25:00",
    the_year_10000="10000-01-01",
    the_year_0="0000-01-01",
    a_leap_second="2024-01-01T00:00:60Z",
    a_far_zone="2024-01-01T00:00:00+99:00",
    escapes=ESCAPES,
    Arabic_digits="١٢",
    NUL_behind="2024-01-01T00:00:00\0",
    hexadecimal="0x10",
    SQL=SQL,
)

NAMES = cases(
    "is not a name",
    nothing="",
    capital="A",
    hyphen="a-b",
    dot="a.b",
    parent="..",
    path="/etc",
    climbing="../a",
    long="a" * 64,
    not_ASCII="ä",
    Cyrillic="а",
    line_end="a\n",
    NUL="a\0",
    blank="a b",
    quote='a"b',
    SQL=SQL,
    markup=MARKUP,
    shell=SHELL,
    escapes=ESCAPES,
    begins_low="_a",
    digit_first="1a",
    percent="a%2e",
    braces="{participant}",
    a_million_characters="a" * 1_000_000,
)

URLS = (
    *cases(
        "not a Postgres URL",
        mysql="mysql://a:secretword@b/c",
        http="http://x",
        scheme_alone="postgres://",
        file="file:///etc/passwd",
        sqlite="sqlite:///x",
        python="javascript:alert(1)",
        escapes=ESCAPES,
        another_driver="postgresql+asyncpg://u:secretword@h/d",
    ),
    *cases(
        "port that is not valid",
        a_word_as_port="postgresql://h:x/db",
        a_port_beyond="postgresql://h:65536/db",
        Arabic_port="postgresql://u:secretword@h:٣/db",
        long_port=f"postgresql://h:{'9' * 5_000}/db",
    ),
    *cases("participant", another_field="postgresql://u:{x.__class__}@h/d"),
)

PORTS = cases(
    "is not a port",
    negative="-1",
    beyond="65536",
    Arabic="٣",
    SQL="1; DROP",
    exponent="1e3",
    many_digits="9" * 5_000,
    escapes=ESCAPES,
)

FOLDERS = cases("a user that does not exist", home_of_nobody="~nobody_of_this_name/x")

EXPRESSIONS = (
    *cases(
        "expression",
        nothing="",
        of_200000_characters="'" + "x" * 200_000 + "'",
        deep_parentheses="(" * 5_000 + "1" + ")" * 5_000,
        long_sum="+".join(["a"] * 20_000),
    ),
    *cases(
        "too deeply",
        nested_CASE="CASE " * 1_900,
        nested_parentheses="(" * 4_000 + "a" + ")" * 4_000,
        many_NOT="NOT " * 2_000 + "true",
        many_minus="- " * 4_000 + "a",
    ),
    *cases(
        "refused|not on the list|which says who|reads the clock",
        java='java_method("java.lang.Runtime", "exit")',
        reflect='reflect("java.lang.System", "exit", 1)',
        files="input_file_name()",
        clock="current_timestamp()",
        chance="rand()",
        uuid="uuid()",
        rows="explode(array(a))",
        raise_error="raise_error(s)",
        version="version()",
        user="current_user()",
        session="session_user",
        read_files="read_files(s)",
        unknown="nosuch(a)",
        ai="ai_query(s)",
        number="monotonically_increasing_id()",
        sequence="sequence(1, 1000000000)",
        lambda_="transform(array(a), x -> rand())",
    ),
    *cases(
        "whole number from",
        a_long_repeat="repeat(s, 1000000000)",
        a_long_pad="lpad(s, 2000000000, 'x')",
    ),
    *cases(
        "comment", line_comment="a -- b", block_comment="a /* b */", SQL_end="a = 1 or 1 = 1; --"
    ),
    *cases("`;`", two_statements="1; DROP TABLE medusa.segment"),
    *cases(
        "subquery|IN without|is no expression",
        select="(SELECT 1)",
        in_select="a IN (SELECT a FROM t)",
        whole_select="SELECT * FROM t",
        drop="DROP TABLE t",
    ),
    *cases("parameter|PLACEHOLDER", dollar="${a}", braces="{{a}}", colon=":a"),
    *cases(
        "not there",
        a_column_of_nobody="b",
        quoted="`a``; DROP TABLE x`",
        escapes=f"`{ESCAPES}`",
        NUL="a\0",
        half_a_surrogate="\ud800",
        system="`_stime`",
    ),
    *cases(
        "many rows|OVER", sum="sum(a)", count="count(*)", window="row_number() over (order by a)"
    ),
    *cases("number", a_huge_number="9" * 100, a_huge_exponent="1e999999"),
    *cases(
        "does not end|cannot be read|casts to",
        open_text="'",
        bad_bytes="x'zz'",
        cast="cast(s as nosuch)",
        wide="cast(a as decimal(99, 1))",
        unclosed="(",
    ),
    *cases(
        "`\\*`|alias|interval|dot|->",
        star="*",
        alias="a as b",
        interval="interval 1 day",
        dotted="s.x",
        arrow="x -> x",
    ),
    *cases("numbers|text|string", mixed="a + s"),
)
