"""The values of a group without records, and the declared keys of such groups.

Counts are 0, lists are empty, and every other aggregate is NULL; what is computed from them is
computed as ever, from the columns of the group too.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.network import Aggregate
from pipelines.language import coercion
from pipelines.language.aggregates import Aggregates
from pipelines.language.compiled_terms import Compiled, Term
from pipelines.language.parsing import parse
from pipelines.language.scope import Scope, article, finished

COUNTS = ("count", "count_if", "approx_count_distinct")
_KINDS: Mapping[str, type] = {"string": str, "int": int, "bigint": int, "boolean": bool}
_BITS = {"int": 31, "bigint": 63}


def compile_empty(
    text: str, columns: Mapping[str, Column], *, where: str, group_by: tuple[str, ...]
) -> Compiled:
    """An aggregate expression over no record, as Spark SQL over the columns of the group."""
    scope = Scope(where=where, text=text, columns=columns)
    return finished(scope, _EmptyGroup(scope, group_by).term(parse(text, where)))


class _EmptyGroup(Aggregates):
    """Compiles aggregate functions to what they give without a record."""

    def compiled(
        self,
        name: str,
        nodes: list[exp.Expr],
        only: exp.Expr | None,
        distinct: str,
        ignores_nulls: bool,
    ) -> Term:
        """The value of an aggregate function over nothing, in its type."""
        value = super().compiled(name, nodes, only, distinct, ignores_nulls)
        if name in COUNTS:
            return Term(sql="0L", type=value.type, nullable=False)
        if coercion.is_array(value.type):
            return Term(sql=f"CAST(array() AS {value.type})", type=value.type, nullable=False)
        return Term(sql=f"CAST(NULL AS {value.type})", type=value.type)


def check_keys_fit(box: Aggregate, owner: str, columns: Mapping[str, Column]) -> None:
    """Refuse declared keys that are no values of their columns."""
    for name, values in box.keys.items():
        type_ = columns[name].type
        if type_ not in _KINDS:
            raise Refused(
                f"{owner} has keys for {name!r}, {article(type_)}: keys can be declared for "
                f"{', '.join(_KINDS)}; cast it in a map before it"
            )
        for value in values:
            if value is not None and not _fits(value, type_):
                raise Refused(
                    f"{owner} has the key {value!r} for {name!r}, which is not a value of type "
                    f"{type_}: write one, or None for NULL"
                )


def _fits(value: str | int | bool, type_: str) -> bool:
    if type(value) is not _KINDS[type_]:
        return False
    if type_ not in _BITS:
        return True
    limit = 1 << _BITS[type_]
    return -limit <= int(value) < limit
