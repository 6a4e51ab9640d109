"""Mutants of SQL: guards, locks, constraints, triggers, rights, conditions and constants.

Of all files that a new home is made of, and of the queries. Statements are found by their text, so
it does not matter in which file one is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutation.mutants import Edit, Mutant, named
from tests.mutation.sql_text import (
    Condition,
    Token,
    body_of,
    conditions_of,
    statements_of,
    tokens_of,
)

ROOM = "sql"
GRANTS, MIGRATIONS, QUERIES = "grants", "migrations", "queries"
_OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "<>": "=", "!=": "=", "=": "<>"}
_TWINS = {"LEAST": "greatest", "GREATEST": "least", "MIN": "max", "MAX": "min"}
_NAME = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:UNIQUE\s+|CONSTRAINT\s+)?"
    r"(FUNCTION|TABLE|VIEW|TRIGGER|INDEX)\s+([\w.]+)",
    re.IGNORECASE,
)
_ON = re.compile(r"\bON\s+([\w.]+)", re.IGNORECASE)
DIGITS_MAX = 18
"""A longer number stands for an end of what is possible."""

_LOCK = ("UPDATE", "SHARE", "NO", "KEY")
_COLUMN_RULES = ("CHECK", "UNIQUE", "REFERENCES")


def sql_files(root: Path) -> list[Path]:
    """What a new home is made of, and the queries; a migration changes homes that are there."""
    sql = root / "sql"
    return [path for path in sorted(sql.rglob("*.sql"))
            if path.relative_to(sql).parts[0] != MIGRATIONS]  # fmt: skip


def sql_mutants(root: Path) -> list[Mutant]:
    """All mutants of these files."""
    return [
        mutant
        for path in sql_files(root)
        for mutant in mutants_of(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    ]


def mutants_of(source: str, path: str) -> list[Mutant]:
    """All mutants of one file."""
    return list(named(_Finder(source, path).found()))


class _Finder:
    def __init__(self, source: str, path: str) -> None:
        self._source, self._path = source, path
        self._statements = list(statements_of(tokens_of(source)))
        self._lines = [0, *(found.end() for found in re.finditer("\n", source))]

    def found(self) -> Iterator[Mutant]:
        for statement in self._statements:
            first, last = statement[0].start, statement[-1].end
            text = self._source[first:last]
            name = _NAME.match(text)
            words = [token.word for token in statement[:4]]
            if name is None:
                if Path(self._path).parts[1] == QUERIES:
                    yield from self._expressions(Path(self._path).stem, statement)
                elif words[0] in ("GRANT", "REVOKE"):
                    yield self._mutant(self._right(text), "right", first, last, "")
                continue
            kind, where = name[1].upper(), name[2]
            if kind == "TRIGGER":
                table = _ON.search(text)
                assert table is not None
                where = f"{table[1]}.{where}"
                gone = self._comments("TRIGGER", name[2], table[1])
                yield self._mutant(where, "trigger", first, last, "", gone)
            elif kind == "INDEX" and "UNIQUE" in words:
                at = next(token for token in statement if token.word == "UNIQUE")
                yield self._mutant(where, "unique", at.start, at.end, "")
            elif kind == "TABLE":
                yield from self._table(where, statement)
            elif kind == "VIEW":
                yield from self._expressions(where, statement)
            elif kind == "FUNCTION":
                yield from self._settings(where, statement)
                body = body_of(statement, self._source)
                yield from self._calls(where, body)
                yield from self._expressions(where, body)

    def _right(self, text: str) -> str:
        """A short name of a statement of rights; a file of `grants/` is about one role."""
        words = " ".join(text.split())[:60]
        path = Path(self._path)
        return f"{path.stem}: {words}" if path.parts[1] == GRANTS else words

    # ------------------------------------------------------------ tables

    def _table(self, where: str, statement: Sequence[Token]) -> Iterator[Mutant]:
        inside = [token for token in statement if token.depth > 0]
        items: list[list[Token]] = [[]]
        for token in inside:
            if token.text == "," and token.depth == 1:
                items.append([])
            else:
                items[-1].append(token)
        for at, item in enumerate(items):
            word = item[0].word
            if word in ("CONSTRAINT", "CHECK", "UNIQUE", "EXCLUDE", "FOREIGN") and at:
                start, end = items[at - 1][-1].end, item[-1].end
                gone = self._comments("CONSTRAINT", item[1].text, where)
                yield self._mutant(where, "constraint", start, end, "", gone)
            elif word != "PRIMARY":
                yield from self._column(where, item)
            if word in ("CHECK", "CONSTRAINT", "EXCLUDE") or any(t.word == "CHECK" for t in item):
                yield from self._expressions(where, item, in_table=True)

    def _column(self, where: str, item: Sequence[Token]) -> Iterator[Mutant]:
        for at, token in enumerate(item):
            if token.depth != 1:
                continue
            if token.word == "NOT" and item[at + 1].word == "NULL":
                yield self._mutant(where, "not null", token.start, item[at + 1].end, "")
            if token.word in _COLUMN_RULES:
                end = at + 1
                while end < len(item) and (
                    item[end].depth > 1
                    or item[end].text in ("(", ")")
                    or (token.word == "REFERENCES" and item[end].word not in ("CHECK", "DEFAULT",
                                                                              "NOT", "UNIQUE"))
                ):  # fmt: skip
                    end += 1
                yield self._mutant(where, "constraint", token.start, item[end - 1].end, "")

    def _comments(self, kind: str, name: str, table: str) -> tuple[Edit, ...]:
        """What is said of an object goes with it."""
        gone = []
        for statement in self._statements:
            words = [token.text for token in statement[:6]]
            if words[:3] == ["COMMENT", "ON", kind] and words[3] == name and words[5] == table:
                gone.append(Edit(statement[0].start, statement[-1].end, ""))
        return tuple(gone)

    # ------------------------------------------------------------ functions

    def _settings(self, where: str, statement: Sequence[Token]) -> Iterator[Mutant]:
        """What a function is called with: its search path, how long it waits for a lock."""
        head = [token for token in statement if token.depth == 0]
        for at, token in enumerate(head):
            if token.kind == "body":
                return
            if token.word == "SET" and head[at + 2].text == "=":
                end = at + 4
                while head[end].text == ",":
                    end += 2
                yield self._mutant(where, "setting", token.start, head[end - 1].end, "")

    def _calls(self, where: str, body: Sequence[Token]) -> Iterator[Mutant]:
        for statement in _plain_statements(body):
            word = statement[0].word
            if word in ("PERFORM", "EXECUTE"):
                kind = "call" if word == "PERFORM" else "right"
                yield self._mutant(where, kind, statement[0].start, statement[-1].start, "NULL")
        for at, token in enumerate(body[:-1]):
            if token.word == "FOR" and body[at + 1].word in _LOCK:
                end = at + 1
                while body[end].word in (*_LOCK, "OF", "SKIP", "LOCKED", "NOWAIT") or (
                    body[end - 1].word == "OF"
                ):
                    end += 1
                yield self._mutant(where, "lock", token.start, body[end - 1].end, "")

    # ------------------------------------------------------------ expressions

    def _expressions(
        self, where: str, tokens: Sequence[Token], in_table: bool = False
    ) -> Iterator[Mutant]:
        compared: dict[int, Token] = {}
        for condition in conditions_of(tokens):
            yield from self._condition(where, tokens, condition)
            depth = condition.tokens[0].depth
            compared |= {t.start: t for t in condition.tokens
                         if t.text == "=" and t.depth == depth}  # fmt: skip
        for at, token in enumerate(tokens):
            if token.text in _OTHER and (token.text != "=" or token.start in compared):
                yield self._mutant(where, "comparison", token.start, token.end, _OTHER[token.text])
            following = tokens[at + 1] if at + 1 < len(tokens) else None
            if following is not None and following.text == "(" and token.word in _TWINS:
                yield self._mutant(where, "twin", token.start, token.end, _TWINS[token.word])
            if token.text.isdigit() and len(token.text) < DIGITS_MAX and not in_table:
                texts = [str(int(token.text) + 1), f"({int(token.text) - 1})"]
                for text in texts[1:] if _takes_first_row(tokens, at) else texts:
                    yield self._mutant(where, "constant", token.start, token.end, text)
            yield from self._is(where, tokens, at)

    def _is(self, where: str, tokens: Sequence[Token], at: int) -> Iterator[Mutant]:
        token = tokens[at]
        words = [t.word for t in tokens[at : at + 3]]
        if words[:2] == ["IS", "NOT"]:
            yield self._mutant(where, "not", tokens[at + 1].start, tokens[at + 1].end, "")
        elif words[0] == "IS" and words[1:2] in (["NULL"], ["DISTINCT"], ["TRUE"]):
            yield self._mutant(where, "not", token.start, token.end, "IS NOT")
        elif words[:2] == ["NOT", "EXISTS"] or words[:2] == ["NOT", "IN"]:
            yield self._mutant(where, "not", token.start, token.end, "")
        elif words[0] == "EXISTS" and (not at or tokens[at - 1].word not in ("NOT", "IF")):
            yield self._mutant(where, "not", token.start, token.end, "NOT EXISTS")
        elif words[:2] == ["IF", "NOT"] and words[2:] not in (["EXISTS"], ["FOUND"]):
            yield self._mutant(where, "not", tokens[at + 1].start, tokens[at + 1].end, "")

    def _condition(
        self, where: str, tokens: Sequence[Token], condition: Condition
    ) -> Iterator[Mutant]:
        start, end = condition.span
        if condition.after in ("IF", "ELSIF"):
            then = next((t for t in tokens if t.start >= end and t.word != "THEN"), None)
            is_guard = then is not None and then.word in ("RAISE", "RETURN")
            yield self._mutant(where, "guard" if is_guard else "condition", start, end, "false")
            yield self._mutant(where, "condition", start, end, "true")
        ors = condition.split("OR")
        for part in ors:
            if len(ors) > 1:
                yield self._mutant(where, "dropped", *part.span, "false")
            ands = part.split("AND")
            for one in ands:
                if len(ands) > 1 or (len(ors) == 1 and condition.after in ("WHERE", "ON", "WHEN")):
                    yield self._mutant(where, "dropped", *one.span, "true")

    def _mutant(
        self, where: str, kind: str, start: int, end: int, text: str, more: tuple[Edit, ...] = ()
    ) -> Mutant:
        begin = self._source.rfind("\n", 0, start) + 1
        stop = self._source.find("\n", end)
        stop = len(self._source) if stop < 0 else stop
        return Mutant(
            room=ROOM,
            path=self._path,
            where=where,
            kind=kind,
            line=bisect_right(self._lines, start),
            before=self._source[begin:stop],
            after=self._source[begin:start] + text + self._source[end:stop],
            edits=(Edit(start, end, text), *more),
        )


def _takes_first_row(tokens: Sequence[Token], at: int) -> bool:
    """Whether a number is the LIMIT 1 of a SELECT INTO, which takes the first row of any number."""
    if tokens[at].text != "1" or at == 0 or tokens[at - 1].word != "LIMIT":
        return False
    for token in reversed(tokens[:at]):
        if token.text == ";" or token.depth < tokens[at].depth:
            return False
        if token.word == "INTO" and token.depth == tokens[at].depth:
            return True
    return False


def _plain_statements(body: Sequence[Token]) -> Iterator[list[Token]]:
    """The statements of a plpgsql body, without what leads to them."""
    leads = ("BEGIN", "THEN", "ELSE", "LOOP")
    statement: list[Token] = []
    for token in body:
        if token.word in leads and token.depth == 0:
            statement = []
            continue
        statement.append(token)
        if token.text == ";" and token.depth == 0:
            yield statement
            statement = []
