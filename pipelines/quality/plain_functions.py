"""Aggregate functions of users in certificates: plain Python over the records that DuckDB has read.

The records of a group are divided into two parts, and the states of both are merged, so that all
four functions take part. Neither Spark nor the forms in which it collects values do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
from duckdb.func import SPECIAL
from sqlglot import exp

from medusa_core.errors import Refused
from medusa_core.network import Aggregate, Box, UserAggregate
from medusa_core.user_aggregates import from_stored_records, to_stored, value_in_parts
from pipelines.language.parsing import parse
from pipelines.quality.spark_types import DOUBLE, SparkType, type_named
from pipelines.quality.transpile_aggregates import AggregateTranspiler
from pipelines.quality.transpiled import Transpiled, any_of, duckdb_type, provided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.quality.spark_expressions import SparkExpressions

_STORED = {"date": "int", "timestamp": "bigint"}


@dataclass(frozen=True, slots=True)
class UserCall:
    """A call of an aggregate function over the records for which `only` is true."""

    aggregate: UserAggregate
    arguments: tuple[exp.Expr, ...]
    only: exp.Expr | None


def user_call(box: Box, text: str) -> UserCall | None:
    """The call that a column of a box is; None if it calls none of the box's own functions."""
    if not isinstance(box, Aggregate) or not box.aggregates:
        return None
    node = parse(text, "expression")
    only = None
    if isinstance(node, exp.Filter):
        node, only = node.this, node.expression.this
    own = {aggregate.name: aggregate for aggregate in box.aggregates}
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in own:
        return None
    return UserCall(own[node.name.lower()], tuple(node.expressions), only)


def declare_functions(connection: duckdb.DuckDBPyConnection, box: Aggregate) -> None:
    """Make the aggregate functions of a box known to DuckDB, and those of no other box."""
    for aggregate in box.aggregates:
        name = _name(aggregate)
        known = "SELECT 1 FROM duckdb_functions() WHERE function_name = ?"
        if connection.execute(known, [name]).fetchone():
            connection.remove_function(name)
        fields = {f"a{at}": _type(type_) for at, type_ in enumerate(aggregate.takes)}
        connection.create_function(
            name,
            _of_structs(aggregate),
            [duckdb.list_type(duckdb.struct_type(fields))],
            _type(aggregate.gives),
            null_handling=SPECIAL,
        )


def over_records(call: UserCall, transpiler: AggregateTranspiler) -> Transpiled:
    """The value over the records of a group, in DuckDB; adds what its records fail on."""
    parts = [transpiler.records.transpile(argument) for argument in call.arguments]
    only = None if call.only is None else transpiler.records.transpile(call.only)
    fails = any_of(*(part.fails for part in parts))
    if only is not None:
        fails = any_of(only.fails, provided(f"({only.sql}) IS TRUE", fails))
    if fails is not None:
        transpiler.record_fails.append(fails)
    conditions = [f"({part.sql}) IS NOT NULL" for part in parts]
    conditions += [] if only is None else [f"({only.sql})"]
    fields = ", ".join(f"a{at} := {part.sql}" for at, part in enumerate(parts))
    listed = f"list(struct_pack({fields})) FILTER (WHERE {' AND '.join(conditions)})"
    return _value(call, listed)


def over_nothing(call: UserCall) -> Transpiled:
    """The value of a group without records, in DuckDB."""
    return _value(call, "NULL")


def spark_text(
    call: UserCall | None,
    tree: exp.Expr,
    expressions: SparkExpressions,
    *,
    of_nothing: bool = False,
) -> str:
    """A column as text for Spark, which calls the function by the name of `declare_in_spark`."""
    if call is None:
        return expressions.text(tree)
    if of_nothing:
        listed = "array()"
    else:
        values = [expressions.text(argument) for argument in call.arguments]
        conditions = [f"({value}) IS NOT NULL" for value in values]
        conditions += [] if call.only is None else [f"({expressions.text(call.only)})"]
        stored = {"date": "unix_date({})", "timestamp": "unix_micros({})"}
        pairs = zip(call.aggregate.takes, values, strict=True)
        fields = ", ".join(
            f"'a{at}', {stored.get(type_, '{}').format(value)}"
            for at, (type_, value) in enumerate(pairs)
        )
        only = " AND ".join(conditions)
        listed = f"collect_list(named_struct({fields})) FILTER (WHERE {only})"
    given = {
        "date": "date_from_unix_date({})",
        "timestamp": "timestamp_micros({})",
        "double": "({} + 0.0D)",
    }
    return given.get(call.aggregate.gives, "{}").format(f"{_name(call.aggregate)}({listed})")


def evaluated_by(call: UserCall | None, tree: exp.Expr, expressions: SparkExpressions) -> list[str]:
    """What a column evaluates for each record, as text for Spark."""
    if call is None:
        return expressions.arguments(tree)
    listed = [expressions.text(argument) for argument in call.arguments]
    if call.only is None:
        return listed
    only = expressions.text(call.only)
    return [only, f"IF({only}, xxhash64({', '.join(listed)}), NULL)"]


def declare_in_spark(session: SparkSession, box: Box) -> None:
    """Make the aggregate functions of a box known to a session."""
    from pyspark.sql.functions import udf

    for aggregate in box.aggregates if isinstance(box, Aggregate) else ():
        type_ = _STORED.get(aggregate.gives, aggregate.gives)
        session.udf.register(_name(aggregate), udf(_of_structs(aggregate), type_, useArrow=False))


@contextmanager
def refusals(box: Box) -> Iterator[None]:
    """Raise Refused for one that a function of the box raised in DuckDB, which makes it a text."""
    try:
        yield
    except duckdb.InvalidInputException as error:
        _, is_of_function, sentence = str(error).partition(f"{Refused.__name__}: ")
        if not is_of_function:
            raise
        raise Refused(f"box {box.name} of a certificate: {sentence}") from error


def _name(aggregate: UserAggregate) -> str:
    """A name that a session has for no other functions: two of one name differ in their types."""
    types = "_".join((*aggregate.takes, "to", aggregate.gives))
    return f"own_{aggregate.name}_{re.sub('[^0-9a-z]', '_', types)}"


def _type(type_: str) -> Any:
    return duckdb.sqltype(duckdb_type(type_named(type_)))


def _value(call: UserCall, listed: str) -> Transpiled:
    type_: SparkType = type_named(call.aggregate.gives)
    zero = " + 0.0::DOUBLE" if type_ == DOUBLE else ""
    return Transpiled(sql=f"({_name(call.aggregate)}({listed}){zero})", type=type_)


def _of_structs(aggregate: UserAggregate) -> Callable[[Any], Any]:
    """The value of a list of structs, which is None for no record."""

    def of_group(rows: Any) -> Any:
        values = (row.values() if isinstance(row, Mapping) else row for row in rows or ())
        records = from_stored_records(aggregate, [tuple(each) for each in values])
        return to_stored(aggregate.gives, value_in_parts(aggregate, records))

    return of_group
