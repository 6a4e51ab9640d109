"""A SELECT over windows: an Aggregate, a Session or an Every, and what is before and behind it.

The expressions of a group that are no columns are columns of a Map before it. Each call of an
aggregate function is a column of that box, and what is computed from them is a Map behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

from medusa_core.empty_windows import EMIT, SKIP, Key
from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.network import Aggregate, Box, Every, Session
from medusa_core.suggest import did_you_mean
from pipelines.language.functions import AGGREGATES, REFUSED, SCALARS, SPECIAL
from pipelines.language.sql.calls_in_select import aggregate_calls, with_columns
from pipelines.language.sql.relations import (
    EVENT_TIME,
    BoxList,
    Relation,
    filtered,
    is_identity,
    mapped,
)
from pipelines.language.sql.scopes import Scope
from pipelines.language.sql.sql_text import (
    KEYWORDS,
    Token,
    Tokens,
    column_token,
    divided,
    end_of_brackets,
    is_column_name,
    key_of,
    written,
)
from pipelines.language.sql.statements import (
    END,
    START,
    EmptyWindows,
    Select,
    Subquery,
    Window,
    table_of,
)

FUNCTIONS = frozenset((*AGGREGATES, *SCALARS, *SPECIAL, *REFUSED, "cast", "try_cast"))
"""Every name that the language knows as that of a function."""


def grouped_select(select: Select, window: Window, scope: Scope, made: BoxList) -> Relation:
    """The rows that a SELECT over windows gives; Refused with line and column."""
    select, relation = _resolved(select, window, scope, made), scope.relation
    check_time(window.time, relation, made)
    if select.where is not None:
        _check_where(select, select.where, window, relation, made)
        relation = filtered(made, relation, select.where, "where")
    groups = _groups(select, window, relation, made)
    _check_no_earlier_window(select, window, scope.relation, made)
    if window.gap is not None or window.n is not None:
        _check_keys(window, groups, relation, made)
    relation = _with_groups(groups, select, relation, made)
    grouped = _Grouped(made, relation, select, groups, window, size_us_of(window, made))
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
        columns[item.name] = grouped.expression(item.tokens)
    having = None
    if select.having is not None:
        aliases = {item.name: item.tokens for item in select.items if item.name}
        having = grouped.expression(_with_aliases(select.having, aliases, scope.relation))
    result = grouped.aggregate(select.at)
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
    select: Select
    groups: Mapping[str, Tokens]
    window: Window
    size_us: int | None
    """None for calendar windows."""
    calls: dict[str, Tokens] = field(default_factory=dict)
    """Column of the Aggregate -> the call."""

    def expression(self, tokens: Tokens) -> Tokens:
        """An expression over the columns of the Aggregate."""
        rest = self._with_groups(with_columns(tokens, self._column_of))
        found: list[Token] = []
        for index, token in enumerate(rest):
            if not is_column_name(rest, index):
                found.append(token)
            elif token.name in self.window.own_columns and self.window.n is not None:
                raise self.made.text.refused(
                    token, f"{token.name} is for GROUP BY alone: a group of EVERY has no number"
                )
            elif token.name == END and END in self.window.own_columns and self.window.gap is None:
                if self.size_us is None:
                    raise self.made.text.refused(
                        token,
                        "the end of a calendar window is not a column: it is the window_start of "
                        "the next one",
                    )
                found.append(window_end(token, self.size_us))
            elif token.name in self.relation.columns and token.name not in (
                *self.groups, *self.window.own_columns,
            ):  # fmt: skip
                raise self._not_grouped(token, rest[:index])
            else:
                found.append(token)
        return found

    def _with_groups(self, tokens: Tokens) -> Tokens:
        """With the column of a group in the place of its expression: as a whole, or as a call."""
        found: list[Token] = []
        index = 0
        while index < len(tokens):
            end, name = self._group_at(tokens, index)
            if name is None:
                found.append(tokens[index])
            else:
                at = column_token(name, tokens[index].start, tokens[end - 1].end)
                found.append(replace(at, kind="column"))
            index = end
        return found

    def _group_at(self, tokens: Tokens, index: int) -> tuple[int, str | None]:
        """The computed group that begins at a token and the index behind it; None if none does."""
        for name, expression in self.groups.items():
            end = index + len(expression)
            if len(expression) == 1 and expression[0].name == name:
                continue
            if key_of(tokens[index:end]) != key_of(expression):
                continue
            is_call = expression[0].kind == "word" and (
                len(expression) > 1 and end_of_brackets(expression, 1) == len(expression) - 1
            )
            is_whole = (index, end) == (0, len(tokens)) or (
                index > 0 and end < len(tokens)
                and (tokens[index - 1].text, tokens[end].text) == ("(", ")")
            )  # fmt: skip
            if is_call or is_whole:
                return end, name
        return index + 1, None

    def _not_grouped(self, token: Token, before: Tokens) -> Refused:
        """The error for a column that is neither grouped nor in an aggregate function."""
        called = _called(before)
        if called is not None and called.name in REFUSED:
            return self.made.text.refused(
                called, f"{called.text} is refused: it {REFUSED[called.name]}"
            )
        if called is not None and called.name not in FUNCTIONS:
            return self.made.text.refused(
                called,
                f"{called.text} is not on the list of functions: a function of your own is called "
                "by a network file of Python",
            )
        hint = f"add it to GROUP BY, or write max({token.name})"
        for item in self.select.items:
            if item.name == token.name and aggregate_calls(item.tokens):
                hint = f"write {written(item.tokens)}"
        for name, expression in self.groups.items():
            if len(expression) > 1 and any(part.name == token.name for part in expression):
                hint = f"give `{written(expression)}` a name in SELECT, and write {name}"
        return self.made.text.refused(
            token,
            f"column {token.name} is neither grouped nor in an aggregate function: {hint}",
        )

    def aggregate(self, at: Token) -> Relation:
        """The windows with all calls that were found, and a count if there are none."""
        if not self.calls:
            self.calls[self._free("rows")] = tuple(
                Token("word", part, at.start, at.start) for part in ("count", "(", "*", ")")
            )
        window = self.window
        values = {name: written(call) for name, call in self.calls.items()}
        box: Box
        if window.gap is not None:
            box = Session(
                name=self.made.name_of("sessions"), input=self.relation.port, gap=window.gap,
                length_max=window.size, by=tuple(self.groups), columns=values,
            )  # fmt: skip
        elif window.n is not None:
            box = Every(
                name=self.made.name_of("groups"), input=self.relation.port, n=window.n,
                within=window.size, by=tuple(self.groups), columns=values,
            )  # fmt: skip
        else:
            empty = self.select.empty
            box = Aggregate(
                name=self.made.name_of("windows"),
                input=self.relation.port,
                size=window.size if window.zone is None else None,
                advance=window.advance,
                every=None if window.zone is None else window.size,
                zone=window.zone,
                group_by=tuple(self.groups),
                columns=values,
                empty=SKIP if empty is None else EMIT,
                keys={} if empty is None else self._keys_of(empty),
            )
        port = self.made.add(box, window.at, {n: call[0] for n, call in self.calls.items()})
        if window.gap is not None:
            return Relation(port=port, columns=(START, END, *self.groups, *self.calls))
        if window.n is not None:
            return Relation(port=port, columns=(*self.groups, *self.calls))
        columns = (START, *self.groups, *self.calls)
        own = None if window.zone is not None else (window.advance or window.size, window.size)
        return Relation(port=port, columns=columns, window=own)

    def _keys_of(self, empty: EmptyWindows) -> dict[str, tuple[Key, ...]]:
        """The values of each column of the group that EMIT EMPTY declares."""
        text, found = self.made.text, {}
        for column, values in empty.keys:
            if column.name in found:
                raise text.refused(column, f"{column.text} is in EMIT EMPTY twice: remove it")
            if column.name not in self.groups:
                groups = ", ".join(self.groups)
                advice = f"name columns of {groups}" if groups else "remove it"
                raise text.refused(
                    column,
                    f"{column.text} is in EMIT EMPTY and is not a column of GROUP BY: {advice}",
                )
            found[column.name] = values
        for name in self.groups:
            if name not in found:
                raise text.refused(
                    empty.at, f"which rows a window without records has follows from the values of "
                    f"{name}: write EMIT EMPTY FOR {name} IN ('…', '…')"
                )  # fmt: skip
        return found

    def _column_of(self, call: Tokens) -> str:
        """The column of a call: what it is selected as, or a name that nothing has."""
        for name, known in self.calls.items():
            if key_of(known) == key_of(call):
                return column_token(name, 0, 0).text
        names = [i.name for i in self.select.items if key_of(i.tokens) == key_of(call) and i.name]
        taken = (*self.groups, *self.window.own_columns[:1], *self.calls)
        free = [name for name in names if name not in taken]
        name = free[0] if free else self._free(call[0].text.lower())
        self.calls[name] = call
        return column_token(name, 0, 0).text

    def _free(self, stem: str) -> str:
        """A column name that nothing has, and that no expression of the SELECT names."""
        taken = {START, *self.groups, *self.calls, *self.relation.columns, *_words(self.select)}
        return _numbered(stem, taken)


def _called(before: Tokens) -> Token | None:
    """The name of the call in which the token behind these is; None if it is in none."""
    depth = 0
    for index in range(len(before) - 1, 0, -1):
        depth += (before[index].text == ")") - (before[index].text == "(")
        if depth < 0:
            name = before[index - 1]
            return name if name.kind == "word" and name.upper not in KEYWORDS else None
    return None


def window_end(at: Token, size_us: int) -> Token:
    """The end of a window, in the place of its name."""
    end = f"timestamp_micros(unix_micros({START}) + {size_us}L)"
    return replace(at, kind="column", text=end)


def _numbered(stem: str, taken: Set[str]) -> str:
    """The stem with the first number behind it that nothing has."""
    return next(name for number in count(1) if (name := f"{stem}_{number}") not in taken)


def _words(select: Select) -> set[str]:
    """Every name that the SELECT uses, and those that it gives."""
    parts = [*(item.tokens for item in select.items), select.having or (), select.where or ()]
    names = {item.name for item in select.items if item.name}
    return names | {token.name for part in parts for token in part}


def _check_where(
    select: Select, where: Tokens, window: Window, relation: Relation, made: BoxList
) -> None:
    """Refuse a condition that a Filter before the windows would take in another sense.

    In SQL, windows are those of the whole table, and WHERE chooses among their rows. Sessions of
    fewer rows are other ones, unless the condition has all rows of a key or none.
    """
    keys = {key.name for key in window.keys}
    for call in aggregate_calls(where):
        raise made.text.refused(
            call[0], f"{call[0].text} is computed over a group: write the condition in HAVING"
        )
    over_groups = {item.name for item in select.items if aggregate_calls(item.tokens)}
    for index, token in enumerate(where):
        if not is_column_name(where, index):
            continue
        of_group = (*window.own_columns, *over_groups)
        if token.name in of_group and token.name not in relation.columns:
            raise made.text.refused(
                token, f"{token.name} is not known before rows are grouped: write the condition in "
                "HAVING"
            )  # fmt: skip
        if window.n is not None and token.name in relation.columns and token.name not in keys:
            raise made.text.refused(
                token, "WHERE chooses among rows of groups, which are those of all rows of the "
                "table: write the condition in EVERY(TABLE (SELECT … WHERE …) …) for groups of the "
                "rows with a condition, or FILTER (WHERE …) behind an aggregate function"
            )  # fmt: skip
        if window.gap is not None and token.name in relation.columns and token.name not in keys:
            table = table_of(window.table)
            query = "(SELECT …)" if isinstance(window.table, Subquery) else (
                f"(SELECT * FROM {table} WHERE …)"
            )  # fmt: skip
            raise made.text.refused(
                token, f"WHERE chooses among rows of sessions, which are those of all rows of the "
                f"table: write TABLE {query} in SESSION for sessions of the rows with a condition, "
                "or FILTER (WHERE …) behind an aggregate function"
            )  # fmt: skip


def _check_no_earlier_window(
    select: Select, window: Window, relation: Relation, made: BoxList
) -> None:
    """Refuse window_start and window_end of the rows that are read, where the new ones are meant
    elsewhere in the same SELECT."""
    parts = [*([select.where] if select.where is not None else [])]
    parts += [call for item in select.items for call in aggregate_calls(item.tokens)]
    parts += aggregate_calls(select.having or ())
    for token in (token for part in parts for token in part):
        if token.name in window.own_columns and token.name in relation.columns:
            raise made.text.refused(
                token,
                f"{token.name} is a column of the table and of its windows: give the first another "
                "name in a view",
            )


def _resolved(select: Select, window: Window, scope: Scope, made: BoxList) -> Select:
    also = {name: name for name in window.own_columns}
    windowed = {table: {**own, **also} for table, own in scope.tables.items()}
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


def check_time(
    time: Token | None, relation: Relation, made: BoxList, what: str = "windows are those of"
) -> None:
    """Windows are those of event time, which DESCRIPTOR may name and not choose."""
    if time is None or time.name in (EVENT_TIME, relation.time):
        return
    function = "the window" if what.startswith("windows") else "RESAMPLE"
    right = f"DESCRIPTOR({relation.time})" if relation.time else f"{function} without DESCRIPTOR"
    raise made.text.refused(
        time, f"{what} event time, and {time.text} is not its column: write {right}"
    )


def size_us_of(window: Window, made: BoxList) -> int | None:
    """The length of a window, None for a calendar window; Refused with the place of the window."""
    if window.zone is not None:
        return None
    try:
        return parse_duration_us(window.size)
    except Refused as error:
        raise made.text.refused(window.at, str(error)) from None


def _groups(select: Select, window: Window, relation: Relation, made: BoxList) -> dict[str, Tokens]:
    """Column of a group -> its expression; `window_start` must be there and is not among them.

    In EVERY that is `group_number`.

    A name is a column of the table if it has one, else what SELECT gives that name to. An
    expression gets a name that the table does not have, so that its columns stay what they are.
    """
    first = window.own_columns[0]
    if select.group_by is None:
        raise made.text.refused(
            select.at,
            f"the rows of {'a window' if window.n is None else 'EVERY'} are grouped: write GROUP "
            f"BY {first}, and the columns of the group behind it",
        )
    selected = {item.name: item.tokens for item in select.items if item.name}
    found: dict[str, Tokens] = {}
    is_by_window = False
    for tokens in select.group_by:
        if not tokens:
            raise made.text.refused(select.at, "a column of GROUP BY is empty: remove a comma")
        tokens = _by_position(tokens, select, made)
        _check_group(tokens, made)
        is_name = len(tokens) == 1 and tokens[0].kind in ("word", "quoted")
        if is_name and tokens[0].name in window.own_columns:
            is_by_window = True
            continue
        expression = tokens
        if is_name and tokens[0].name not in relation.columns:
            expression = selected.get(tokens[0].name, tokens)
            _check_group(expression, made)
        if len(expression) == 1 and expression[0].kind in ("word", "quoted"):
            found[expression[0].name] = expression
            continue
        names = [n for n, given in selected.items() if key_of(given) == key_of(expression)]
        taken = {*window.own_columns, *relation.columns, *found}
        free = [name for name in names if name not in taken]
        name = free[0] if free else _numbered("group", taken | _words(select))
        found[name] = expression
    if not is_by_window:
        raise made.text.refused(
            select.group_by[0][0],
            f"{'windows are grouped by their start' if window.n is None else 'rows are grouped'}: "
            f"write GROUP BY {first}, and the columns of the group behind it",
        )
    return found


def _check_keys(
    window: Window, groups: Mapping[str, Tokens], relation: Relation, made: BoxList
) -> None:
    """The columns of PARTITION BY are those of GROUP BY: a session or group is one of these."""
    function = "SESSION" if window.n is None else "EVERY"
    what = "sessions" if window.n is None else "groups"
    names = [key.name for key in window.keys]
    for tokens in groups.values():
        if len(tokens) > 1:
            raise made.text.refused(
                tokens[0],
                f"{what} are those of columns: give an expression a name in a view, and write the "
                "name in PARTITION BY and in GROUP BY",
            )
    for key in window.keys:
        if key.name not in relation.columns:
            known = f"there are {', '.join(relation.columns)}"
            near = did_you_mean(key.name, relation.columns, known)
            raise made.text.refused(key, f"{key.name} is not a column: {near}")
        if key.name not in groups:
            raise made.text.refused(
                key,
                f"{key.name} is in PARTITION BY and not in GROUP BY: write GROUP BY "
                f"{', '.join((*window.own_columns, *names))}",
            )
    for name, tokens in groups.items():
        if name not in names:
            raise made.text.refused(
                tokens[0],
                f"{name} is in GROUP BY and not in PARTITION BY: write {function}(TABLE … "
                f"PARTITION BY {', '.join((*names, name))}, …), or max({name}) in SELECT",
            )


def _by_position(tokens: Tokens, select: Select, made: BoxList) -> Tokens:
    """The column of SELECT that a number of GROUP BY stands for; other tokens as they are."""
    first = tokens[0]
    if len(tokens) > 1 or first.kind != "number":
        return tokens
    position = int(first.text) if first.text.isdecimal() and len(first.text) < 10 else 0
    if not 0 < position <= len(select.items):
        raise made.text.refused(
            first, f"SELECT has no column of number {first.text}: write the name of a column"
        )  # fmt: skip
    return select.items[position - 1].tokens


def _check_group(tokens: Tokens, made: BoxList) -> None:
    """Refuse what SQL has for groups and a network has not."""
    first = tokens[0]
    if len(tokens) == 1 and first.upper == "ALL":
        raise made.text.refused(first, "GROUP BY names its columns: write their names")
    if first.text == "(" and len(divided(tokens[1:-1])) > 1:
        raise made.text.refused(first, "columns of GROUP BY are in no brackets: remove them")
    for before, token in pairwise(tokens):
        if (before.upper, token.upper) in (("WITH", "ROLLUP"), ("WITH", "CUBE")):
            _check_group((token,), made)
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
            if name == "window_time":
                near = "the event time of a row follows from its window; remove it"
            raise made.text.refused(tokens[0], f"{name} is not a column: {near}")
    if not computed:
        return relation
    columns: dict[str, Tokens] = {
        name: (column_token(name, select.at.start, select.at.end),) for name in relation.columns
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
