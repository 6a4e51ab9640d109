"""Expressions in two dialects: the text that a user of Medusa writes, and its meaning in DuckDB.

Each pair is written by hand. `fails` is a DuckDB condition that is true for the records (of an
aggregate: for the groups) on which the expression has no value and Medusa quarantines; it is never
NULL. `why` is a text of DuckDB that says why, where it is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from medusa_core.network import UserAggregate

Columns = Sequence[tuple[str, str]]
"""Names and Spark SQL types, in declared order."""

DECIMAL = "decimal(12,2)"
DUCK_TYPES = {
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMP",
    "date": "DATE",
    "binary": "BLOB",
}
"""Every decimal type has the same name in both."""

LEAST = {"int": -(2**31), "bigint": -(2**63)}

EVENT_TIME = "_stime"

BY_ZERO = "'division by zero'"
OVERFLOW = "'overflow'"
NO_NUMBER = "'text that cannot be cast'"


@dataclass(frozen=True)
class Expression:
    """An expression over one record."""

    spark: str
    duck: str
    type: str
    fails: str | None = None
    why: str = "''"


@dataclass(frozen=True)
class Aggregation:
    """An expression over the records of a group.

    `record_fails` is a condition over a record, `group_fails` one over a group. `own` is the
    aggregate function of the user's own that it calls.
    """

    spark: str
    duck: str
    type: str
    record_fails: str | None = None
    group_fails: str | None = None
    why: str = "''"
    own: UserAggregate | None = None


def duck_type(type_: str) -> str:
    """The DuckDB type of a column."""
    return DUCK_TYPES.get(type_, type_)


def names_of(columns: Columns, *types: str) -> list[str]:
    """The columns of these types; decimals of any shape count as `decimal`."""
    return [n for n, t in columns if t in types or ("decimal" in types and t.startswith("decimal"))]


def a_predicate(
    random: Random, columns: Columns, *, may_fail: bool, folds: bool = False
) -> Expression:
    """A condition over a record; most cannot fail.

    An aggregate over only the records that fulfil it can be folded if `folds`: a text that is cast,
    as in the literal of a timestamp, counts as what may fail.
    """
    forms: list[Expression] = []

    def form(
        spark: str, duck: str | None = None, fails: str | None = None, why: str = "''"
    ) -> None:
        forms.append(Expression(spark, duck or spark, "boolean", fails, why))

    for name in names_of(columns, "int", "bigint"):
        bound = random.randint(-3, 6)
        form(f"{name} > {bound}")
        form(f"{name} <= {bound} or {name} is null")
        form(f"{name} in (1, 2, {bound})")
        form(f"not ({name} between -1 and {bound})")
        if may_fail:
            # Near the type's least number the subtraction fails as well.
            lost = f"({name} = 2 OR {name} < {LEAST[dict(columns)[name]] + 2})"
            safe = f"CASE WHEN {lost} THEN NULL ELSE trunc(12.0 / ({name} - 2)) > 1 END"
            why = f"CASE WHEN {name} = 2 THEN {BY_ZERO} ELSE {OVERFLOW} END"
            form(f"12 div ({name} - 2) > 1", safe, f"coalesce({lost}, FALSE)", why)
    for name in names_of(columns, "string"):
        form(f"{name} = 'a'")
        form(f"{name} in ('a', 'é', '7')")
        form(f"{name} like '%a%'")
        form(f"{name} is not null and {name} <> ''")
        if may_fail:
            duck = f"TRY_CAST({name} AS INTEGER) > 3"
            form(f"cast({name} as int) > 3", duck, _no_number(name), NO_NUMBER)
    for name in names_of(columns, "double"):
        form(f"{name} > 0.5D", f"{name} > 0.5::DOUBLE")
        form(f"{name} = 0.0D", f"{name} = 0.0::DOUBLE")
    for name in names_of(columns, "decimal"):
        form(f"{name} >= 1.5")
    for name in names_of(columns, "boolean"):
        form(name)
        form(f"{name} is not true")
    for name in names_of(columns, "timestamp") if not folds else ():
        form(f"{name} >= timestamp'1970-01-01 00:00:30'")
    for name, _ in columns:
        form(f"{name} is null")
    return random.choice(forms)


def a_scalar(random: Random, columns: Columns, *, may_fail: bool) -> Expression:
    """A value of one record."""
    forms: list[Expression] = []

    def form(
        type_: str, spark: str, duck: str | None = None, fails: str | None = None,
        why: str = "''",
    ) -> None:  # fmt: skip
        forms.append(Expression(spark, duck or spark, type_, fails, why))

    for name, type_ in columns:
        form(type_, name)
    for name in names_of(columns, "int"):
        form("int", f"{name} % 3")
        form("int", f"coalesce({name}, -1)")
        form("int", f"if({name} > 2, {name}, null)", f"CASE WHEN {name} > 2 THEN {name} END")
        form("string", f"concat('n', {name})", f"'n' || CAST({name} AS VARCHAR)")
        form("bigint", f"cast({name} as bigint)", f"CAST({name} AS BIGINT)")
        if may_fail:
            duck = f"CASE WHEN {name} = 3 THEN NULL ELSE trunc(100.0 / ({name} - 3)) END"
            form("bigint", f"100 div ({name} - 3)", duck, f"coalesce({name} = 3, FALSE)", BY_ZERO)
            duck = f"CAST({name} AS BIGINT) * 1000000000"
            duck = f"CASE WHEN abs({name}) > 2 THEN NULL ELSE {duck} END"
            lost = f"coalesce(abs({name}) > 2, FALSE)"
            form("int", f"{name} * 1000000000", duck, lost, OVERFLOW)
            # Both operands fail on 3: the left one is evaluated first.
            either = f"({name} = 3 OR abs({name}) > 2)"
            total = f"trunc(100.0 / ({name} - 3)) + CAST({name} AS BIGINT) * 1000000000"
            form("bigint", f"100 div ({name} - 3) + {name} * 1000000000",
                 f"CASE WHEN {either} THEN NULL ELSE {total} END", f"coalesce({either}, FALSE)",
                 f"CASE WHEN {name} = 3 THEN {BY_ZERO} ELSE {OVERFLOW} END")  # fmt: skip
    for name in names_of(columns, "string"):
        form("string", f"upper({name})")
        form("string", f"concat({name}, '!')", f"{name} || '!'")
        form("int", f"length({name})")
        form("boolean", f"{name} = 'a'")
        if may_fail:
            form("int", f"cast({name} as int)", f"TRY_CAST({name} AS INTEGER)", _no_number(name),
                 NO_NUMBER)  # fmt: skip
    for name in names_of(columns, "double"):
        form("double", f"- {name}")
        form("boolean", f"{name} > 1", f"{name} > 1::DOUBLE")
    for name in names_of(columns, "decimal"):
        form("int", f"cast({name} > 1 as int)", f"CAST({name} > 1 AS INTEGER)")
    for name in names_of(columns, "timestamp"):
        form("bigint", f"unix_micros({name})", f"epoch_us({name})")
    for name in names_of(columns, "boolean"):
        form("boolean", f"not {name}")
    return random.choice(forms)


def an_aggregation(
    random: Random, columns: Columns, group_by: Sequence[str], *, kind: str, may_fail: bool
) -> Aggregation:
    """A value of a group. `kind` is distinct, foldable or any."""
    forms: list[Aggregation] = []
    only, only_duck = "", ""
    if random.random() < 0.35:
        predicate = a_predicate(random, columns, may_fail=False, folds=kind == "foldable")
        only, only_duck = f" filter (where {predicate.spark})", f"({predicate.duck})"
    keys = [EVENT_TIME, *(one_zero(n, t) for n, t in columns)]
    order = ", ".join(f"{key} NULLS FIRST" for key in keys)
    backwards = ", ".join(f"{key} DESC NULLS LAST" for key in keys)

    def where(*conditions: str) -> str:
        given = " AND ".join(c for c in (only_duck, *conditions) if c)
        return f" FILTER (WHERE {given})" if given else ""

    def form(type_: str, spark: str, duck: str, *, why: str = "''", **fails: str | None) -> None:
        forms.append(Aggregation(spark, duck, type_, **fails, why=why))

    any_column, any_type = random.choice(list(columns))
    other, other_type = random.choice(list(columns))
    there = f"{any_column} IS NOT NULL"
    plain, other_plain = one_zero(any_column, any_type), one_zero(other, other_type)
    if kind == "distinct":
        form("bigint", f"count(distinct {any_column}){only}",
             f"count(DISTINCT {plain}){where()}")  # fmt: skip
        form("bigint", f"count(distinct {any_column})", f"count(DISTINCT {plain})")
        form("bigint", f"count(distinct {any_column}, {other})",
             f"count(DISTINCT ROW({plain}, {other_plain})) "
             f"FILTER (WHERE {there} AND {other} IS NOT NULL)")  # fmt: skip
        form("bigint", f"count(distinct {any_column}) + count(distinct {other})",
             f"count(DISTINCT {plain}) + count(DISTINCT {other_plain})")  # fmt: skip
        form("bigint", f"count(distinct coalesce({any_column}, {any_column})) + count(*)",
             f"count(DISTINCT {plain}) + count(*)")  # fmt: skip
        for name in names_of(columns, "int"):
            form("bigint", f"count(distinct {name} % 2)", f"count(DISTINCT {name} % 2)")
            form("bigint", f"sum(distinct {name})", f"sum(DISTINCT {name})")
        return random.choice(forms)
    form("bigint", f"count(*){only}", f"count(*){where()}")
    form("bigint", f"count({any_column}){only}", f"count({any_column}){where()}")
    form(any_type, f"min({any_column}){only}", f"min({plain}){where()}")
    form(any_type, f"max({any_column}){only}", f"max({plain}){where()}")
    for name in names_of(columns, "int"):
        form("bigint", f"sum({name}){only}", f"sum({name}){where()}")
        total, number = f"sum({name}){where()}", f"count({name}){where()}"
        form("double", f"avg({name}){only}", f"CAST({total} AS DOUBLE) / nullif({number}, 0)")
        form("int", f"max({name}) - min({name})", f"max({name}) - min({name})")
        bits = random.choice(("and", "or", "xor"))
        form("int", f"bit_{bits}({name}){only}", f"bit_{bits}({name}){where()}")
        form("bigint", f"count_if({name} > 1)", f"count(*) FILTER (WHERE {name} > 1)")
        form("boolean", f"max({name}) > 3", f"max({name}) > 3")
    for name in names_of(columns, "boolean"):
        word = random.choice((("every", "bool_and"), ("some", "bool_or"), ("bool_or", "bool_or")))
        form("boolean", f"{word[0]}({name}){only}", f"{word[1]}({name}){where()}")
    for name in group_by:
        type_ = dict(columns)[name]
        if type_ == "string":
            form("string", f"coalesce({name}, 'nobody')", f"coalesce({name}, 'nobody')")
    if kind == "foldable":
        return random.choice(forms)
    for name in names_of(columns, "bigint"):
        total = f"sum(CAST({name} AS HUGEINT)){where()}"
        lost = f"coalesce({total} NOT BETWEEN -9223372036854775808 AND 9223372036854775807, FALSE)"
        form("bigint", f"sum({name}){only}", f"CASE WHEN NOT {lost} THEN {total} END",
             group_fails=lost, why=OVERFLOW)  # fmt: skip
    for name in names_of(columns, DECIMAL):
        form("decimal(22,2)", f"sum({name}){only}", f"sum({name}){where()}")
    for name in names_of(columns, "int"):
        form("double", f"round(sum({name} * 0.5D){only}, 2)",
             f"round(sum({name} * 0.5::DOUBLE){where()}, 2)")  # fmt: skip
        if may_fail:
            lost = f"{name} = 3" + (f" AND coalesce({only_duck}, FALSE)" if only else "")
            form("bigint", f"sum(cast(100 div ({name} - 3) as int)){only}",
                 f"sum(trunc(100.0 / ({name} - 3))){where(f'{name} <> 3')}",
                 record_fails=f"coalesce({lost}, FALSE)", why=BY_ZERO)  # fmt: skip
            form("double", f"count(*) / count(distinct {name})",
                 f"count(*)::DOUBLE / nullif(count(DISTINCT {name}), 0)",
                 group_fails=f"count(DISTINCT {name}) = 0", why=BY_ZERO)  # fmt: skip
    form(any_type, f"first({any_column}){only}",
         f"(list({any_column} ORDER BY {order}){where()})[1]")  # fmt: skip
    form(any_type, f"last({any_column}){only}",
         f"(list({any_column} ORDER BY {backwards}){where()})[1]")  # fmt: skip
    form(any_type, f"first({any_column}, true){only}",
         f"(list({any_column} ORDER BY {order}){where(there)})[1]")  # fmt: skip
    is_there = f"{other} IS NOT NULL"
    by, by_backwards = f"{other_plain}, {order}", f"{other_plain} DESC, {backwards}"
    form(any_type, f"min_by({any_column}, {other}){only}",
         f"(list({any_column} ORDER BY {by}){where(is_there)})[1]")  # fmt: skip
    form(any_type, f"max_by({any_column}, {other}){only}",
         f"(list({any_column} ORDER BY {by_backwards}){where(is_there)})[1]")  # fmt: skip
    form("int", f"size(collect_list({any_column}){only})", f"count({any_column}){where()}")
    form("int", f"size(collect_set({any_column}){only})", f"count(DISTINCT {plain}){where()}")
    for name in names_of(columns, "string"):
        listed = f"list({name} ORDER BY {order}){where(f'{name} IS NOT NULL')}"
        form("string", f"array_join(collect_list({name}){only}, '|')",
             f"coalesce(array_to_string({listed}, '|'), '')")  # fmt: skip
    return random.choice(forms)


def two_of(*values: int | None) -> tuple[int | None, ...]:
    largest = sorted((value for value in values if value is not None), reverse=True)
    return (*largest, None, None)[:2]


own_two = UserAggregate(
    name="own_two",
    takes=("int",),
    state=("int", "int"),
    gives="bigint",
    init=lambda: (None, None),
    add=lambda state, value: two_of(*state, value),
    merge=lambda one, other: two_of(*one, *other),
    result=lambda state: sum(v for v in state if v is not None) if state != (None, None) else None,
)
"""The sum of the two largest values."""
own_longest = UserAggregate(
    name="own_longest",
    takes=("string",),
    state=("string",),
    gives="string",
    init=lambda: (None,),
    add=lambda state, text: (max((t for t in (*state, text) if t is not None),
                                 key=lambda t: (len(t), t)),),
    merge=lambda one, other: (max((t for t in (*one, *other) if t is not None),
                                  key=lambda t: (len(t), t), default=None),),
    result=lambda state: state[0],
)  # fmt: skip
"""The longest text; of several the last one of the alphabet."""
own_signed = UserAggregate(
    name="own_signed",
    takes=("int", "boolean"),
    state=("bigint",),
    gives="bigint",
    init=lambda: (0,),
    add=lambda state, value, is_plus: (state[0] + (value if is_plus else -value),),
    merge=lambda one, other: (one[0] + other[0],),
    result=lambda state: state[0],
)
"""A sum of values with a sign."""


def a_user_aggregation(random: Random, columns: Columns) -> Aggregation | None:
    """A value of a group by a function of the user's own; None if no column fits one."""
    forms = [
        Aggregation(
            f"own_two({name})",
            f"CAST(list_sum(list_reverse_sort(list({name}) FILTER (WHERE {name} IS NOT NULL))"
            "[1:2]) AS BIGINT)",
            "bigint", own=own_two,
        )
        for name in names_of(columns, "int")
    ]  # fmt: skip
    forms += [
        Aggregation(
            f"own_longest({name})",
            f"(list({name} ORDER BY length({name}) DESC, {name} DESC) "
            f"FILTER (WHERE {name} IS NOT NULL))[1]",
            "string", own=own_longest,
        )
        for name in names_of(columns, "string")
    ]  # fmt: skip
    forms += [
        Aggregation(
            f"own_signed({name}, {sign})",
            f"coalesce(sum(CASE WHEN {sign} THEN 1 ELSE -1 END * CAST({name} AS BIGINT)) "
            f"FILTER (WHERE {name} IS NOT NULL AND {sign} IS NOT NULL), 0)",
            "bigint", own=own_signed,
        )
        for name in names_of(columns, "int")
        for sign in names_of(columns, "boolean")
    ]  # fmt: skip
    return random.choice(forms) if forms else None


def _no_number(name: str) -> str:
    return f"coalesce(NOT regexp_full_match({name}, '[0-9]+'), FALSE)"


def one_zero(name: str, type_: str) -> str:
    """A double with 0.0 for -0.0 and one NaN: DuckDB tells the two NaN of a sign apart."""
    if type_ != "double":
        return name
    return f"CASE WHEN isnan({name}) THEN 'nan'::DOUBLE ELSE {name} + 0.0::DOUBLE END"
