"""From the tokens of a SQL file to its statements.

Clauses are divided here and in `query_parser`; what an expression may hold is checked as that of a
network in Python is.
"""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.suggest import did_you_mean
from pipelines.language.sql.query_parser import QueryParser
from pipelines.language.sql.source_columns import source_columns
from pipelines.language.sql.sql_text import BRACKETS, SqlText, Token, divided
from pipelines.language.sql.statements import (
    CreateNetwork,
    CreateSource,
    CreateStream,
    Statement,
)

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "NETWORK": ("bucket",),
    "SOURCE": ("time", "time_unit", "time_zone", "disorder", "late", "late_every", "key", "stream"),
    "STREAM": ("fragment",),
    "VIEW": ("fragment",),
}
"""What may stand behind WITH, by kind of statement."""

OF_CONNECTORS = ("connector", "kafka_topic", "topic", "value_format", "key_format", "format")
"""What other systems have there for where records are."""

_ANOTHER_ROOM = "a file has sources and queries alone: "

INSTEAD: Mapping[str, str] = {
    "SELECT": "a query needs a name: write CREATE STREAM name AS SELECT …",
    "WITH": "a query needs a name: write CREATE STREAM name AS WITH …",
    **dict.fromkeys(
        ("INSERT", "EXECUTE", "BEGIN"),
        "rows come from sources: write CREATE STREAM name AS SELECT …, or UNION ALL",
    ),
    "SET": "there are no settings: write CREATE NETWORK name WITH (bucket = '1m')",
    **dict.fromkeys(
        ("DROP", "ALTER"), "a file declares a network as a whole: change what it declares"
    ),
    **dict.fromkeys(
        ("UPDATE", "DELETE", "MERGE"),
        "records do not change by a query: run `medusa revise` with the records to add or remove",
    ),
    **dict.fromkeys(
        ("EXPLAIN", "DESCRIBE", "SHOW", "DESC"),
        f"{_ANOTHER_ROOM}run `medusa explain FILE` for its boxes and columns",
    ),
    **dict.fromkeys(
        ("SUBSCRIBE", "TAIL", "PRINT"), f"{_ANOTHER_ROOM}read a stream with `medusa changes`"
    ),
    "CREATE TABLE": "there are no tables: write CREATE SOURCE name (…) WITH (time = 'column') for "
    "what is read, CREATE STREAM name AS SELECT … for what is computed",
    "CREATE TABLE AS": "what a query gives is a stream: write CREATE STREAM name AS SELECT …",
    "CREATE MATERIALIZED": "each stream is stored: write CREATE STREAM name AS SELECT …",
    **dict.fromkeys(
        ("CREATE TEMPORARY", "CREATE TEMP"),
        "write CREATE VIEW name AS SELECT … for rows that are no output",
    ),
    "CREATE OR": "a file declares a network as a whole: remove OR REPLACE",
    "CREATE SINK": f"{_ANOTHER_ROOM}declare a sink in the contract of the stream",
    "CREATE CONNECTION": f"{_ANOTHER_ROOM}declare in a contract where the records of a source are",
    **dict.fromkeys(
        ("CREATE FUNCTION", "CREATE AGGREGATE"),
        "a SQL file runs no code: write the network in a file of Python",
    ),
    "CREATE TYPE": "a column has one value: declare a column for each part of it",
    "CREATE": "write CREATE SOURCE, CREATE VIEW, CREATE STREAM or CREATE NETWORK",
}


def statements_of(text: SqlText) -> tuple[Statement, ...]:
    """The statements of a file; raises Refused with line and column."""
    parser = StatementParser(text)
    found: list[Statement] = []
    while parser.token is not None:
        if parser.took(";"):
            continue
        found.append(parser.statement())
        if parser.token is not None and not parser.took(";"):
            raise parser.expected("a `;`")
    return tuple(found)


class StatementParser(QueryParser):
    """Reads statements one after the other."""

    def statement(self) -> Statement:
        token = self.token
        assert token is not None
        if not self.took("CREATE"):
            near = INSTEAD.get(token.upper)
            raise self.text.refused(
                token, near or f"`{token.text}` begins no statement: {INSTEAD['CREATE']}"
            )
        kind = self.upper()
        self.check_no_condition()
        if self.took("NETWORK"):
            name = self.name("the network")
            return CreateNetwork(name=name, options=self.options(kind))
        if self.took("SOURCE"):
            name = self.name("the source")
            self.check_columns(name, kind)
            given = self.inside("the columns")
            columns = source_columns(self.text, given, self.tokens[self.index - 1])
            return CreateSource(name=name, columns=columns, options=self.options(kind))
        if self.took("STREAM") or self.took("VIEW"):
            name = self.name("the stream" if kind == "STREAM" else "the view")
            self.check_columns(name, kind)
            options = self.options(kind)
            self.expect("AS")
            query = self.query()
            return CreateStream(name=name, is_output=kind == "STREAM", options=options, query=query)
        at = self.token or token
        if kind in ("TEMPORARY", "TEMP") and self.upper(1) == "TABLE" and not self.has_query():
            kind = "TABLE"
        is_query = kind == "TABLE" and self.has_query()
        known = INSTEAD.get(f"CREATE {kind} AS" if is_query else f"CREATE {kind}")
        if known is not None:
            raise self.text.refused(at, known)
        near = did_you_mean(kind, tuple(OPTIONS)) if kind else ""
        known = f"CREATE {at.text} is no statement: {near}" if near else INSTEAD["CREATE"]
        raise self.text.refused(at, known)

    def has_query(self) -> bool:
        """Whether AS is in no brackets before the end of the statement."""
        depth = 0
        for token in self.tokens[self.index :]:
            depth += (token.upper in BRACKETS[0]) - (token.upper in BRACKETS[1])
            if depth == 0 and token.upper in ("AS", ";"):
                return token.upper == "AS"
        return False

    def check_no_condition(self) -> None:
        """Refuse IF NOT EXISTS: what a file declares does not depend on what exists."""
        if (self.upper(1), self.upper(2)) == ("IF", "NOT"):
            raise self.text.refused(
                self.tokens[self.index + 1],
                "a file declares a network as a whole: remove IF NOT EXISTS",
            )

    def check_columns(self, name: Token, kind: str) -> None:
        """Refuse columns where a query has them, and a source that has none."""
        at = self.token
        if at is None:
            return
        if kind == "SOURCE" and name.upper in ("STREAM", "TABLE") and at.kind == "word":
            raise self.text.refused(name, f"each source is a stream: remove {name.text}")
        if kind == "SOURCE" and at.text != "(":
            raise self.text.refused(
                at,
                f"a source has columns: write CREATE SOURCE {name.text} (…) WITH (time = "
                "'column'), with name and type of each in the brackets",
            )
        if kind != "SOURCE" and at.text == "(":
            has_types = self.upper(2) not in (",", ")")
            raise self.text.refused(
                at,
                f"what is read is a source: write CREATE SOURCE {name.text} (…)"
                if has_types
                else "columns have their names in the query: write AS in SELECT",
            )

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
            if name in OF_CONNECTORS:
                raise self.text.refused(
                    part[0], "where the records of a source are is declared in a contract: remove "
                    f"{name}"
                )  # fmt: skip
            if name not in known:
                near = did_you_mean(name, known, f"there are {', '.join(known)}")
                raise self.text.refused(part[0], f"{kind} has no option {name}: {near}")
            if name in found:
                raise self.text.refused(part[0], f"option {name} is given twice: remove one")
            found[name] = part[2].text[1:-1]
        return found
