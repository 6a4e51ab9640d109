"""The public entry point: a Spark SQL expression as text in, a checked and compiled one out.

`functions.py` lists what an expression may use; `parsing.py` parses it; `sql_operators.py` and
`calls.py` compile operators and functions, `aggregates.py` those over many rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.language.calls import Scalars
from pipelines.language.compiled_terms import Compiled
from pipelines.language.inexact_values import ESTIMATE_ADVICE, estimates
from pipelines.language.parsing import parse, quoted
from pipelines.language.scope import Scope, article, finished

__all__ = ["Compiled", "compile_expression", "compile_predicate"]


def compile_expression(
    text: str,
    columns: Mapping[str, Column],
    *,
    where: str,
    tolerance_only: frozenset[str] = frozenset(),
) -> Compiled:
    """Check an expression over `columns` and compile it; raises Refused, naming `where`."""
    scope = Scope(where=where, text=text, columns=columns, tolerance_only=tolerance_only)
    tree = parse(text, where)
    try:
        return finished(scope, Scalars(scope).term(tree))
    except RecursionError:
        raise scope.refused("is nested too deeply: split it over two boxes") from None


def compile_predicate(
    text: str,
    columns: Mapping[str, Column],
    *,
    where: str,
    tolerance_only: frozenset[str] = frozenset(),
) -> Compiled:
    """Compile a condition; raises Refused if it is not boolean or not exact."""
    compiled = compile_expression(text, columns, where=where, tolerance_only=tolerance_only)
    if compiled.type != "boolean":
        raise Refused(
            f"{where}: {quoted(text)} is {article(compiled.type)}, not a condition: compare it "
            "with something"
        )
    if compiled.tolerance_only:
        read = {node.name.lower() for node in parse(text, where).find_all(exp.Column)}
        if estimates(columns.values(), read & tolerance_only):
            raise Refused(
                f"{where}: {quoted(text)} decides by an estimate, which may differ from run to "
                f"run: {ESTIMATE_ADVICE}"
            )
        raise Refused(
            f"{where}: {quoted(text)} decides by a value whose last digits may differ from run to "
            "run: round it first, as in round(x, 2)"
        )
    return compiled
