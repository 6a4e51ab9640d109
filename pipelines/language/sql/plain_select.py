"""A SELECT without a window: rows are filtered and mapped one by one."""

from __future__ import annotations

from pipelines.language.sql.calls_in_select import aggregate_calls
from pipelines.language.sql.relations import (
    BoxList,
    Relation,
    filtered,
    is_identity,
    mapped,
)
from pipelines.language.sql.scopes import Scope
from pipelines.language.sql.sql_text import SqlText, Tokens, column_token
from pipelines.language.sql.statements import Select, table_of


def plain_select(select: Select, scope: Scope, made: BoxList) -> Relation:
    """The rows that a SELECT gives; Refused with line and column."""
    relation, text = scope.relation, made.text
    example = f"TUMBLE(TABLE {table_of(select.table)}, INTERVAL '1' MINUTE)"
    for clause, tokens in (("GROUP BY", select.group_by), ("HAVING", select.having)):
        if tokens is not None:
            raise text.refused(
                select.at,
                f"{clause} needs a window, since a stream has no end: write FROM "
                f"{example} and GROUP BY window_start",
            )
    columns: dict[str, Tokens] = {}
    for item in select.items:
        tokens = item.tokens if item.name is None else scope.resolved(text, item.tokens)
        for call in aggregate_calls(tokens):
            raise text.refused(
                call[0],
                f"{call[0].text} is computed over a window, since a stream has no end: "
                f"write FROM {example} and GROUP BY window_start",
            )
        given = {item.name: tokens} if item.name else _all(text, scope, item.tokens)
        for name, expression in given.items():
            if name in columns:
                raise text.refused(
                    expression[0],
                    f"column {name} is selected twice: write AS and another name behind one",
                )
            columns[name] = expression
    if select.where is not None:
        condition = scope.resolved(text, select.where)
        relation = filtered(made, relation, condition, "where")
    if is_identity(columns, relation):
        return relation
    return mapped(made, relation, columns, select.at, "columns")


def _all(text: SqlText, scope: Scope, star: Tokens) -> dict[str, Tokens]:
    """The columns that `*` stands for, or `a.*`."""
    at = star[0]
    if len(star) == 3:
        columns = scope.of_table(text, at)
    else:
        columns = {name: name for name in scope.relation.columns}
    return {name: (column_token(own, at.start, at.end),) for name, own in columns.items()}
