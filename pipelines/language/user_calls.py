"""Calls of aggregate functions of the user's own, each alone in its column.

Spark collects the values of the group that count, in no order, and calls one function with them
(`pipelines.spark.user_functions`). An expression over such a value would be evaluated with the
functions of Spark around it; it is written in a map behind the aggregate instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256

from sqlglot import exp

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.network import Aggregate, UserAggregate
from medusa_core.suggest import counted, nearest
from pipelines.language.aggregates import AggregateCall, CompiledAggregate, one_zero
from pipelines.language.calls import Scalars
from pipelines.language.compiled_terms import Compiled, Term, both, first_in_order
from pipelines.language.failure_causes import first_of, only_if
from pipelines.language.function_text import aggregate_source
from pipelines.language.functions import AGGREGATES, REFUSED, SCALARS, SPECIAL
from pipelines.language.parsing import parse
from pipelines.language.scope import Scope, article

_STORED = {"date": "unix_date({})", "timestamp": "unix_micros({})"}
_GIVEN = {"date": "date_from_unix_date({})", "timestamp": "timestamp_micros({})"}


_KNOWN = frozenset((*AGGREGATES, *SCALARS, *SPECIAL, *REFUSED))


def check_user_names(box: Aggregate, owner: str) -> None:
    """Refuse an aggregate function with the name of another function, or one that none can have."""
    for aggregate in box.aggregates:
        name = aggregate.name
        if name in _KNOWN:
            of = "of Spark" if name in REFUSED else "of the language"
            raise Refused(
                f"{owner} has an aggregate function named {name!r}, which is a function {of}: "
                f"rename it, to own_{name} for instance"
            )
        if not _is_name_of_call(name):
            raise Refused(
                f"{owner} has an aggregate function named {name!r}, which is a word of SQL: rename "
                f"it, to own_{name} for instance"
            )


def _is_name_of_call(name: str) -> bool:
    try:
        tree = parse(f"{name}(1)", name)
    except Refused:
        return False
    return isinstance(tree, exp.Anonymous) and tree.name == name


@cache
def sql_name(aggregate: UserAggregate) -> str:
    """The name under which Spark knows an aggregate function; another for other functions or types.

    Raises Refused if a function is no plain function of a file.
    """
    types = (aggregate.takes, aggregate.state, aggregate.gives)
    meaning = f"{types}\n{aggregate_source(aggregate, 'of a network')}"
    return f"medusa_{aggregate.name}_{sha256(meaning.encode()).hexdigest()[:16]}"


def compile_user_call(
    box: Aggregate,
    text: str,
    columns: Mapping[str, Column],
    *,
    where: str,
    tolerance_only: frozenset[str] = frozenset(),
) -> CompiledAggregate | None:
    """The call as Spark SQL over the rows of a group; None for another expression.

    Raises Refused, naming `where`, for a call that is a part of an expression.
    """
    found = _call_in(box, text, columns, where, tolerance_only)
    if found is None:
        return None
    scope, aggregate, node, condition_node = found
    rows = Scalars(scope)
    terms = _arguments(scope, rows, aggregate, node)
    condition = None if condition_node is None else rows.condition(condition_node, "FILTER")
    failure = first_in_order(replace(term, nullable=False) for term in terms)
    if condition is not None:
        failure = first_of(condition.failure, only_if(f"{condition.sql} IS TRUE", failure))
    if any(term.tolerance_only for term in (*terms, *([condition] if condition else []))):
        raise scope.refused(
            f"gives {aggregate.name} a value that is known only within a tolerance: round it "
            "before, as in round(x, 2)"
        )
    only = both(condition.sql if condition else None, *(term.is_there for term in terms))
    fields = (
        f"'a{at}', {_STORED.get(term.type, '{}').format(term.sql)}" for at, term in enumerate(terms)
    )
    values = f"named_struct({', '.join(fields)})"
    listed = f"collect_list({values})"
    listed = f"({listed} FILTER (WHERE {only}))" if only else listed
    collected = AggregateCall(
        sql=listed, function="collect_list", arguments=(values,), is_distinct=False,
        only=only or None,
    )  # fmt: skip
    return CompiledAggregate(
        sql=_value(aggregate, listed),
        type=aggregate.gives,
        record_failure=failure,
        calls=(collected,),
    )


def compile_empty_user_call(box: Aggregate, text: str, where: str) -> Compiled | None:
    """The value of a call over no record, as Spark SQL; None for another expression."""
    found = _call_in(box, text, {}, where, frozenset())
    if found is None:
        return None
    return Compiled(sql=_value(found[1], "array()"), type=found[1].gives)


def _call_in(
    box: Aggregate,
    text: str,
    columns: Mapping[str, Column],
    where: str,
    tolerance_only: frozenset[str],
) -> tuple[Scope, UserAggregate, exp.Anonymous, exp.Expr | None] | None:
    """The call that a text is, and the condition of its FILTER; None if it calls none."""
    own = {aggregate.name: aggregate for aggregate in box.aggregates}
    if not own:
        return None
    scope = Scope(where=where, text=text, columns=columns, tolerance_only=tolerance_only)
    tree = parse(text, where)
    node = tree.this if isinstance(tree, exp.Filter) else tree
    for call in tree.find_all(exp.Anonymous):
        if call is not node and call.name.lower() in own:
            raise scope.refused(
                f"has {call.name} inside an expression: make it a column of its own, and compute "
                "with it in a map behind"
            )
        near = None if call.name.lower() in _KNOWN else nearest(call.name.lower(), own)
        if near is not None and near != call.name.lower():
            raise scope.refused(
                f"uses {call.name}, not on the list of functions: did you mean {near!r}?"
            )
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in own:
        return None
    only = tree.expression.this if isinstance(tree, exp.Filter) else None
    return scope, own[node.name.lower()], node, only


def _arguments(
    scope: Scope, rows: Scalars, aggregate: UserAggregate, node: exp.Anonymous
) -> Sequence[Term]:
    """The arguments of a call; refuses others than the function takes."""
    given, takes = list(node.expressions), aggregate.takes
    if any(isinstance(one, exp.Distinct) for one in given):
        raise scope.refused(f"has DISTINCT in {aggregate.name}: count, sum, avg, min, max take it")
    if len(given) != len(takes):
        raise scope.refused(
            f"gives {aggregate.name} {counted(len(given), 'argument')}, but it takes {len(takes)}"
        )
    terms = [rows.term(one) for one in given]
    for number, (term, type_) in enumerate(zip(terms, takes, strict=True), start=1):
        if term.type != type_:
            raise scope.refused(
                f"gives {aggregate.name} {article(term.type)} as argument {number}, but it takes "
                f"{type_}: write cast(… as {type_})"
            )
    return terms


def _value(aggregate: UserAggregate, listed: str) -> str:
    called = f"{sql_name(aggregate)}({listed})"
    value = _GIVEN.get(aggregate.gives, "{}").format(called)
    return one_zero(value, aggregate.gives)
