"""Aggregate functions OVER the rows up to each one: a Running.

    SELECT symbol, price, SUM(size) OVER (
        PARTITION BY window_start, symbol ORDER BY stime ROWS UNBOUNDED PRECEDING) AS so_far
    FROM TUMBLE(TABLE ticks, INTERVAL '1' DAY)

The windows of TUMBLE are the spans, at whose start the values begin again. ORDER BY has the event
time alone, since the other columns decide ties, and the frame is written out: without one, that of
SQL ends with the last row of equal time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from medusa_core.network import Running
from medusa_core.suggest import did_you_mean
from pipelines.language.sql.calls_in_select import aggregate_calls
from pipelines.language.sql.grouped_select import check_time, size_us_of
from pipelines.language.sql.ranked_select import FRAME
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
    Token,
    Tokens,
    column_token,
    divided,
    end_of_brackets,
    is_column_name,
    key_of,
    written,
)
from pipelines.language.sql.statements import END, START, Select, Window

_FRAMES = (
    ("ROWS", "UNBOUNDED", "PRECEDING"),
    ("ROWS", "BETWEEN", "UNBOUNDED", "PRECEDING", "AND", "CURRENT", "ROW"),
)


_AROUND = "to choose among these values, write SELECT * FROM (SELECT …) WHERE … around this SELECT"


def has_running(select: Select) -> bool:
    """Whether a SELECT has an aggregate function OVER something."""
    return any(_over_at(item.tokens, 0) is not None for item in select.items)


def running_select(select: Select, window: Window, scope: Scope, made: BoxList) -> Relation:
    """The rows of the table with values up to each; Refused with line and column."""
    text, relation = made.text, scope.relation
    check_time(window.time, relation, made)
    is_tumbling = window.gap is None and window.n is None and window.advance is None
    if not is_tumbling or size_us_of(window, made) is None:
        raise text.refused(
            window.at, "values up to each row begin again at the start of each span: write TUMBLE "
            "with a size such as INTERVAL '1' DAY, without a time zone"
        )  # fmt: skip
    if select.having is not None:
        raise text.refused(
            select.having[0], f"HAVING chooses among groups: {_AROUND}"
        )  # fmt: skip
    if select.group_by is not None:
        raise text.refused(
            select.at, "a value up to each row is computed of rows that are not grouped: write "
            "FROM (SELECT … GROUP BY window_start), or leave GROUP BY out"
        )  # fmt: skip
    if START in relation.columns:
        raise text.refused(
            window.at, f"{START} is a column of the table and of its windows: give the first "
            "another name in a view"
        )  # fmt: skip
    if select.where is not None:
        where = scope.resolved(text, select.where)
        _check_where(select, where, relation, made)
        relation = filtered(made, relation, where, "where")
    running = _Running(made, select, scope, relation, [item.name for item in select.items])
    columns: dict[str, Tokens] = {}
    for item in select.items:
        given = running.all(item.tokens) if item.name is None else {
            item.name: running.expression(item.tokens)
        }  # fmt: skip
        for name, tokens in given.items():
            if name in columns:
                raise text.refused(
                    item.tokens[0],
                    f"column {name} is selected twice: write AS and another name behind one",
                )
            columns[name] = tokens
    box = Running(
        name=made.name_of("running"), input=relation.port, by=running.keys or (),
        within=window.size, columns={name: written(call) for name, call in running.calls.items()},
    )  # fmt: skip
    port = made.add(box, window.at, {name: call[0] for name, call in running.calls.items()})
    result = Relation(port=port, columns=(*relation.columns, *running.calls))
    if is_identity(columns, result):
        return result
    return mapped(made, result, columns, select.at, "columns")


def _check_where(select: Select, where: Tokens, relation: Relation, made: BoxList) -> None:
    """Refuse values up to each row in WHERE, which chooses the rows that are added up."""
    names = {item.name for item in select.items} - {*relation.columns}
    over = _over_at(where, 0)
    aliases = (t for at, t in enumerate(where) if is_column_name(where, at) and t.name in names)
    found = where[over[0]] if over is not None else next(aliases, None)
    if found is not None:
        raise made.text.refused(
            found, f"WHERE chooses the rows of which values are computed: {_AROUND}"
        )


@dataclass
class _Running:
    """The expressions of a SELECT, and the calls that were found in them, by column."""

    made: BoxList
    select: Select
    scope: Scope
    relation: Relation
    names: list[str | None]
    keys: tuple[str, ...] | None = None
    calls: dict[str, Tokens] = field(default_factory=dict)

    def all(self, star: Tokens) -> Mapping[str, Tokens]:
        """The columns that `*` stands for."""
        if len(star) == 3:
            self.scope.of_table(self.made.text, star[0])
        at = star[0]
        return {n: (column_token(n, at.start, at.end),) for n in self.relation.columns}

    def expression(self, tokens: Tokens) -> Tokens:
        """An expression over the columns of the Running."""
        text, found, index = self.made.text, list[Token](), 0
        while index < len(tokens):
            over = _over_at(tokens, index)
            if over is None:
                found.append(tokens[index])
                index += 1
                continue
            begin, bracket = over
            end = end_of_brackets(tokens, bracket)
            assert end is not None, "brackets are closed where a part of a query ends"
            if tokens[end + 1 : end + 2] and tokens[end + 1].upper == "FILTER":
                raise text.refused(
                    tokens[end + 1], "FILTER (WHERE …) is a part of the call: write it before OVER"
                )
            found += tokens[index:begin]
            call = self.scope.resolved(text, tokens[begin : bracket - 1])
            self._read_over(tokens[begin], tokens[bracket + 1 : end])
            name = self._column_of(call, tokens)
            found.append(Token("column", name, tokens[begin].start, tokens[end].end))
            index = end + 1
        for call in aggregate_calls(found):
            raise text.refused(
                call[0], f"{call[0].text} is computed over the rows up to each one or over a group:"
                f" write {FRAME} behind it, or GROUP BY in a query of its own"
            )  # fmt: skip
        for index, token in enumerate(found[1:], start=1):
            if token.upper == "OVER" and found[index - 1].text == ")":
                raise text.refused(
                    token, "only aggregate functions have values up to each row: write ROW_NUMBER "
                    "in a query of its own"
                )  # fmt: skip
        resolved = self.scope.resolved(text, found)
        for index, token in enumerate(resolved):
            if token.name in (START, END) and is_column_name(resolved, index):
                raise text.refused(
                    token, f"a row keeps its own event time, so it has no {token.name}: select "
                    "columns of the table"
                )  # fmt: skip
        return resolved

    def _read_over(self, at: Token, tokens: Tokens) -> None:
        """The keys of PARTITION BY; refuses another order or frame, and other keys than before."""
        text, words = self.made.text, [token.upper for token in tokens]
        orders = [n for n in range(len(words)) if words[n : n + 2] == ["ORDER", "BY"]]
        frames = [n for n in range(len(words)) if words[n] in ("ROWS", "RANGE", "GROUPS")]
        if not orders or words[:2] != ["PARTITION", "BY"]:
            raise text.refused(at, f"values up to each row have an order: write {FRAME}")
        frame = frames[0] if frames else len(words)
        if tuple(words[frame:]) not in _FRAMES:
            raise text.refused(
                tokens[frame] if frames else at, "values are those of the rows up to each one: "
                "end OVER with ROWS UNBOUNDED PRECEDING"
            )  # fmt: skip
        order = self.scope.resolved(text, tokens[orders[0] + 2 : frame])
        times = (EVENT_TIME,) if self.relation.time is None else (EVENT_TIME, self.relation.time)
        if order[1:] and order[-1].upper == "ASC":
            order = order[:-1]
        if len(order) != 1 or order[0].name not in times:
            raise text.refused(
                tokens[orders[0]], "rows are in the order of event time, and all columns decide "
                "ties: write ORDER BY stime"
            )  # fmt: skip
        keys, is_by_window = [], False
        for part in divided(tokens[2 : orders[0]]):
            if not part:
                raise text.refused(at, "a column of PARTITION BY is empty: remove a comma")
            resolved = self.scope.resolved(text, part)
            if len(resolved) != 1 or not is_column_name(resolved, 0):
                raise text.refused(
                    part[0], "PARTITION BY names columns, which a query inside of "
                    "TABLE computes"
                )  # fmt: skip
            if resolved[0].name in (START, END):
                is_by_window = True
                continue
            keys.append(self._known(resolved[0]))
        if not is_by_window:
            raise text.refused(
                at, "values begin again at the start of each window: write PARTITION BY "
                "window_start, and the columns of the key behind it"
            )  # fmt: skip
        if self.keys is not None and self.keys != tuple(keys):
            raise text.refused(
                at, "the values of one SELECT have one PARTITION BY: make a view of the first"
            )
        self.keys = tuple(keys)

    def _known(self, token: Token) -> str:
        columns = self.relation.columns
        if token.name in columns:
            return token.name
        near = did_you_mean(token.name, columns, f"there are {', '.join(columns)}")
        raise self.made.text.refused(token, f"{token.text} is not a column: {near}")

    def _column_of(self, call: Tokens, item: Tokens) -> str:
        """The column of a call: what it is selected as, or a name that nothing has."""
        for name, known in self.calls.items():
            if key_of(known) == key_of(call):
                return column_token(name, 0, 0).text
        begin, bracket = _over_at(item, 0) or (0, 0)
        is_whole = begin == 0 and end_of_brackets(item, bracket) == len(item) - 1
        names = [i.name for i in self.select.items if i.tokens is item and is_whole and i.name]
        own = [n for n in names if n not in (*self.relation.columns, *self.calls)]
        taken = {*self.relation.columns, *self.calls, *filter(None, self.names)}
        stem = call[0].text.lower()
        free = next(n for at in count(1) if (n := f"{stem}_{at}") not in taken)
        name = own[0] if own else free
        self.calls[name] = call
        return column_token(name, 0, 0).text


def _over_at(tokens: Tokens, index: int) -> tuple[int, int] | None:
    """Where the next call OVER something begins, and the bracket behind OVER; None if none does."""
    for begin in range(index, len(tokens)):
        calls = aggregate_calls(tokens[begin:])
        if not calls or calls[0][0] is not tokens[begin]:
            continue
        behind = begin + len(calls[0])
        words = [token.upper for token in tokens[behind : behind + 2]]
        if words == ["OVER", "("]:
            return begin, behind + 1
    return None
