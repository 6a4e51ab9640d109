"""From the tokens of a SQL file to its statements; expressions stay text.

Clauses are divided here; what an expression may hold is checked as that of a network in Python is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from re import fullmatch

from medusa_core.errors import Refused
from medusa_core.names import NAME_PATTERN
from medusa_core.suggest import did_you_mean
from pipelines.language.sql.sql_text import (
    SqlText,
    Token,
    Tokens,
    divided,
    end_of_brackets,
    written,
)
from pipelines.language.sql.statements import (
    CreateNetwork,
    CreateSource,
    CreateStream,
    Item,
    NamedTable,
    Query,
    Select,
    Statement,
    Subquery,
    Table,
    Window,
    table_of,
)

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "NETWORK": ("bucket",),
    "SOURCE": ("time", "time_unit", "time_zone", "disorder", "key", "stream"),
    "STREAM": ("fragment",),
    "VIEW": ("fragment",),
}
"""What may stand behind WITH, by kind of statement."""

CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "UNION")
"""What ends an expression of a query."""

NO_ALIAS = ("CREATE", "SELECT", "ON", "USING", "WITH", "VALUES")
"""What begins something else where the second name of a table may stand."""

UNITS = {
    "MILLISECOND": "ms",
    "SECOND": "s",
    "MINUTE": "m",
    "HOUR": "h",
    "DAY": "d",
}

NOT_HERE: Mapping[str, str] = {
    "JOIN": "JOIN cannot be written in SQL yet: write the network in Python",
    **dict.fromkeys(
        ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"),
        "joins cannot be written in SQL yet: write the network in Python",
    ),
    "ORDER": "a stream has no end, so there is no ORDER BY: sort what you read from it",
    "SORT": "a stream has no end, so there is no SORT BY: sort what you read from it",
    **dict.fromkeys(
        ("LIMIT", "OFFSET", "FETCH"),
        "a stream has no order and no end, so there is no first so many rows: filter with WHERE",
    ),
    "QUALIFY": "functions over ranks are not supported: group by a window instead",
    "WINDOW": "named windows are not supported: write FROM TUMBLE(…) and GROUP BY window_start",
    **dict.fromkeys(
        ("INTERSECT", "EXCEPT", "MINUS"),
        "sets of rows are compared over a whole stream, which has no end: write WHERE, or UNION "
        "ALL and GROUP BY of a window",
    ),
    "LATERAL": "LATERAL is not supported: a row gives one row",
    "TABLESAMPLE": "a sample differs each time it is drawn: write WHERE with a condition, such as "
    "hash(id) % 100 = 0",
    **dict.fromkeys(("PIVOT", "UNPIVOT"), "PIVOT is not supported: write a column for each value"),
    **dict.fromkeys(
        ("CLUSTER", "DISTRIBUTE"), "how rows are divided among tasks is not part of a query"
    ),
    "EMIT": "when results are given is no part of a query: declare a `bound` for the stream",
}
"""What SQL has and a query here has not, with what to write instead."""

INSTEAD: Mapping[str, str] = {
    "SELECT": "a query needs a name: write CREATE STREAM name AS SELECT …",
    "WITH": "a query needs a name: write CREATE STREAM name AS WITH …",
    "INSERT": "rows come from sources: write CREATE STREAM name AS SELECT …, or UNION ALL",
    "CREATE TABLE": "there are no tables: write CREATE SOURCE name (…) WITH (time = 'column') for "
    "what is read, CREATE STREAM name AS SELECT … for what is computed",
    "SET": "there are no settings: write CREATE NETWORK name WITH (bucket = '1m')",
    "CREATE": "write CREATE SOURCE, CREATE VIEW, CREATE STREAM or CREATE NETWORK",
}

_BEFORE_A_VALUE = frozenset(
    (
        "AND",
        "OR",
        "NOT",
        "AS",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "BETWEEN",
        "LIKE",
        "ILIKE",
        "RLIKE",
        "IN",
        "IS",
        "DIV",
        "DISTINCT",
    )
)


def statements_of(text: SqlText) -> tuple[Statement, ...]:
    """The statements of a file; raises Refused with line and column."""
    parser = _Parser(text)
    found: list[Statement] = []
    while parser.token is not None:
        if parser.took(";"):
            continue
        found.append(parser.statement())
        if parser.token is not None and not parser.took(";"):
            raise parser.expected("a `;`")
    return tuple(found)


class _Parser:
    def __init__(self, text: SqlText) -> None:
        self.text, self.tokens, self.index = text, text.tokens, 0

    @property
    def token(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def upper(self, ahead: int = 0) -> str:
        index = self.index + ahead
        return self.tokens[index].upper if index < len(self.tokens) else ""

    def took(self, *words: str) -> bool:
        """Whether these words come next; they are passed then."""
        if any(self.upper(ahead) != word for ahead, word in enumerate(words)):
            return False
        self.index += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.took(*words):
            raise self.expected(" ".join(words))

    def expected(self, expected: str) -> Refused:
        """The error for the next token, with its own sentence where it has one."""
        token = self.token
        if token is None:
            end = len(self.text.text.rstrip())
            return self.text.refused(end, f"the file ends where {expected} follows")
        if token.upper == "UNION":
            return self.text.refused(
                token, "write UNION ALL: a stream has no end, so what it holds twice is not known"
            )
        if token.upper in NOT_HERE:
            return self.text.refused(token, NOT_HERE[token.upper])
        return self.text.refused(token, f"`{token.text}` is not expected here: write {expected}")

    def name(self, of: str) -> Token:
        token = self.token
        if token is None or token.kind not in ("word", "quoted"):
            raise self.expected(f"the name of {of}")
        if not fullmatch(NAME_PATTERN, token.name):
            raise self.text.refused(
                token,
                f"{token.text} is not a name: begin with a letter, continue with letters, "
                "digits and '_', 63 characters at most",
            )
        self.index += 1
        return token

    def inside(self, what: str) -> Tokens:
        """What stands in the brackets that come next."""
        opening = self.index
        self.expect("(")
        end = end_of_brackets(self.tokens, opening)
        if end is None:
            raise self.text.refused(self.tokens[opening], f"the bracket of {what} is not closed")
        self.index = end + 1
        return self.tokens[opening + 1 : end]

    def until(self, *words: str) -> Tokens:
        """The tokens before one of these words, a `;` or the end, brackets passed as a whole."""
        begin = self.index
        while self.token is not None and self.upper() not in (*words, ";", ")"):
            is_behind_value = self.index > begin and _ends_a_value(self.tokens[self.index - 1])
            if self.upper() in NOT_HERE and is_behind_value:
                break
            if self.upper() == "(":
                self.inside("this part")
            else:
                self.index += 1
        return self.tokens[begin : self.index]

    def statement(self) -> Statement:
        token = self.token
        assert token is not None
        if not self.took("CREATE"):
            near = INSTEAD.get(token.upper)
            raise self.text.refused(
                token, near or f"`{token.text}` begins no statement: {INSTEAD['CREATE']}"
            )
        kind = self.upper()
        if self.took("NETWORK"):
            name = self.name("the network")
            return CreateNetwork(name=name, options=self.options(kind))
        if self.took("SOURCE"):
            name = self.name("the source")
            columns = self.columns(self.inside("the columns"))
            return CreateSource(name=name, columns=columns, options=self.options(kind))
        if self.took("STREAM") or self.took("VIEW"):
            name = self.name("the stream" if kind == "STREAM" else "the view")
            options = self.options(kind)
            self.expect("AS")
            query = self.query()
            return CreateStream(name=name, is_output=kind == "STREAM", options=options, query=query)
        at = self.token or token
        near = did_you_mean(kind, tuple(OPTIONS)) if kind else ""
        known = INSTEAD.get(f"CREATE {kind}", INSTEAD["CREATE"])
        raise self.text.refused(at, f"CREATE {at.text} is no statement: {near}" if near else known)

    def columns(self, tokens: Tokens) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for part in divided(tokens):
            if len(part) < 2 or part[0].kind not in ("word", "quoted"):
                at = part[0] if part else self.tokens[self.index - 1]
                raise self.text.refused(
                    at, "write each column as name and type, such as host STRING"
                )
            if part[0].name in found:
                raise self.text.refused(
                    part[0], f"column {part[0].name} is declared twice: remove one"
                )
            found[part[0].name] = "".join(token.text.lower() for token in part[1:])
        return found

    def options(self, kind: str) -> Mapping[str, str]:
        """What stands behind WITH; none if there is no WITH."""
        if not self.took("WITH"):
            return {}
        known, found = OPTIONS[kind], dict[str, str]()
        for part in divided(self.inside("WITH")):
            is_option = len(part) == 3 and part[1].upper == "=" and part[2].kind == "string"
            if not is_option:
                at = part[0] if part else self.tokens[self.index - 1]
                raise self.text.refused(
                    at, f"write options as name = 'value', such as {known[0]} = '…'"
                )
            name = part[0].text.strip("`'\"").lower()
            if name not in known:
                near = did_you_mean(name, known, f"there are {', '.join(known)}")
                raise self.text.refused(part[0], f"{kind} has no option {name}: {near}")
            found[name] = part[2].text[1:-1]
        return found

    def query(self) -> Query:
        local: dict[str, Query] = {}
        at = self.token
        if at is None:
            raise self.expected("SELECT")
        if self.took("WITH"):
            while True:
                name = self.name("the query")
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
        return self.query_in_brackets("the query") if self.upper() == "(" else self.select()

    def select(self) -> Select:
        at = self.token
        self.expect("SELECT")
        assert at is not None
        if self.upper() in ("DISTINCT", "ALL"):
            raise self.text.refused(
                at,
                "SELECT DISTINCT compares a row with all before it, which are ever more: group "
                "by a window and the columns",
            )
        items = tuple(self.item(part) for part in divided(self.until(*CLAUSES)))
        self.expect("FROM")
        table = self.table()
        if self.upper() == ",":
            assert self.token is not None
            raise self.text.refused(self.token, "several tables are joined: " + NOT_HERE["JOIN"])
        where = self.until(*CLAUSES) if self.took("WHERE") else None
        group_by = having = None
        if self.took("GROUP", "BY"):
            group_by = tuple(divided(self.until(*CLAUSES)))
        if self.took("HAVING"):
            having = self.until(*CLAUSES)
        for clause, tokens in (("WHERE", where), ("HAVING", having)):
            if tokens is not None and not tokens:
                raise self.text.refused(at, f"{clause} of this SELECT has no condition: write one")
        for tokens in (*(item.tokens for item in items), *(group_by or ()), where, having):
            self.check_no_query(tokens or ())
        return Select(
            at=at, items=items, table=table, where=where, group_by=group_by, having=having
        )

    def check_no_query(self, tokens: Tokens) -> None:
        """Refuse a query inside an expression: its value would be that of a whole stream."""
        for opening, word in pairwise(tokens):
            if opening.upper == "(" and word.upper in ("SELECT", "WITH", "VALUES"):
                raise self.text.refused(
                    word,
                    "a query in an expression would read a whole stream, which "
                    "has no end: write it behind FROM",
                )

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
        raise self.text.refused(
            tokens[0], f"`{written(tokens)}` has no name: write AS and a name behind it"
        )

    def table(self) -> Table:
        if self.upper() == "(":
            query = self.query_in_brackets("the subquery")
            return Subquery(query=query, alias=self.alias())
        if self.took("TABLE"):
            begin = self.index
            self.inside("TABLE")
            end, self.index = self.index, begin + 1
            table = self.window(has_alias=False)
            if self.index != end - 1:
                raise self.expected("`)`")
            self.index = end
            return Window(
                at=table.at,
                table=table.table,
                time=table.time,
                size=table.size,
                advance=table.advance,
                alias=self.alias(),
            )
        if self.upper(1) == "(":
            return self.window(has_alias=True)
        name = self.name("a source, view or stream")
        return NamedTable(name=name, alias=self.alias() or name.name)

    def alias(self) -> str | None:
        if self.took("AS"):
            return self.name("the table").name
        is_name = self.token is not None and self.token.kind in ("word", "quoted")
        if is_name and self.upper() not in (*CLAUSES, *NOT_HERE, *NO_ALIAS):
            return self.name("the table").name
        return None

    def window(self, *, has_alias: bool) -> Window:
        at = self.token
        assert at is not None
        kind = at.upper
        if kind not in ("TUMBLE", "HOP"):
            hint = did_you_mean(kind, ("TUMBLE", "HOP"), "windows are TUMBLE and HOP")
            reason = f"{at.text} is no window: {hint}"
            if kind in ("SESSION", "CUMULATE"):
                reason = f"windows of kind {kind} are not supported: windows are TUMBLE and HOP"
            raise self.text.refused(at, reason)
        self.index += 1
        begin = self.index
        parts = divided(self.inside(kind))
        end, self.index = self.index, begin + 1
        if any(len(part) > 1 and part[1].text == "=>" for part in parts):
            raise self.text.refused(at, f"write the arguments of {kind} without names, in order")
        self.took("TABLE")
        table: NamedTable | Subquery
        if self.upper() == "(":
            table = Subquery(query=self.query_in_brackets("the subquery"), alias=None)
        else:
            name = self.name("a source, view or stream")
            table = NamedTable(name=name, alias=name.name)
        if self.upper() not in (",", ")"):
            raise self.expected("`,`")
        self.index = end
        rest = parts[1:]
        has_time = bool(rest and rest[0] and rest[0][0].upper == "DESCRIPTOR")
        time = self.descriptor(rest.pop(0)) if has_time else None
        durations = [self.duration(part, at) for part in rest]
        if len(durations) != (1 if kind == "TUMBLE" else 2):
            needs, form = "its size", "INTERVAL '1' MINUTE"
            if kind == "HOP":
                needs, form = "its slide and its size", f"INTERVAL '10' SECOND, {form}"
            raise self.text.refused(
                at, f"{kind} needs {needs}: write {kind}(TABLE {table_of(table)}, {form})"
            )
        return Window(
            at=at,
            table=table,
            time=time,
            size=durations[-1],
            advance=durations[0] if kind == "HOP" else None,
            alias=self.alias() if has_alias else None,
        )

    def descriptor(self, tokens: Tokens) -> Token:
        is_one = len(tokens) == 4 and tokens[1].text == "(" and tokens[3].text == ")"
        if not is_one or tokens[2].kind not in ("word", "quoted"):
            raise self.text.refused(
                tokens[0], "write DESCRIPTOR(column) with one column of event time"
            )
        return tokens[2]

    def duration(self, tokens: Tokens, at: Token) -> str:
        """A duration as a network file has it, `90s`, of an INTERVAL or a text."""
        if not tokens:
            raise self.text.refused(at, "an argument is empty: remove a comma")
        if len(tokens) == 1 and tokens[0].kind == "string":
            return tokens[0].text[1:-1]
        if tokens[0].upper == "INTERVAL":
            words = " ".join(token.text.strip("'\"") for token in tokens[1:]).upper().split()
            if len(words) == 2 and words[0].isdecimal():
                unit = words[1][:-1] if words[1].endswith("S") else words[1]
                if unit == "WEEK":
                    return f"{7 * int(words[0])}d"
                if unit in UNITS:
                    return f"{words[0]}{UNITS[unit]}"
                if unit in ("MONTH", "QUARTER", "YEAR"):
                    raise self.text.refused(
                        tokens[-1],
                        f"a {unit.lower()} is not always of the same "
                        "length, and windows by the calendar are not supported: write "
                        "days",
                    )
        raise self.text.refused(
            tokens[0],
            f"`{written(tokens)}` is no duration: write INTERVAL '1' MINUTE, with "
            "SECOND, MINUTE, HOUR or DAY",
        )


def _ends_a_value(token: Token) -> bool:
    """Whether a value may end with it: behind one, LIMIT is a clause, elsewhere a column."""
    if token.kind == "word":
        return token.upper not in _BEFORE_A_VALUE
    return token.kind in ("string", "quoted", "number") or token.upper == ")"


def _is_column(tokens: Sequence[Token]) -> bool:
    """Whether it is a column, with or without the name of its table."""
    is_named = all(token.kind in ("word", "quoted") for token in tokens[::2])
    return is_named and (len(tokens) == 1 or (len(tokens) == 3 and tokens[1].text == "."))
