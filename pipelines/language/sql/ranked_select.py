"""ROW_NUMBER in a query behind FROM, with a limit outside: a Rank, or a Deduplicate.

    SELECT … FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, symbol ORDER BY price DESC) AS rank
        FROM TUMBLE(TABLE ticks, INTERVAL '1' MINUTE)
    ) WHERE rank <= 3

The rows of a window are ranked: those of TUMBLE or HOP, or those that a query with one of them has
grouped. In a TUMBLE with keys, `ORDER BY stime` and the limit 1, the first record of each key is a
Deduplicate, which keeps its event time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from medusa_core.deduplication import Deduplicate
from medusa_core.network import Rank
from medusa_core.suggest import did_you_mean
from pipelines.language.sql.calls_in_select import aggregate_calls
from pipelines.language.sql.grouped_select import check_time, size_us_of, window_end
from pipelines.language.sql.joined_tables import or_of, parts_of_condition
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
    SqlText,
    Token,
    Tokens,
    column_token,
    divided,
    end_of_brackets,
    is_column_name,
    written,
)
from pipelines.language.sql.statements import (
    END,
    START,
    Item,
    Select,
    Subquery,
    Table,
    Window,
    table_of,
)

OVER = (
    "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY {column} DESC) AS rank FROM "
    "{table}"
)

FRAME = "OVER (PARTITION BY window_start ORDER BY stime ROWS UNBOUNDED PRECEDING)"
"""How a Running is written."""

NOT_OF_FIRST = (
    "the first record of each key keeps its own event time, so it has no {}: select columns of the "
    "table"
)


@dataclass(frozen=True, slots=True)
class Ranking:
    """`ROW_NUMBER() OVER (PARTITION BY keys ORDER BY order) AS name` in a SELECT."""

    name: str
    at: Token
    keys: tuple[Tokens, ...]
    order: tuple[Tokens, ...]


def ranked_query(text: SqlText, table: Table) -> tuple[Select, Ranking] | None:
    """The query behind FROM and what it ranks by; None if it ranks nothing."""
    if not isinstance(table, Subquery) or table.query.local or len(table.query.parts) > 1:
        return None
    (inner,) = table.query.parts
    if not isinstance(inner, Select):
        return None
    for item in inner.items:
        words = [token.upper for token in item.tokens[:5]]
        if words != ["ROW_NUMBER", "(", ")", "OVER", "("] or item.name is None:
            continue
        if end_of_brackets(item.tokens, 4) == len(item.tokens) - 1:
            keys, order = _parts_of_over(text, item.tokens[0], item.tokens[5:-1])
            return inner, Ranking(item.name, item.tokens[0], keys, order)
    return None


def check_no_over(text: SqlText, select: Select) -> None:
    """Refuse functions OVER a window that are no ranking with a limit outside and no Running."""
    parts = [item.tokens for item in select.items]
    parts += [tokens for tokens in (select.where, select.having) if tokens is not None]
    for tokens in parts:
        for before, token, behind in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if (before.text, token.upper, behind.text) != (")", "OVER", "("):
                continue
            example = OVER.format(column="…", table="TUMBLE(…)")
            advice = f"write FROM ({example}) WHERE rank <= 10"
            if tokens[0].upper in ("RANK", "DENSE_RANK", "PERCENT_RANK", "NTILE", "CUME_DIST"):
                raise text.refused(
                    tokens[0], f"{tokens[0].text} is not supported: {advice}, where columns decide "
                    "between rows of equal rank"
                )  # fmt: skip
            if tokens[0].upper in ("LAG", "LEAD"):
                raise text.refused(
                    tokens[0], f"{tokens[0].text} is not supported: number the rows of a window "
                    "with ROW_NUMBER in a view, and join it with itself by that number"
                )  # fmt: skip
            if tokens[0].upper == "ROW_NUMBER" and isinstance(select.table, Window):
                raise text.refused(
                    tokens[0], f"the number of a row is limited around the query: {advice}"
                )
            if aggregate_calls(tokens):
                advice = (
                    "write FROM TUMBLE(…) and GROUP BY window_start, or for the value up to each "
                    f"row FROM TUMBLE(…) with {FRAME}"
                )
            raise text.refused(
                tokens[0], f"{tokens[0].text} OVER (…) is computed over a whole stream: {advice}"
            )


def ranked_select(
    outer: Select, inner: Select, ranking: Ranking, scope: Scope, made: BoxList
) -> tuple[Select, Relation]:
    """The rows of the query that ranks, and the SELECT around it without the limit."""
    text = made.text
    if inner.group_by is not None or inner.having is not None:
        raise text.refused(
            inner.at, "the rows that are ranked are grouped in a query of their own: write FROM "
            "(SELECT … GROUP BY window_start) in this one"
        )  # fmt: skip
    if sum(token.upper == "OVER" for item in inner.items for token in item.tokens) > 1:
        raise text.refused(ranking.at, "one rank is computed at a time: make a view of the first")
    if isinstance(inner.table, Window):
        own = {name: {**columns, START: START, END: END} for name, columns in scope.tables.items()}
        scope = replace(scope, tables=own)
    limit, rest = _limit(outer, ranking.name, text)
    outer = replace(outer, where=rest)
    return outer, _Ranked(made, outer, inner, ranking, scope, limit).relation()


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The query that ranks, and `outer`, the one around it, without the limit that it gives."""

    made: BoxList
    outer: Select
    select: Select
    ranking: Ranking
    scope: Scope
    limit: int | None

    @property
    def window(self) -> Window | None:
        """TUMBLE or HOP, if this query has one."""
        return self.select.table if isinstance(self.select.table, Window) else None

    def relation(self) -> Relation:
        """What is selected of the first rows."""
        text, relation = self.made.text, self.scope.relation
        size, advance = self._windows(relation)
        if self.select.where is not None:
            where = self.scope.resolved(text, self.select.where)
            relation = filtered(self.made, relation, where, "where")
        keys, order = self._keys(relation), self._order(relation)
        name = self.ranking.name
        if name in relation.columns:
            raise text.refused(
                self.ranking.at,
                f"the table has a column {name}: write AS and another name behind ROW_NUMBER()",
            )
        is_tumbling = self.window is not None and advance is None
        if is_tumbling and keys and self.limit == 1 and order is None:
            return self._first(relation, keys, size)
        box = Rank(
            name=self.made.name_of("rank"), input=relation.port, size=size, advance=advance,
            group_by=keys, order=order or (), k=self.limit, column=name,
        )  # fmt: skip
        port = self.made.add(box, self.ranking.at)
        start = () if START in relation.columns else (START,)
        ranked = Relation(
            port=port,
            columns=(*start, *relation.columns, name),
            window=(advance or size, size) if self.window is not None else relation.window,
        )
        return self._selected(ranked)

    def _first(self, relation: Relation, keys: tuple[str, ...], size: str) -> Relation:
        """The first records of each key, with the event times and columns that they have."""
        box = Deduplicate(
            name=self.made.name_of("first"), input=relation.port, by=keys, within=size
        )
        port = self.made.add(box, self.ranking.at)
        selected = self._selected(replace(relation, port=port, is_source=False))
        for tokens in (*(item.tokens for item in self.outer.items), self.outer.where or ()):
            for index, token in enumerate(tokens):
                is_meant = token.name in (START, END, self.ranking.name)
                if (
                    is_meant
                    and token.name not in selected.columns
                    and is_column_name(tokens, index)
                ):
                    raise self.made.text.refused(token, NOT_OF_FIRST.format(token.name))
        return selected

    def _windows(self, relation: Relation) -> tuple[str, str | None]:
        """Size and advance of the windows in which rows are ranked."""
        text, window = self.made.text, self.window
        if window is not None:
            check_time(window.time, relation, self.made)
            if window.gap is not None or window.n is not None:
                raise text.refused(
                    window.at, "rows are ranked in windows of a fixed length: write TUMBLE or HOP"
                )
            if size_us_of(window, self.made) is None:
                raise text.refused(
                    window.at, "rows are ranked in windows of a fixed length: write a size such as "
                    "INTERVAL '1' DAY without a time zone"
                )  # fmt: skip
            if START in relation.columns or END in relation.columns:
                raise text.refused(
                    window.at, f"{START} is a column of the table and of its windows: give the "
                    "first another name in a view"
                )  # fmt: skip
            return window.size, window.advance
        if relation.window is None or START not in relation.columns:
            raise text.refused(
                self.ranking.at, "the rows of a stream have no last one, so the rows of a window "
                f"are ranked: write FROM {self._windows_advised(relation)} and PARTITION BY "
                "window_start"
            )  # fmt: skip
        return relation.window[0], None

    def _windows_advised(self, relation: Relation) -> str:
        """Windows that these rows can be ranked in, for an error.

        A column that is named as those of windows are, of windows that are not all of one length,
        gets another name first.
        """
        table = table_of(self.select.table)
        renamed = {START: "row_start", END: "row_end"}
        if any(name in relation.columns for name in renamed):
            columns = (f"{c} AS {renamed[c]}" if c in renamed else c for c in relation.columns)
            table = f"(SELECT {', '.join(columns)} FROM {table})"
        return f"TUMBLE(TABLE {table}, INTERVAL '1' MINUTE)"

    def _keys(self, relation: Relation) -> tuple[str, ...]:
        """The columns of PARTITION BY but for the window, which must be among them."""
        text = self.made.text
        found: list[str] = []
        is_by_window = False
        for tokens in self.ranking.keys:
            name = self._column(tokens, "PARTITION BY")
            if name in (START, END) and (self.window is not None or name in relation.columns):
                is_by_window = True
                continue
            found.append(self._known(name, tokens, relation))
        if not is_by_window:
            raise text.refused(
                self.ranking.at, "rows are ranked within a window: write PARTITION BY window_start,"
                " and the columns of the group behind it"
            )  # fmt: skip
        return tuple(found)

    def _order(self, relation: Relation) -> tuple[str, ...] | None:
        """ORDER BY as a Rank has it; None: by event time alone."""
        text = self.made.text
        found: list[str] = []
        for tokens in self.ranking.order:
            words = [token.upper for token in tokens]
            if words[-2:] == ["NULLS", "FIRST"]:
                raise text.refused(
                    tokens[-2], "NULL comes last in a rank: remove NULLS FIRST, or order by a "
                    "column that a query inside of FROM computes, such as coalesce(x, 0)"
                )  # fmt: skip
            if words[-2:] == ["NULLS", "LAST"]:
                tokens = tokens[:-2]
            is_descending = bool(tokens) and tokens[-1].upper == "DESC"
            if tokens and tokens[-1].upper in ("ASC", "DESC"):
                tokens = tokens[:-1]
            name = self._column(tokens, "ORDER BY")
            if name == EVENT_TIME and EVENT_TIME not in relation.columns:
                if is_descending or tokens[0] is not self.ranking.order[-1][0]:
                    raise text.refused(
                        tokens[0], f"{EVENT_TIME} decides ties, the earlier row first: write it "
                        "last and without DESC, or order by a column of the table"
                    )  # fmt: skip
                return tuple(found) or None
            found.append(self._known(name, tokens, relation) + " desc" * is_descending)
        return None if found == [relation.time] else tuple(found)

    def _column(self, tokens: Tokens, clause: str) -> str:
        """The column that a part of OVER names."""
        tokens = self.scope.resolved(self.made.text, tokens)
        if len(tokens) == 1 and is_column_name(tokens, 0):
            return tokens[0].name
        at = tokens[0] if tokens else self.ranking.at
        what = f"`{written(tokens)}` is no column" if tokens else "a column is empty"
        raise self.made.text.refused(
            at, f"{what}: {clause} of a rank names columns, which a query inside of FROM computes"
        )

    def _known(self, name: str, tokens: Tokens, relation: Relation) -> str:
        if name in relation.columns:
            return name
        known = f"there are {', '.join(relation.columns)}"
        near = did_you_mean(name, relation.columns, known)
        raise self.made.text.refused(tokens[0], f"{name} is not a column: {near}")

    def _selected(self, ranked: Relation) -> Relation:
        """The columns of the SELECT, over those of the box."""
        text = self.made.text
        columns: dict[str, Tokens] = {}
        for item in self.select.items:
            for name, expression in self._given(item, ranked).items():
                if name in columns:
                    raise text.refused(
                        expression[0],
                        f"column {name} is selected twice: write AS and another name behind one",
                    )
                columns[name] = expression
        if is_identity(columns, ranked):
            return ranked
        return mapped(self.made, ranked, columns, self.select.at, "columns")

    def _given(self, item: Item, ranked: Relation) -> dict[str, Tokens]:
        """The columns that a part of the SELECT gives; none for the number of a first record."""
        name, at = self.ranking.name, self.ranking.at
        if item.tokens[0] is at:
            return {name: (column_token(name, at.start, at.end),)} if name in ranked.columns else {}
        if item.name is None:
            return self._all(item.tokens, ranked)
        return {item.name: self._expression(item.tokens, ranked)}

    def _all(self, star: Tokens, ranked: Relation) -> dict[str, Tokens]:
        """The columns that `*` stands for: those of the table, and the window's start."""
        if len(star) == 3:
            self.scope.of_table(self.made.text, star[0])
        names = (name for name in ranked.columns if name != self.ranking.name)
        return {name: (column_token(name, star[0].start, star[0].end),) for name in names}

    def _expression(self, tokens: Tokens, ranked: Relation) -> Tokens:
        """An expression over the columns of the box."""
        for call in aggregate_calls(tokens):
            raise self.made.text.refused(
                call[0], f"{call[0].text} is computed over a window: write FROM (SELECT … GROUP BY "
                "window_start) in this query"
            )  # fmt: skip
        resolved = self.scope.resolved(self.made.text, tokens)
        found: list[Token] = []
        for index, token in enumerate(resolved):
            if not is_column_name(resolved, index) or token.name not in (START, END):
                found.append(token)
                continue
            if START not in ranked.columns:
                raise self.made.text.refused(token, NOT_OF_FIRST.format(token.name))
            size_us = size_us_of(self.window, self.made) if self.window is not None else None
            is_end = token.name == END and size_us is not None
            found.append(window_end(token, size_us) if is_end and size_us else token)
        return found


def _parts_of_over(
    text: SqlText, at: Token, tokens: Tokens
) -> tuple[tuple[Tokens, ...], tuple[Tokens, ...]]:
    """The parts of PARTITION BY and of ORDER BY in the brackets of OVER."""
    words = [token.upper for token in tokens]
    for frame in ("ROWS", "RANGE"):
        if frame in words and words[words.index(frame) + 1 : words.index(frame) + 2] == ["BETWEEN"]:
            raise text.refused(
                tokens[words.index(frame)], "a rank has no frame: end OVER behind ORDER BY"
            )
    orders = [n for n in range(len(words)) if words[n : n + 2] == ["ORDER", "BY"]]
    if not orders:
        raise text.refused(
            at, "ROW_NUMBER needs an order: write ORDER BY and the columns in its OVER (…)"
        )
    before, behind = tokens[: orders[0]], tokens[orders[0] + 2 :]
    if words[:2] != ["PARTITION", "BY"]:
        raise text.refused(
            at, "rows are ranked within a window: write PARTITION BY window_start, and the columns "
            "of the group behind it"
        )  # fmt: skip
    return tuple(divided(before[2:])), tuple(divided(behind))


def _limit(outer: Select, name: str, text: SqlText) -> tuple[int | None, Sequence[Token] | None]:
    """The limit that WHERE gives the rank, None if it says nothing of it, and what else it says."""
    advice = f"write WHERE {name} <= 10, with a whole number, and other conditions behind AND"
    alias = outer.table.alias if isinstance(outer.table, Subquery) else None
    limit: int | None = None
    rest: list[Token] = []
    for part in parts_of_condition(outer.where or ()):
        found = _number_of_limit(_without_table(part, alias), name) if limit is None else None
        if found is not None:
            limit = found
            continue
        disjunction = or_of(part)
        if disjunction is not None:
            raise text.refused(disjunction, "put the conditions with OR into brackets")
        rest += (
            [Token("word", "AND", part[0].start - 2, part[0].start - 1), *part] if rest else part
        )
    if limit is None and any(token.name == name for token in outer.where or ()):
        raise text.refused(rest[0], f"a rank needs a limit: {advice}")
    return limit, rest or None


def _without_table(tokens: Tokens, table: str | None) -> Tokens:
    """The tokens without `table.` before names."""
    found: list[Token] = []
    for token in tokens:
        if token.text == "." and found and found[-1].name == table:
            found.pop()
        else:
            found.append(token)
    return found


def _number_of_limit(part: Tokens, name: str) -> int | None:
    """How many rows `rank <= 3` lets pass, or `rank < 4`, `rank = 1`, `3 >= rank`,
    `rank BETWEEN 1 AND 3`."""
    words = [token.upper for token in part]
    if len(part) == 5 and words[1::2] == ["BETWEEN", "AND"]:
        is_rank = part[0].kind in ("word", "quoted") and part[0].name == name
        is_first = words[2] in ("0", "1")
        return int(words[4]) if is_rank and is_first and words[4].isdecimal() else None
    if len(part) != 3:
        return None
    column, sign, number = part[0], part[1].text, part[2]
    if column.kind == "number":
        column, number = number, column
        sign = {">=": "<=", ">": "<", "=": "="}.get(sign, "")
    if column.kind not in ("word", "quoted") or column.name != name:
        return None
    if number.kind != "number" or not number.text.isdecimal():
        return None
    limit = int(number.text)
    match sign:
        case "<=":
            return limit
        case "<":
            return limit - 1
        case "=" if limit == 1:
            return limit
    return None
