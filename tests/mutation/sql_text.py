"""SQL as tokens, statements and conditions: as much of its grammar as mutants need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^']|'')*'|"[^"]*")
    |(?P<body>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<word>[A-Za-z_][\w.]*)
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<sign><=|>=|<>|!=|:=|::|\|\||->>|->|&&|<@|@>|!~|[<>=]|.)""",
    re.VERBOSE | re.DOTALL,
)
_ENDS = frozenset(
    {
        "THEN",
        "GROUP",
        "ORDER",
        "LIMIT",
        "RETURNING",
        "UNION",
        "WHERE",
        "JOIN",
        "LEFT",
        "CROSS",
        "INNER",
        "LOOP",
        "WINDOW",
        "HAVING",
        "DO",
        "EXCEPT",
        "INTERSECT",
        "WHEN",
        "ELSE",
        "END",
        "USING",
        "FOR",
        "ON",
    }
)
_BEGINS = frozenset({"WHERE", "ON", "IF", "ELSIF", "WHEN", "HAVING", "CHECK"})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a file; words are compared in capitals."""

    kind: str
    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text


def tokens_of(source: str, start: int = 0, end: int | None = None) -> list[Token]:
    """The tokens of a part of a file; one in parentheses, or between CASE and END, is deeper."""
    tokens: list[Token] = []
    open_: list[str] = []
    end = len(source) if end is None else end
    while start < end:
        found = _TOKEN.match(source, start, end)
        assert found is not None
        kind, text = str(found.lastgroup if found.lastgroup != "tag" else "body"), found.group()
        if kind != "space":
            is_case = kind == "word" and text.upper() == "CASE"
            closes = text == ")" or (text.upper() == "END" and open_[-1:] == ["CASE"])
            if closes and open_:
                open_.pop()
            tokens.append(Token(kind, text, start, len(open_)))
            if text == "(" or is_case:
                open_.append("(" if text == "(" else "CASE")
        start = found.end()
    return tokens


def statements_of(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Tokens up to each semicolon outside of parentheses."""
    statement: list[Token] = []
    for token in tokens:
        statement.append(token)
        if token.text == ";" and token.depth == 0:
            yield statement
            statement = []
    if statement:
        yield statement


def body_of(statement: Sequence[Token], source: str) -> list[Token]:
    """The tokens of a function's body; none if there is no body."""
    for token in statement:
        if token.kind == "body":
            tag = token.text.index("$", 1) + 1
            return tokens_of(source, token.start + tag, token.end - tag)
    return []


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that is true or not, and the word that it follows: `(` within parentheses."""

    after: str
    tokens: tuple[Token, ...]

    @property
    def span(self) -> tuple[int, int]:
        return self.tokens[0].start, self.tokens[-1].end

    def split(self, word: str) -> list[Condition]:
        """What AND or OR connects at the top; one alone if nothing is connected."""
        depth = self.tokens[0].depth
        parts: list[list[Token]] = [[]]
        between = False
        for token in self.tokens:
            at_top = token.depth == depth
            if at_top and word == "AND" and token.word == "AND" and between:
                between = False
            elif at_top and token.word == word:
                parts.append([])
                continue
            between = between or (at_top and token.word == "BETWEEN")
            parts[-1].append(token)
        return [Condition(word, tuple(part)) for part in parts if part]


def conditions_of(tokens: Sequence[Token]) -> Iterator[Condition]:
    """Every condition, those within others too."""
    for at, token in enumerate(tokens):
        before = tokens[at - 1].word if at else ""
        if token.text == "(":
            inside = _up_to(tokens, at + 1, token.depth + 1, frozenset())
            is_select = bool(inside) and inside[0].word in ("SELECT", "WITH", "VALUES")
            connected = any(
                t.depth == token.depth + 1 and t.word in ("AND", "OR") for t in inside
            ) and not any(t.word == "BETWEEN" for t in inside)
            if inside and not is_select and connected and before not in _BEGINS - {"CHECK"}:
                yield Condition("(", tuple(inside))
        if token.word not in _BEGINS or (token.word == "IF" and before == "END"):
            continue
        if token.word == "ON" and (before == "DISTINCT" or tokens[at + 1].word == "CONFLICT"):
            continue
        inside = _up_to(tokens, at + 1, token.depth, _ENDS)
        if token.word == "CHECK":
            inside = _up_to(tokens, at + 2, token.depth + 1, frozenset())
        if inside:
            yield Condition(token.word, tuple(inside))


def _up_to(tokens: Sequence[Token], at: int, depth: int, ends: frozenset[str]) -> list[Token]:
    """The tokens from a place to the end of its expression."""
    found = []
    for token in tokens[at:]:
        if token.depth < depth or (
            token.depth == depth and (token.text == ";" or token.word in ends)
        ):
            break
        found.append(token)
    return found
