"""Queries: SELECT, FROM with windows and joins, WITH, UNION ALL; expressions stay tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from medusa_core.empty_windows import Key
from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.resamples import PREVIOUS
from medusa_core.suggest import did_you_mean
from pipelines.language.sql.intervals import duration_of, period_of, size_of
from pipelines.language.sql.sql_text import (
    KEYWORDS,
    Token,
    Tokens,
    divided,
    is_column_name,
    written,
)
from pipelines.language.sql.statements import (
    EmptyWindows,
    Item,
    JoinedTables,
    NamedTable,
    Query,
    Resampled,
    Select,
    Subquery,
    Table,
    Window,
    table_of,
)
from pipelines.language.sql.token_cursor import CLAUSES, NOT_HERE, TokenCursor
from pipelines.language.zone_database import offsets_of

JOINS = (
    (("JOIN",), "inner"),
    (("INNER", "JOIN"), "inner"),
    (("LEFT", "JOIN"), "left"),
    (("LEFT", "OUTER", "JOIN"), "left"),
    (("SEMI", "JOIN"), "semi"),
    (("LEFT", "SEMI", "JOIN"), "semi"),
    (("ANTI", "JOIN"), "anti"),
    (("LEFT", "ANTI", "JOIN"), "anti"),
)
"""How SQL writes the kinds of a Join box."""

WINDOWS = ("TUMBLE", "HOP", "SESSION", "EVERY")
"""The table functions whose rows are grouped."""

NO_ALIAS = ("FOR", "CREATE", "SELECT", "ON", "USING", "WITH", "VALUES", "PARTITION")
"""What begins something else where the second name of a table may stand."""


class QueryParser(TokenCursor):
    """Reads a query from where the cursor is."""

    def query(self) -> Query:
        local: dict[str, Query] = {}
        at = self.token
        if at is None:
            raise self.expected("SELECT")
        if self.took("WITH"):
            if self.upper(1) != "AS" and self.upper() in ("RECURSIVE", "MUTUALLY"):
                raise self.expected("the name of a query, which does not read itself")
            while True:
                name = self.name("the query")
                self.check_no_names()
                if name.name in local:
                    raise self.text.refused(name, f"{name.name} is declared twice: rename one")
                self.expect("AS")
                local[name.name] = self.query_in_brackets("the query")
                if not self.took(","):
                    break
        parts: list[Select | Query] = [self.part()]
        while self.took("UNION", "ALL"):
            parts.append(self.part())
        if self.token is not None and self.upper() not in (";", ")"):
            raise self.expected("`;` or UNION ALL")
        return Query(at=at, local=local, parts=tuple(parts))

    def query_in_brackets(self, what: str) -> Query:
        begin = self.index
        self.inside(what)
        end, self.index = self.index, begin + 1
        query = self.query()
        if self.index != end - 1:
            raise self.expected("`)`")
        self.index = end
        return query

    def part(self) -> Select | Query:
        if self.upper() in ("FROM", "TABLE", "VALUES"):
            raise self.expected(
                "CREATE SOURCE for rows that are read"
                if self.upper() == "VALUES"
                else "SELECT, its columns or *, and FROM behind them"
            )
        return self.query_in_brackets("the query") if self.upper() == "(" else self.select()

    def select(self) -> Select:
        at = self.token
        self.expect("SELECT")
        assert at is not None
        if self.upper() == "DISTINCT":
            raise self.text.refused(
                at,
                "SELECT DISTINCT compares a row with all before it, which are ever more: write "
                "FROM TUMBLE(…), and GROUP BY window_start and the columns",
            )
        self.took("ALL")
        parts = divided(self.until(*CLAUSES))
        self.check_no_keyword()
        if self.token is not None and self.upper() != "FROM":
            raise self.expected("FROM")
        items = tuple(self.item(part) for part in parts)
        self.expect("FROM")
        table = self.table()
        if self.upper() == ",":
            assert self.token is not None
            raise self.text.refused(
                self.token, "tables with a comma between them are joined: write JOIN … ON"
            )
        where = self.until(*CLAUSES) if self.took("WHERE") else None
        group_by = having = None
        if self.took("GROUP", "BY"):
            group_by = tuple(divided(self.until(*CLAUSES)))
        if self.took("HAVING"):
            having = self.until(*CLAUSES)
        empty = self.empty_windows()
        for clause, tokens in (("WHERE", where), ("HAVING", having)):
            if tokens is not None and not tokens:
                raise self.text.refused(at, f"{clause} of this SELECT has no condition: write one")
        for tokens in (*(item.tokens for item in items), *(group_by or ()), where, having):
            self.check_no_query(tokens or ())
        return Select(
            at=at, items=items, table=table, where=where, group_by=group_by, having=having,
            empty=empty,
        )  # fmt: skip

    def empty_windows(self) -> EmptyWindows | None:
        """EMIT EMPTY, and the values that FOR declares for each column of the group."""
        at = self.token
        if at is None or not self.took("EMIT", "EMPTY"):
            return None
        keys = []
        if self.took("FOR"):
            while True:
                column = self.name("a column of GROUP BY")
                self.expect("IN")
                values = divided(self.inside("IN"))
                keys.append((column, tuple(self.literal(part, column) for part in values)))
                if not self.took("AND"):
                    break
        behind = self.token
        if behind is not None and behind.upper in ("GROUP", "HAVING", "WHERE"):
            raise self.text.refused(
                at, f"EMIT EMPTY is the last part of a SELECT: write it behind {behind.upper}"
            )
        return EmptyWindows(at=at, keys=tuple(keys))

    def literal(self, tokens: Tokens, column: Token) -> Key:
        """A value of a column that is written out."""
        words = [token.upper for token in tokens]
        known: dict[str, Key] = {"NULL": None, "TRUE": True, "FALSE": False}
        if len(words) == 1 and words[0] in known:
            return known[words[0]]
        if len(tokens) == 1 and tokens[0].kind == "string":
            text = tokens[0].text
            if text.startswith("'") and "\\" not in text:
                return text[1:-1].replace("''", "'")
        sign = -1 if words[:1] == ["-"] else 1
        number = tokens[1:] if sign < 0 else tokens
        if len(number) == 1 and number[0].text.isdecimal():
            return sign * int(number[0].text)
        raise self.text.refused(
            tokens[0] if tokens else column,
            f"the values of {column.text} are written out: 'a text', a whole number, TRUE, FALSE "
            "or NULL",
        )

    def check_no_keyword(self) -> None:
        """Refuse a column of SELECT that is named as a clause is, without back quotes."""
        token, before = self.token, self.tokens[self.index - 1].upper
        if token is None or token.upper not in CLAUSES:
            return
        has_more = self.upper(1) in ("FROM", ",", "AS", ".") or before == "AS"
        if before in ("SELECT", "ALL", ",", "AS") and (token.upper != "FROM" or has_more):
            raise self.text.refused(
                token, f"{token.upper} begins a clause: for a column of that name, write "
                f"`{token.name}` in back quotes"
            )  # fmt: skip

    def check_no_names(self) -> None:
        """Refuse the names of columns behind that of a query."""
        if self.token is not None and self.upper() == "(":
            raise self.text.refused(
                self.token, "columns have their names in the query: write AS in SELECT"
            )

    def check_no_query(self, tokens: Tokens) -> None:
        """Refuse a query inside an expression: its value would be that of a whole stream."""
        before = ["", ""]
        for opening, word in pairwise(tokens):
            if opening.upper == "(" and word.upper in ("SELECT", "WITH", "VALUES"):
                instead = "compute it in a view, and write JOIN … ON"
                if before[1] in ("IN", "EXISTS"):
                    kind = "ANTI" if before[0] == "NOT" else "SEMI"
                    instead = f"write {kind} JOIN … ON"
                raise self.text.refused(
                    word, "a query in an expression would read a whole stream, which has no end: "
                    f"{instead} with a key and an interval of time"
                )  # fmt: skip
            before = [before[1], opening.upper]

    def item(self, tokens: Tokens) -> Item:
        if not tokens:
            at = self.token or len(self.text.text.rstrip())
            raise self.text.refused(
                at, "a column of this SELECT is empty: write an expression, or remove a comma"
            )
        if tokens[-1].text == "*" and (
            len(tokens) == 1 or (len(tokens) == 3 and tokens[1].text == ".")
        ):
            return Item(tokens=tokens, name=None)
        if len(tokens) > 2 and tokens[-2].upper == "AS":
            return Item(tokens=tokens[:-2], name=tokens[-1].name)
        if _is_column(tokens):
            return Item(tokens=tokens, name=tokens[-1].name)
        self.check_is_expression(tokens)
        raise self.text.refused(
            tokens[0], f"`{written(tokens)}` has no name: write AS and a name behind it"
        )

    def check_is_expression(self, tokens: Tokens) -> None:
        """Refuse a part of SELECT that would still be none with a name behind it."""
        begin = 2 if len(tokens) > 2 and tokens[1].text == "." else 0
        star = begin if len(tokens) > begin + 1 and tokens[begin].text == "*" else None
        behind = tokens[-1 if star is None else star + 1]
        if star is not None and behind.upper in ("EXCEPT", "EXCLUDE", "REPLACE", "RENAME"):
            raise self.text.refused(
                behind, "* is all columns: write the names of those that are selected"
            )
        if tokens[0].upper == "TOP" and tokens[1].kind == "number":
            raise self.text.refused(tokens[0], NOT_HERE["LIMIT"])
        if behind.kind in ("word", "quoted") and behind.upper not in KEYWORDS:
            before = tokens[-2]
            is_interval = len(tokens) > 2 and tokens[-3].upper == "INTERVAL"
            is_literal = before.kind in ("number", "string") and not is_interval
            is_column = before.kind == "word" and is_column_name(tokens, len(tokens) - 2)
            is_end = before.upper in (")", "]", "END", "NULL", "TRUE", "FALSE")
            if is_end or is_literal or is_column:
                raise self.text.refused(
                    behind, f"write AS before the name {behind.text}, or a comma if it is a column"
                )

    def table(self) -> Table:
        table: Table = self.one_table()
        if isinstance(table, NamedTable) and table.as_of is not None:
            raise self.text.refused(
                table.as_of[0], "FOR SYSTEM_TIME AS OF is read behind the second table of a JOIN"
            )
        while True:
            at, how = self.token, self.join_kind()
            if at is None or how is None:
                return table
            table = self.join(at, how, table)

    def join(self, at: Token, how: str, left: Table) -> JoinedTables:
        """The table behind a JOIN, and its ON."""
        right = self.one_table()
        if self.token is not None and self.upper() == "FOR":
            raise self.text.refused(
                self.token, "write FOR SYSTEM_TIME AS OF directly behind the name of a source, "
                "view or stream, and AS behind it"
            )  # fmt: skip
        for table in (left, right):
            if isinstance(table, Window):
                raise self.text.refused(
                    table.at, "the rows of a window are grouped before they are joined: make a "
                    "view of them"
                )  # fmt: skip
        assert not isinstance(left, Window)
        assert not isinstance(right, Window)
        if self.upper() == "USING":
            assert self.token is not None
            raise self.text.refused(
                self.token, "USING has no interval of time: write ON with the keys and an interval"
            )
        self.expect("ON")
        return JoinedTables(at=at, how=how, left=left, right=right, on=self.until(*CLAUSES))

    def join_kind(self) -> str | None:
        """The kind of a join that comes next, which is passed then; None if none does."""
        for words, how in JOINS:
            if self.took(*words):
                return how
        return None

    def one_table(self) -> NamedTable | Subquery | Window | Resampled:
        if self.upper() == "(":
            query = self.query_in_brackets("the subquery")
            return Subquery(query=query, alias=self.alias())
        if self.upper(1) == "(" and self.upper() in ("LATERAL", "UNNEST", "GENERATE_SERIES"):
            raise self.text.refused(
                self.tokens[self.index], f"{self.upper()} is not supported: a row gives one row"
            )
        if self.took("TABLE"):
            begin = self.index
            self.inside("TABLE")
            end, self.index = self.index, begin + 1
            table = self.function()
            if self.index != end - 1:
                raise self.expected("`)`")
            self.index = end
            return replace(table, alias=self.alias())
        if self.upper(1) == "(":
            return replace(self.function(), alias=self.alias())
        name = self.name("a source, view or stream")
        as_of = self.as_of()
        return NamedTable(name=name, alias=self.alias() or name.name, as_of=as_of)

    def as_of(self) -> Tokens | None:
        """The column behind FOR SYSTEM_TIME AS OF, which is passed; None if it does not follow."""
        at = self.token
        if at is None or self.upper() != "FOR":
            return None
        tokens = self.tokens[self.index + 4 : self.index + 7]
        if not self.took("FOR", "SYSTEM_TIME", "AS", "OF") or not _is_column(tokens):
            raise self.text.refused(
                at, "a table is read as of the event time of a row: write FOR SYSTEM_TIME AS OF "
                "a.stime, with the name of the first table for a"
            )  # fmt: skip
        self.index += 3
        return tokens

    def alias(self) -> str | None:
        is_name = self.token is not None and self.token.kind in ("word", "quoted")
        if not self.took("AS") and (
            not is_name or self.upper() in (*CLAUSES, *NOT_HERE, *NO_ALIAS)
        ):
            return None
        name = self.name("the table").name
        self.check_no_names()
        return name

    def function(self) -> Window | Resampled:
        """A table function, up to its closing bracket."""
        return self.resampled() if self.upper() == "RESAMPLE" else self.window()

    def window(self) -> Window:
        at = self.token
        assert at is not None
        kind = at.upper
        if kind not in WINDOWS:
            known = "windows are TUMBLE, HOP and SESSION"
            near = did_you_mean(kind, (*WINDOWS, "RESAMPLE"), known)
            reason = f"{at.text} is no window: {near}"
            if kind == "CUMULATE":
                reason = f"windows of kind {kind} are not supported: {known}"
            raise self.text.refused(at, reason)
        self.index += 1
        begin = self.index
        parts = divided(self.inside(kind))
        end, self.index = self.index, begin + 1
        self.check_not_named(at, parts)
        self.check_order(at, parts)
        table = self.argument()
        rest = parts[1:]
        keys = self.partition(kind, rest)
        if self.upper() not in (",", ")"):
            raise self.expected("`,`")
        self.index = end
        has_time = bool(rest and rest[0] and rest[0][0].upper == "DESCRIPTOR")
        time = self.descriptor(rest.pop(0)) if has_time else None
        if kind == "EVERY":
            n, size = self.count_and_span(rest, at, table, keys)
            return Window(
                at=at, table=table, time=time, size=size, advance=None, zone=None, n=n, keys=keys,
                alias=None,
            )  # fmt: skip
        if kind == "SESSION":
            gap, size = self.session_lengths(rest, at, table, keys)
            return Window(
                at=at, table=table, time=time, size=size, advance=None, zone=None, gap=gap,
                keys=keys, alias=None,
            )  # fmt: skip
        zone = self.zone(rest.pop()) if kind == "TUMBLE" and len(rest) == 2 else None
        written_as = size_of if zone is None else period_of
        durations = [written_as(self.text, part, at) for part in rest]
        if len(durations) != (1 if kind == "TUMBLE" else 2):
            needs, form = "its size", "INTERVAL '1' MINUTE"
            if kind == "HOP":
                needs, form = "its slide and its size", f"INTERVAL '10' SECOND, {form}"
            raise self.text.refused(
                at, f"{kind} needs {needs}: write {kind}(TABLE {table_of(table)}, {form})"
            )
        self.check_slide(kind, at, table, durations, rest)
        return Window(
            at=at,
            table=table,
            time=time,
            size=durations[-1],
            advance=durations[0] if kind == "HOP" else None,
            zone=zone,
            alias=None,
        )

    def check_slide(
        self,
        kind: str,
        at: Token,
        table: NamedTable | Subquery,
        durations: Sequence[str],
        rest: Sequence[Tokens],
    ) -> None:
        """Refuse a HOP whose slide is longer than its size, as where they are exchanged."""
        if kind != "HOP" or parse_duration_us(durations[0]) <= parse_duration_us(durations[1]):
            return
        slide, size = written(rest[0]), written(rest[1])
        raise self.text.refused(
            at, f"HOP has its slide before its size, and {slide} is longer than {size}: write "
            f"HOP(TABLE {table_of(table)}, {size}, {slide}), or TUMBLE for windows that follow "
            "each other"
        )  # fmt: skip

    def partition(self, kind: str, rest: list[Tokens]) -> tuple[Token, ...]:
        """The columns of PARTITION BY behind a table, which is passed; those between commas are
        taken from the arguments that follow."""
        at = self.token
        if at is None or not self.took("PARTITION", "BY"):
            return ()
        if kind not in ("SESSION", "EVERY"):
            raise self.text.refused(
                at, f"{kind} has no PARTITION BY: write the columns of a group in GROUP BY, behind "
                "window_start"
            )  # fmt: skip
        if self.upper() == "(":
            found = divided(self.inside("PARTITION BY"))
        else:
            begin = self.index
            while self.token is not None and self.upper() not in (",", ")"):
                self.index += 1
            found = [self.tokens[begin : self.index]]
            while rest and len(rest[0]) == 1 and rest[0][0].kind in ("word", "quoted"):
                found.append(rest.pop(0))
                self.index += 2
        for tokens in found:
            if not tokens or not _is_column(tokens):
                raise self.text.refused(
                    tokens[0] if tokens else at,
                    f"{'sessions' if kind == 'SESSION' else 'groups'} are those of columns: write "
                    "PARTITION BY and their names, and compute an expression in a view"
                )  # fmt: skip
        return tuple(tokens[-1] for tokens in found)

    def count_and_span(
        self, rest: Sequence[Tokens], at: Token, table: NamedTable | Subquery, keys: Tokens
    ) -> tuple[int, str]:
        """How many rows are a group of EVERY, and the length of the spans that begin with one."""
        if len(rest) == 2 and len(rest[0]) == 1 and rest[0][0].text.isdecimal():
            return int(rest[0][0].text), duration_of(self.text, rest[1], at)
        of_keys = f" PARTITION BY {', '.join(key.text for key in keys)}" if keys else ""
        raise self.text.refused(
            at,
            "EVERY needs how many rows are a group, and the length of the spans at whose start a "
            f"new group begins: write EVERY(TABLE {table_of(table)}{of_keys}, 10, INTERVAL '1' "
            "DAY)",
        )

    def session_lengths(
        self, rest: Sequence[Tokens], at: Token, table: NamedTable | Subquery, keys: Tokens
    ) -> tuple[str, str]:
        """The gap and the greatest length of SESSION."""
        lengths = [duration_of(self.text, part, at) for part in rest]
        if len(lengths) == 2:
            return lengths[0], lengths[1]
        of_keys = f" PARTITION BY {', '.join(key.text for key in keys)}" if keys else ""
        given, length = "INTERVAL '5' MINUTE", "INTERVAL '4' HOUR"
        needs = "its gap and the greatest length of a session"
        if len(lengths) == 1:
            given = written(rest[0])
            if lengths[0].endswith(("h", "d")):
                length = "INTERVAL '30' DAY"
            needs = (
                "the greatest length of a session behind its gap, at which a longer one is cut, "
                "since it cannot keep all rows"
            )
        example = f"SESSION(TABLE {table_of(table)}{of_keys}, {given}, {length})"
        raise self.text.refused(at, f"SESSION needs {needs}: write {example}")

    def check_order(self, at: Token, parts: Sequence[Tokens]) -> None:
        """Refuse arguments in another order, and a column of event time without DESCRIPTOR."""
        kind = at.upper
        order = "the table, DESCRIPTOR of its event time, and then the durations"
        first = parts[0][0].upper if parts[0] else ""
        is_behind = any(part and part[0].upper == "DESCRIPTOR" for part in parts[2:])
        by_keys = kind in ("SESSION", "EVERY")
        if first in ("INTERVAL", "DESCRIPTOR") or (is_behind and not by_keys):
            at = parts[0][0] if parts[0] else at
            raise self.text.refused(at, f"the arguments of {kind} have an order: {order}")
        if len(parts) > 2 and not by_keys and _is_column(parts[1]):
            raise self.text.refused(
                parts[1][0], f"write DESCRIPTOR({parts[1][-1].text}) for the column of event time"
            )

    def check_not_named(self, at: Token, parts: Sequence[Tokens]) -> None:
        if any(len(part) > 1 and part[1].text == "=>" for part in parts):
            kind = at.upper
            raise self.text.refused(at, f"write the arguments of {kind} without names, in order")

    def argument(self) -> NamedTable | Subquery:
        """The table that a table function reads."""
        self.took("TABLE")
        if self.upper() == "(":
            return Subquery(query=self.query_in_brackets("the subquery"), alias=None)
        name = self.name("a source, view or stream")
        return NamedTable(name=name, alias=name.name)

    def resampled(self) -> Resampled:
        at = self.token
        assert at is not None
        self.index += 1
        begin = self.index
        parts = divided(self.inside("RESAMPLE"))
        end, self.index = self.index, begin + 1
        self.check_not_named(at, parts)
        table = self.argument()
        by = self.key() if self.took("PARTITION", "BY") else ()
        if self.upper() == "ORDER":
            assert self.token is not None
            raise self.text.refused(
                self.token, "rows are resampled in the order of event time: remove ORDER BY"
            )
        if by and self.token is not None and self.upper() not in (",", ")"):
            raise self.text.refused(
                self.token, "PARTITION BY names columns, which a query inside of TABLE computes"
            )
        if self.upper() not in (",", ")"):
            raise self.expected("`,`, or PARTITION BY and the columns of the key")
        self.took(",")
        rest = divided(self.tokens[self.index : end - 1]) if self.index < end - 1 else []
        self.index = end
        has_time = bool(rest and rest[0] and rest[0][0].upper == "DESCRIPTOR")
        time = self.descriptor(rest.pop(0)) if has_time else None
        if len(rest) not in (2, 3):
            form = f"TABLE {table_of(table)} PARTITION BY user, INTERVAL '10' SECOND"
            raise self.text.refused(
                at, "RESAMPLE needs the step between rows and the greatest age of their values: "
                f"write RESAMPLE({form}, INTERVAL '1' MINUTE)"
            )  # fmt: skip
        step, max_age = (duration_of(self.text, part, at) for part in rest[:2])
        return Resampled(
            at=at,
            table=table,
            by=by,
            time=time,
            step=step,
            max_age=max_age,
            method=self.method(rest[2]) if len(rest) == 3 else PREVIOUS,
            alias=None,
        )

    def key(self) -> tuple[Token, ...]:
        """The columns behind PARTITION BY, with or without brackets around them."""
        if self.upper() == "(":
            parts = divided(self.inside("PARTITION BY"))
            for part in parts:
                if len(part) != 1 or part[0].kind not in ("word", "quoted"):
                    raise self.text.refused(
                        part[0] if part else self.tokens[self.index - 1],
                        "PARTITION BY names columns, which a query inside of TABLE computes",
                    )
            return tuple(part[0] for part in parts)
        found = [self.name("a column of the key")]
        while self.upper() == "," and self.upper(2) in (",", ")", "ORDER"):
            if self.tokens[self.index + 1].kind not in ("word", "quoted"):
                break
            self.index += 1
            found.append(self.name("a column of the key"))
        return tuple(found)

    def method(self, tokens: Tokens) -> str:
        if len(tokens) != 1 or tokens[0].kind != "string":
            at = tokens[0] if tokens else self.tokens[self.index - 1]
            raise self.text.refused(
                at, "write the method of RESAMPLE behind the age as a text, 'previous' or 'linear'"
            )
        return tokens[0].text[1:-1]

    def zone(self, tokens: Tokens) -> str:
        if tokens and tokens[0].upper == "INTERVAL":
            raise self.text.refused(
                tokens[0], "TUMBLE has one duration, the size of its windows, and no offset: they "
                "begin at multiples of it from 1970-01-01 00:00:00; remove this one, or write HOP "
                "for windows that overlap"
            )  # fmt: skip
        if len(tokens) != 1 or tokens[0].kind != "string":
            at = tokens[0] if tokens else len(self.text.text.rstrip())
            raise self.text.refused(
                at, "write the time zone behind the size as a text, such as 'Europe/Berlin'"
            )
        zone = tokens[0].text[1:-1]
        try:
            offsets_of(zone)
        except Refused as error:
            raise self.text.refused(tokens[0], str(error)) from None
        return zone

    def descriptor(self, tokens: Tokens) -> Token:
        is_one = len(tokens) == 4 and tokens[1].text == "(" and tokens[3].text == ")"
        if not is_one or tokens[2].kind not in ("word", "quoted"):
            raise self.text.refused(
                tokens[0], "write DESCRIPTOR(column) with one column of event time"
            )
        return tokens[2]


def _is_column(tokens: Sequence[Token]) -> bool:
    """Whether it is a column, with or without the name of its table."""
    is_named = all(token.kind in ("word", "quoted") for token in tokens[::2])
    return is_named and (len(tokens) == 1 or (len(tokens) == 3 and tokens[1].text == "."))
