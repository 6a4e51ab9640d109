"""Network files of a user: Python that is none, that fails, or that says what no network can."""

from __future__ import annotations

from tests.hostile.cases.shapes import ESCAPES, MARKUP, SHELL, SQL, TextCase

HEAD = "from medusa_core.network import *\n"


def python(name: str, text: str, refused: str) -> TextCase:
    """A file as it stands."""
    return TextCase(name=f"file: {name}", text=text, refused=refused)


def network(name: str, refused: str, /, **parts: str) -> TextCase:
    """A small network, with parts of it written otherwise."""
    output = {
        "name": "'mine'",
        "stream": "'ticks'",
        "columns": "{'ts_us': 'bigint', 'n': 'int'}",
        "time": "'ts_us'",
        "more": "",
        "input": "'ticks'",
        "cases": "{'yes': 'n > 1'}",
        "boxes": "",
        "output": "'result'",
        "read": "'big'",
        "bucket": "'10s'",
        **parts,
    }
    text = (
        "network = Network(name={name}, bucket={bucket}, sources=(Source(name={stream}, "
        "columns={columns}, time={time}{more}),), boxes=(Filter(name='big', input={input}, "
        "cases={cases}),{boxes}), outputs=(Output(name={output}, input={read}),))\n"
    ).format(**output)
    return TextCase(name=f"network: {name}", text=HEAD + text, refused=refused)


def column(name: str, expression: str, refused: str) -> TextCase:
    """A network whose filter has this case."""
    return network(name, refused, cases="{'yes': " + repr(expression) + "}")


PYTHON = (
    python("nothing", "", "no value named"),
    python("no Python", "network = (\n", "line 1"),
    python("NUL", "network = 1\0\n", "not Python|null|cannot be read|source code"),
    python("a wrong encoding", "# coding: nosuch\nnetwork = 1\n", "encoding|Python"),
    python(
        "ten thousand parentheses", "(" * 10_000 + ")" * 10_000, "parenthes|memory|Python|nested"
    ),
    python(
        "ten thousand minuses",
        "network = " + "-" * 10_000 + "1",
        "Python|recursion|Recursion|nested|int|Memory",
    ),
    python("a text as network", "network = 'netmon'", "is 'str'"),
    python("it leaves", "import sys; sys.exit(0)", "SystemExit"),
    python("it divides by zero", "1 / 0", "line 1.*ZeroDivisionError"),
    python("it recurses", "def f(): f()\nf()", "RecursionError"),
    python("it imports nobody", "import nobody_of_this_name", "no module named"),
    python("it imports its neighbour", "from . import x", "Import"),
    python("its error has escapes", f"raise ValueError({ESCAPES!r})", "ValueError"),
    python("its error is a megabyte", "raise ValueError('a' * 1_000_000)", "ValueError"),
    python(
        "its error cannot be said",
        "class E(Exception):\n  def __str__(self): return 1 / 0\nraise E",
        "E",
    ),
)

NETWORKS = (
    network("a name with SQL", "not a name", name=repr(SQL)),
    network("a name with markup", "not a name", name=repr(MARKUP)),
    network("a name that climbs", "not a name", name="'../x'"),
    network("a name that is a number", "not a name", name="12"),
    network("a stream with SQL", "not a name", stream=repr(SQL)),
    network("a stream that is a shell command", "not a name", stream=repr(SHELL)),
    network("a stream that climbs", "not a name", output="'../../etc/passwd'"),
    network("an output with escapes", "not a name", output=repr(ESCAPES)),
    network(
        "a column with a backquote",
        "name",
        columns="{'ts_us': 'bigint', 'a`; DROP TABLE x': 'int'}",
    ),
    network("a column of ours", "_stime|name", columns="{'ts_us': 'bigint', '_stime': 'int'}"),
    network(
        "a column twice but for capitals",
        "N|twice|name",
        columns="{'ts_us': 'bigint', 'n': 'int', 'N': 'int'}",
    ),
    network("a type of nobody", "type", columns="{'ts_us': 'bigint', 'n': 'money'}"),
    network(
        "a type with SQL", "type", columns="{'ts_us': 'bigint', 'n': 'int) ; DROP TABLE x --'}"
    ),
    network("a decimal beyond all", "decimal", columns="{'ts_us': 'bigint', 'n': 'decimal(99,1)'}"),
    network(
        "a decimal of 5,000 digits",
        "decimal|type",
        columns="{'ts_us': 'bigint', 'n': 'decimal(" + "9" * 5_000 + ",1)'}",
    ),
    network("no columns", "column", columns="{}"),
    network("columns as a list", "columns|mapping|column|dict|list|attribute", columns="['ts_us']"),
    network("a time of nobody", "no column of it", time="'when'"),
    network("a unit of nobody", "unit", more=", time_unit='fortnight'"),
    network("disorder below zero", "duration", more=", disorder='-1s'"),
    network("a bucket of Arabic digits", "is not one", bucket="'٣s'"),
    network("a box that reads nobody", "tickks", input="'tickks'"),
    network("a box that reads itself", "cycle|itself|big", input="'big'"),
    network("an output of nobody", "bigg", read="'bigg'"),
    network(
        "two boxes of one name",
        "big",
        boxes="Filter(name='big', input='ticks', cases={'no': 'n < 1'}),",
    ),
    network(
        "a window of nothing",
        "duration",
        boxes="Aggregate(name='w', input='ticks', size='0s', columns={'c': 'count(*)'}),",
    ),
    network(
        "a window that slides backwards",
        "duration",
        boxes="Aggregate(name='w', input='ticks', size='10s', advance='-1s', "
        "columns={'c': 'count(*)'}),",
    ),
    column("a filter that is a number", "n + 1", "not a condition"),
    column("a filter with a subquery", "n in (select 1)", "IN without|subquery"),
    column("a filter that runs Java", "java_method('a', 'b') = 'x'", "refused"),
    column("a filter with a second statement", "n > 1; DROP TABLE x", ";"),
    column("a filter that never ends", "'", "does not end"),
)
