"""From the tokens of a SQL file to its statements.

Clauses are divided here and in `query_parser`; what an expression may hold is checked as that of a
network in Python is.
"""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.suggest import did_you_mean
from pipelines.language.sql.query_parser import QueryParser
from pipelines.language.sql.sql_text import SqlText, Tokens, divided
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

INSTEAD: Mapping[str, str] = {
    "SELECT": "a query needs a name: write CREATE STREAM name AS SELECT …",
    "WITH": "a query needs a name: write CREATE STREAM name AS WITH …",
    "INSERT": "rows come from sources: write CREATE STREAM name AS SELECT …, or UNION ALL",
    "CREATE TABLE": "there are no tables: write CREATE SOURCE name (…) WITH (time = 'column') for "
    "what is read, CREATE STREAM name AS SELECT … for what is computed",
    "SET": "there are no settings: write CREATE NETWORK name WITH (bucket = '1m')",
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
            if name in found:
                raise self.text.refused(part[0], f"option {name} is given twice: remove one")
            found[name] = part[2].text[1:-1]
        return found
