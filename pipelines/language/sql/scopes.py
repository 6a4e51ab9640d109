"""Which column a name in an expression means: `total`, or `b.total` with the name of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from medusa_core.suggest import did_you_mean
from pipelines.language.sql.relations import Relation
from pipelines.language.sql.sql_text import SqlText, Token, Tokens, column_token, is_column_name
from pipelines.language.sql.statements import NamedTable, Resampled, Subquery, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTime:
    """The event time of the rows of one of several joined tables.

    `column` is its column of event time, if it is a source. `behind_us` is by how much the event
    time of a joined row is behind that of its row of this table: None, if that differs from row to
    row.
    """

    column: str | None
    behind_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What FROM gives: rows, and for each table the columns of them that are its own.

    `tables` maps the name of a table to its columns, and each to the column of the relation.
    `times` are those of joined tables by name; one table alone has the time of the relation.
    """

    relation: Relation
    tables: Mapping[str, Mapping[str, str]]
    times: Mapping[str, TableTime] = field(default_factory=dict)

    def time_of(self, table: str) -> TableTime:
        """The event time of a table of this FROM."""
        return self.times.get(table, TableTime(column=self.relation.time, behind_us=0))

    def of_table(self, text: SqlText, owner: Token) -> Mapping[str, str]:
        """The columns of a table; Refused for one that FROM does not have."""
        if owner.name not in self.tables:
            known = " or ".join(sorted(self.tables)) or "no name"
            raise text.refused(owner, f"{owner.text} is not in this FROM, which has {known}")
        return self.tables[owner.name]

    def resolved(self, text: SqlText, tokens: Tokens) -> Tokens:
        """An expression over the columns of the relation; Refused for tables that are not there."""
        found: list[Token] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if _has_owner(tokens, index):
                found.append(self._column(text, token, tokens[index + 2]))
                index += 3
                continue
            found.append(self._one(text, token) if is_column_name(tokens, index) else token)
            index += 1
        return found

    def _column(self, text: SqlText, owner: Token, column: Token) -> Token:
        columns = self.of_table(text, owner)
        if column.name not in columns:
            near = did_you_mean(column.name, columns, f"it has {', '.join(columns)}")
            raise text.refused(column, f"{owner.text} has no column {column.text}: {near}")
        return column_token(columns[column.name], owner.start, column.end)

    def _one(self, text: SqlText, name: Token) -> Token:
        """The column that a name without a table means; Refused if it is in two tables."""
        owners = [table for table, columns in self.tables.items() if name.name in columns]
        meant = {self.tables[table][name.name] for table in owners}
        if len(meant) > 1:
            raise text.refused(
                name, f"column {name.text} is in {' and '.join(owners)}: write "
                f"{owners[0]}.{name.text}"
            )  # fmt: skip
        if not owners and len(self.tables) > 1 and name.name in self.relation.columns:
            raise text.refused(name, f"no table of this FROM has a column {name.text}")
        return column_token(meant.pop(), name.start, name.end) if meant else name


def scope_of(table: NamedTable | Subquery | Window | Resampled, relation: Relation) -> Scope:
    """One table, by its name or names."""
    if isinstance(table, Resampled):
        names = {table.alias or table.table.alias}
    else:
        names = {table.alias, table.table.alias if isinstance(table, Window) else None}
    own = {name: name for name in relation.columns}
    return Scope(relation=relation, tables={name: own for name in names if name is not None})


def _has_owner(tokens: Tokens, index: int) -> bool:
    """Whether `a.b` begins here."""
    return (
        index + 2 < len(tokens)
        and tokens[index].kind in ("word", "quoted")
        and tokens[index + 1].text == "."
        and tokens[index + 2].kind in ("word", "quoted")
    )
