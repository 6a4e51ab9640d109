"""A SELECT without a window: rows are filtered and mapped one by one."""

from __future__ import annotations

from pipelines.language.sql.calls_in_select import aggregate_calls
from pipelines.language.sql.relations import (
    BoxList,
    Relation,
    filtered,
    is_identity,
    mapped,
    without_owner,
)
from pipelines.language.sql.sql_text import Token, Tokens
from pipelines.language.sql.statements import NamedTable, Select, Subquery, table_of


def plain_select(
    select: Select, table: NamedTable | Subquery, relation: Relation, made: BoxList
) -> Relation:
    """The rows that a SELECT gives; Refused with line and column."""
    text, example = made.text, f"TUMBLE(TABLE {table_of(table)}, INTERVAL '1' MINUTE)"
    for clause, tokens in (("GROUP BY", select.group_by), ("HAVING", select.having)):
        if tokens is not None:
            raise text.refused(
                select.at,
                f"{clause} needs a window, since a stream has no end: write FROM "
                f"{example} and GROUP BY window_start",
            )
    columns: dict[str, Tokens] = {}
    for item in select.items:
        tokens = without_owner(text, item.tokens, table)
        for call in aggregate_calls(tokens):
            raise text.refused(
                call[0],
                f"{call[0].text} is computed over a window, since a stream has no end: "
                f"write FROM {example} and GROUP BY window_start",
            )
        given = {item.name: tokens} if item.name else _all(relation, item.tokens[0])
        for name, expression in given.items():
            if name in columns:
                raise text.refused(
                    expression[0],
                    f"column {name} is selected twice: write AS and another name behind one",
                )
            columns[name] = expression
    if select.where is not None:
        condition = without_owner(text, select.where, table)
        relation = filtered(made, relation, condition, "where")
    if is_identity(columns, relation):
        return relation
    return mapped(made, relation, columns, select.at, "columns")


def _all(relation: Relation, at: Token) -> dict[str, Tokens]:
    """The columns that `*` stands for."""
    return {name: (Token("word", name, at.start, at.end),) for name in relation.columns}
