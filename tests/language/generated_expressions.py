"""Random expressions by type, for Hypothesis: what a user could write, failing often."""

from __future__ import annotations

import re

from hypothesis import strategies as st

_CHECKS = {
    "date": "x BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'",
    "timestamp": "x BETWEEN TIMESTAMP '0001-01-01 00:00:00' "
    "AND TIMESTAMP '9999-12-31 23:59:59.999999'",
    "string": "is_valid_utf8(x)",
}
_MARK = re.compile(r"«(\w+) ([^«»]*)»")


def compiled_text(marked: str) -> str:
    """An expression as a user writes it, without the marks."""
    return re.sub(r"«\w+ ", "", marked).replace("»", "")


def plain_text(marked: str) -> str:
    """The same for Spark, raising where it makes what no column holds."""
    while _MARK.search(marked):
        marked = _MARK.sub(_raising, marked)
    return marked


def _raising(mark: re.Match[str]) -> str:
    type_, sql = mark.groups()
    wrong = f"CAST(raise_error('no {type_}') AS {type_})"
    return f"get(transform(array({sql}), x -> IF(({_CHECKS[type_]}) IS FALSE, {wrong}, x)), 0)"


_CONSTANTS = {
    "int": ["0", "1", "-1", "7", "2147483647", "-2147483648"],
    "bigint": ["0L", "3L", "-1L", "4294967296", "9223372036854775807"],
    "double": ["0.0D", "1e3", "-2.5D", "1e18"],
    "string": [],
    "boolean": ["true", "false"],
    "date": ["date'2024-01-31'"],
    "timestamp": ["timestamp'2024-01-31 12:00:00'"],
    "money": ["0.5", "12.25", "0.00"],
}
_COLUMNS = {
    "int": ["small", "other"],
    "bigint": ["big", "large"],
    "double": ["real", "ratio"],
    "string": ["text", "word"],
    "boolean": ["flag"],
    "date": ["day"],
    "timestamp": ["time"],
    "money": ["money", "wide"],
}
# {int} and the like stand for an expression of the type. «date …» marks what may make a date that
# no column holds: the compiled form flags it, plain Spark goes on (see `plain_text`).
_FORMS = {
    "int": [
        "({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} % {int})", "(- {int})",
        "abs({int})", "cast({string} as int)", "cast({bigint} as int)", "cast({double} as int)",
        "pmod({int}, {int})", "length({string})", "year({timestamp})", "datediff({date}, {date})",
        "(case when {boolean} then {int} when {boolean} then {int} else {int} end)",
        "if({boolean}, {int}, {int})", "coalesce({int}, {int})", "nullif(small, other)",
        "instr({string}, {string})", "cast({boolean} as int)", "({int} & {int})",
        "greatest({int}, {int})", "try_add({int}, {int})", "cast({money} as int)",
        "cast({timestamp} as int)", "nvl2({int}, {int}, {int})", "size(split({string}, ','))",
    ],
    "bigint": [
        "({bigint} + {bigint})", "({bigint} - {int})", "({bigint} * {bigint})",
        "({bigint} div {bigint})", "({int} div {int})", "({bigint} % {bigint})", "abs({bigint})",
        "unix_seconds({timestamp})", "floor({double})", "ceil({double})", "floor({int})",
        "cast({string} as bigint)", "cast({double} as bigint)", "coalesce({int}, {bigint})",
        "(case {int} when {int} then {bigint} when {int} then {int} end)", "({bigint} | {int})",
        "shiftright({bigint}, {int})", "cast({money} as bigint)", "least({bigint}, {int})",
    ],
    "double": [
        "({double} + {double})", "({double} / {double})", "({int} / {int})", "({bigint} / {int})",
        "({double} * {int})", "({double} % {double})", "sqrt({double})", "ln({double})",
        "round({double}, 2)", "cast({string} as double)", "cast({bigint} as double)",
        "pow({double}, {double})", "nanvl({double}, {double})", "(- {double})", "abs({double})",
        "if({boolean}, {double}, {int})", "({double} / 60)", "({double} - {money})",
        "sign({int})", "cast({money} as double)", "cast({timestamp} as double)",
    ],
    "string": [
        "({string} || {string})", "upper({string})", "trim({string})", "concat({int}, {string})",
        "substring({string}, {int}, {int})", "split(text, ',')[other]",
        "element_at(split(word, ','), 2)", "regexp_extract({string}, r'(\\d+)', 1)",
        "cast({int} as string)", "cast({double} as string)", "cast({date} as string)",
        "substring_index({string}, '.', 3)", "replace({string}, {string}, {string})",
        "date_format({timestamp}, 'yyyy-MM-dd HH:mm')", "date_format({date}, 'yyyy-MM-dd')",
        "«string cast(bytes as string)»", "left({string}, {int})",
        "coalesce({string}, {string})", "concat_ws('-', {string}, {int})", "md5({string})",
        "split_part({string}, ',', 2)", "lpad({string}, 8, '0')", "cast({money} as string)",
        "if({boolean}, {string}, {string})", "get_json_object({string}, '$.a')",
    ],
    "boolean": [
        "({boolean} and {boolean})", "({boolean} or {boolean})", "(not {boolean})",
        "({int} > {int})", "({bigint} <= {int})", "({double} = {int})", "({string} < {string})",
        "({money} >= {int})", "({date} < {timestamp})", "({int} is null)", "({double} is not null)",
        "({int} in (1, 2, 3))", "(small between {int} and {int})", "({string} like 'a%')",
        "({string} rlike r'^\\d+$')", "({int} <=> {bigint})", "({boolean} is true)",
        "cast({string} as boolean)", "contains({string}, {string})", "({boolean} is not false)",
        "({string} is distinct from {string})", "isnan({double})", "cast({int} as boolean)",
    ],
    "date": [
        "«date cast({string} as date)»", "«date to_date({string})»",
        "«date to_date({string}, 'yyyy-MM-dd')»", "«date date_add({date}, {int})»",
        "«date date_sub(day, small)»", "«date date_from_unix_date({int})»",
        "trunc(«date date_add(day, small)», 'week')",
        "cast({timestamp} as date)", "last_day({date})", "trunc({date}, 'month')",
        "date_add({date}, 3)", "if({boolean}, {date}, {date})",
    ],
    "timestamp": [
        "«timestamp cast({string} as timestamp)»",
        "«timestamp to_timestamp({string}, 'yyyy-MM-dd HH:mm:ss')»", "cast({date} as timestamp)",
        "date_trunc('hour', {timestamp})", "date_trunc('week', {timestamp})",
        "timestamp_seconds({int})", "«timestamp timestamp_seconds({bigint})»",
        "«timestamp timestamp_millis({bigint})»", "«timestamp timestamp_micros({bigint})»",
        "coalesce({timestamp}, {date})", "cast({int} as timestamp)",
        "«timestamp cast({bigint} as timestamp)»", "«timestamp cast({double} as timestamp)»",
        "cast(money as timestamp)", "cast(«date date_add(day, small)» as timestamp)",
    ],
    "money": [
        "({money} + {money})", "({money} * {money})", "({money} / {money})", "({money} - {int})",
        "({money} % {money})", "(- money)", "round({money}, 1)", "cast({string} as decimal(10,2))",
        "cast({double} as decimal(12,3))", "cast({bigint} as decimal(10,2))", "floor({money})",
        "cast({money} as decimal(5,1))", "abs(money)", "({money} / 7)", "({int} * 0.1)",
    ],
}  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, type_: str | None = None, depth: int = 3) -> str:
    """The text of an expression of the type (`money`: some decimal), nested at most so deep."""
    chosen = type_ or draw(st.sampled_from(sorted(_FORMS)))
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from([*_COLUMNS[chosen] * 3, *_CONSTANTS[chosen]]))
    form = draw(st.sampled_from(_FORMS[chosen]))
    for inner in _FORMS:
        while f"{{{inner}}}" in form:
            form = form.replace(f"{{{inner}}}", draw(expressions(inner, depth - 1)), 1)
    return form
