"""A SELECT over windows: an Aggregate, with what is computed before and behind it.

The expressions of a group that are no columns are columns of a Map before it. Each call of an
aggregate function is a column of the Aggregate, and what is computed from them is a Map behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.network import Aggregate
from medusa_core.suggest import did_you_mean
from pipelines.language.sql.calls_in_select import aggregate_calls, with_columns
from pipelines.language.sql.relations import (
    BoxList,
    Relation,
    filtered,
    is_identity,
    mapped,
)
from pipelines.language.sql.scopes import Scope
from pipelines.language.sql.sql_text import Token, Tokens, key_of, written
from pipelines.language.sql.statements import Select, Window

EVENT_TIME = "stime"
START, END = "window_start", "window_end"


def grouped_select(select: Select, window: Window, scope: Scope, made: BoxList) -> Relation:
    """The rows that a SELECT over windows gives; Refused with line and column."""
    select, relation = _resolved(select, scope, made), scope.relation
    _check_time(window, relation, made)
    if select.where is not None:
        relation = filtered(made, relation, select.where, "where")
    groups = _groups(select, made)
    relation = _with_groups(groups, select, relation, made)
    grouped = _Grouped(made, relation, tuple(groups), _size_us(window, made))
    for item in select.items:
        is_call = [token.kind for token in with_columns(item.tokens, written)] == ["column"]
        if item.name and is_call and item.name not in (*groups, START):
            grouped.names.setdefault(key_of(item.tokens), item.name)
    columns: dict[str, Tokens] = {}
    for item in select.items:
        if item.name is None:
            raise made.text.refused(
                item.tokens[0], "* does not say how columns are grouped: name them"
            )
        if item.name in columns:
            raise made.text.refused(
                item.tokens[0],
                f"column {item.name} is selected twice: write AS and another name behind one",
            )
        is_group = item.name in groups and key_of(groups[item.name]) == key_of(item.tokens)
        columns[item.name] = (
            (replace(item.tokens[0], kind="column", text=item.name),)
            if is_group
            else grouped.expression(item.tokens)
        )
    having = None
    if select.having is not None:
        aliases = {item.name: item.tokens for item in select.items if item.name}
        having = grouped.expression(_with_aliases(select.having, aliases, relation))
    result = grouped.aggregate(window, select.at)
    if having is not None:
        result = filtered(made, result, having, "having")
    if is_identity(columns, result):
        return result
    return mapped(made, result, columns, select.at, "columns")


@dataclass
class _Grouped:
    """Expressions over groups, and the aggregate calls that were found in them."""

    made: BoxList
    relation: Relation
    group_by: tuple[str, ...]
    size_us: int
    names: dict[str, str] = field(default_factory=dict)
    """Key of a call -> the column that it is selected as."""
    calls: dict[str, Tokens] = field(default_factory=dict)

    def expression(self, tokens: Tokens) -> Tokens:
        """An expression over the columns of the Aggregate."""
        rest = with_columns(tokens, self._column_of)
        found: list[Token] = []
        for token, behind in zip(rest, [*rest[1:], None], strict=True):
            is_name = token.kind in ("word", "quoted") and (behind is None or behind.text != "(")
            if is_name and token.name == END:
                end = f"timestamp_micros(unix_micros({START}) + {self.size_us}L)"
                found.append(replace(token, kind="word", text=end))
                continue
            is_grouped = token.name in (*self.group_by, START)
            if is_name and token.name in self.relation.columns and not is_grouped:
                raise self.made.text.refused(
                    token,
                    f"column {token.name} is neither grouped nor in an aggregate function: "
                    f"add it to GROUP BY, or write max({token.name})",
                )
            found.append(token)
        return found

    def aggregate(self, window: Window, at: Token) -> Relation:
        """The windows with all calls that were found, and a count if there are none."""
        if not self.calls:
            self.calls[self._free("rows")] = tuple(
                Token("word", part, at.start, at.start) for part in ("count", "(", "*", ")")
            )
        box = Aggregate(
            name=self.made.name_of("windows"),
            input=self.relation.port,
            size=window.size,
            advance=window.advance,
            group_by=self.group_by,
            columns={name: written(call) for name, call in self.calls.items()},
        )
        port = self.made.add(box, window.at, {n: call[0] for n, call in self.calls.items()})
        return Relation(port=port, columns=(START, *self.group_by, *self.calls))

    def _column_of(self, call: Tokens) -> str:
        key = key_of(call)
        if key not in self.names:
            self.names[key] = self._free(call[0].text.lower())
        self.calls.setdefault(self.names[key], call)
        return self.names[key]

    def _free(self, stem: str) -> str:
        """A column name that nothing has."""
        taken = {START, *self.group_by, *self.names.values(), *self.relation.columns}
        return next(n for n in (f"{stem}_{i}" for i in range(1, 10_000)) if n not in taken)


def _resolved(select: Select, scope: Scope, made: BoxList) -> Select:
    windowed = {table: {**own, START: START, END: END} for table, own in scope.tables.items()}
    scope = replace(scope, tables=windowed)

    def plain(tokens: Tokens) -> Tokens:
        return scope.resolved(made.text, tokens)

    return replace(
        select,
        items=tuple(replace(item, tokens=plain(item.tokens)) for item in select.items),
        where=None if select.where is None else plain(select.where),
        group_by=None if select.group_by is None else tuple(map(plain, select.group_by)),
        having=None if select.having is None else plain(select.having),
    )


def _check_time(window: Window, relation: Relation, made: BoxList) -> None:
    """Windows are those of event time, which DESCRIPTOR may name and not choose."""
    if window.time is None or window.time.name in (EVENT_TIME, relation.time):
        return
    right = f"DESCRIPTOR({relation.time})" if relation.time else "the window without DESCRIPTOR"
    raise made.text.refused(
        window.time,
        f"windows are those of event time, and {window.time.text} is not its column: write {right}",
    )


def _size_us(window: Window, made: BoxList) -> int:
    try:
        return parse_duration_us(window.size)
    except Refused as error:
        raise made.text.refused(window.at, str(error)) from None


def _groups(select: Select, made: BoxList) -> dict[str, Tokens]:
    """Column of a group -> its expression; `window_start` must be there and is not among them."""
    if select.group_by is None:
        raise made.text.refused(
            select.at,
            "the rows of a window are grouped: write GROUP BY window_start, "
            "and the columns of the group behind it",
        )
    selected = {item.name: item.tokens for item in select.items if item.name}
    found: dict[str, Tokens] = {}
    is_by_window = False
    for number, tokens in enumerate(select.group_by):
        if not tokens:
            raise made.text.refused(select.at, "a column of GROUP BY is empty: remove a comma")
        _check_group(tokens, made)
        is_name = len(tokens) == 1 and tokens[0].kind in ("word", "quoted")
        if is_name and tokens[0].name in (START, END):
            is_by_window = True
        elif is_name:
            name = tokens[0].name
            expression = selected.get(name, tokens)
            found[name] = tokens if aggregate_calls(expression) else expression
        else:
            same = [n for n, expression in selected.items() if key_of(expression) == key_of(tokens)]
            found[same[0] if same else f"group_{number + 1}"] = tokens
    if not is_by_window:
        raise made.text.refused(
            select.group_by[0][0],
            "windows are grouped by their start: write GROUP BY "
            "window_start, and the columns of the group behind it",
        )
    return found


def _check_group(tokens: Tokens, made: BoxList) -> None:
    """Refuse what SQL has for groups and a network has not."""
    first = tokens[0]
    if len(tokens) == 1 and (first.kind == "number" or first.upper == "ALL"):
        raise made.text.refused(first, "GROUP BY names its columns: write their names")
    if first.upper in ("ROLLUP", "CUBE", "GROUPING"):
        raise made.text.refused(
            first,
            f"{first.upper} makes groups of groups, which is not supported: write "
            "a stream for each, and UNION ALL",
        )
    for call in aggregate_calls(tokens):
        raise made.text.refused(
            call[0],
            f"{call[0].text} is computed over a group, so no group is made by it: group by columns",
        )


def _with_groups(
    groups: Mapping[str, Tokens], select: Select, relation: Relation, made: BoxList
) -> Relation:
    """The relation with a column for each expression of the group that is none."""
    computed = {
        name: tokens
        for name, tokens in groups.items()
        if not (len(tokens) == 1 and tokens[0].name == name)
    }
    for name, tokens in groups.items():
        if name not in computed and name not in relation.columns:
            known = f"there are {', '.join(relation.columns)}"
            near = did_you_mean(name, relation.columns, known)
            raise made.text.refused(tokens[0], f"{name} is not a column: {near}")
    if not computed:
        return relation
    kept = [name for name in relation.columns if name not in computed]
    columns: dict[str, Tokens] = {
        name: (Token("word", name, select.at.start, select.at.end),) for name in kept
    }
    return mapped(made, relation, columns | computed, select.at, "groups")


def _with_aliases(
    tokens: Tokens, aliases: Mapping[str, Tokens], relation: Relation
) -> Sequence[Token]:
    """HAVING with the selected columns that it names replaced by their expressions, in brackets."""
    found: list[Token] = []
    for token, behind in zip(tokens, [*tokens[1:], None], strict=True):
        is_name = token.kind in ("word", "quoted") and (behind is None or behind.text != "(")
        expression = aliases.get(token.name) if is_name else None
        is_column = token.name in relation.columns
        if expression is None or is_column or key_of(expression) == key_of((token,)):
            found.append(token)
            continue
        opening = Token("other", "(", token.start, expression[0].start)
        closing = Token("other", ")", expression[-1].end, token.end)
        found += [opening, *expression, closing]
    return found
