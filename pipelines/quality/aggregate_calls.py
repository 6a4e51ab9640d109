"""Calls of aggregate functions, as both engines of the oracle read them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from pipelines.quality.expression_types import constant_of

_NAMES = """
    count count_if sum avg mean min max bool_and every bool_or some any bit_and bit_or bit_xor
    collect_set first first_value last last_value min_by max_by collect_list array_agg stddev std
    stddev_samp stddev_pop variance var_samp var_pop skewness kurtosis corr covar_pop covar_samp
    median percentile percentile_approx approx_percentile approx_count_distinct
"""
AGGREGATES = frozenset(_NAMES.split())
_SAME = {
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "first_value": "first",
    "last_value": "last",
    "mean": "avg",
    "array_agg": "collect_list",
}


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function over the records for which `only` is true.

    `skips_nulls` says whether first and last pass over NULL. `arguments` are none for count(*).
    """

    name: str
    arguments: tuple[exp.Expr, ...]
    is_distinct: bool = False
    only: exp.Expr | None = None
    skips_nulls: bool = False


def aggregate_call(node: exp.Expr) -> AggregateCall | None:
    """The call that a node is, with its DISTINCT, NULLS and FILTER; None if it is another node."""
    only = None
    if isinstance(node, exp.Filter):
        node, only = node.this, node.expression.this
    skips_nulls = isinstance(node, exp.IgnoreNulls)
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        node = node.this
    if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in AGGREGATES:
        return None
    name = str(node.this).lower()
    name = _SAME.get(name, name)
    arguments = list(node.expressions)
    if len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls):
        skips_nulls, arguments = True, [arguments[0].this]
    is_distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if is_distinct:
        arguments = list(arguments[0].expressions)
    if name in ("first", "last") and len(arguments) == 2:
        skips_nulls |= constant_of(arguments.pop()) is True
    if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        arguments = []
    return AggregateCall(name, tuple(arguments), is_distinct, only, skips_nulls)
