"""The text of a SQL file as tokens with their places, so that each error names line and column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from medusa_core.errors import Refused

_TOKEN = re.compile(
    r"""
      (?P<space>\s+ | --[^\n]* | /\*.*?\*/)
    | (?P<string>[rR]'[^']*' | [rR]"[^"]*" | '(?:\\.|''|[^'\\])*' | "(?:\\.|[^"\\])*")
    | (?P<quoted>`[^`]+`)
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[A-Za-z]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><=> | => | <> | != | <= | >= | \|\| | :: | ->)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
BRACKETS = (("(", "["), (")", "]"))
"""Those that open and those that close."""

KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "AS", "CASE", "WHEN", "THEN", "ELSE", "END", "BETWEEN", "LIKE", "ILIKE",
     "RLIKE", "IN", "IS", "DIV", "DISTINCT", "NULL", "TRUE", "FALSE", "INTERVAL", "FILTER", "WHERE",
     "FROM", "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME", "CURRENT_USER")
)  # fmt: skip
"""Words of expressions that are no names of columns outside of back quotes."""

DEPTH_MAX = 100
"""How many brackets may be open at a time."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, text, number or sign: `start` and `end` are offsets, the end exclusive.

    `upper` is a word in capitals, or the sign itself; "" for a text or a quoted name. A token of
    kind `column` is in no file: it stands for an aggregate call that was there.
    """

    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """What it is compared with."""
        return "" if self.kind in ("string", "quoted") else self.text.upper()

    @property
    def name(self) -> str:
        """A name as Medusa knows it: SQL does not distinguish cases outside of back quotes."""
        is_exact = self.kind in ("quoted", "column")
        return self.text.strip("`") if is_exact else self.text.lower()


Tokens = Sequence[Token]


@dataclass(frozen=True, slots=True)
class SqlText:
    """The text of one file; `file` is how errors name it."""

    file: str
    text: str
    tokens: tuple[Token, ...]

    @classmethod
    def of(cls, file: str, text: str) -> SqlText:
        """Divide a text into tokens; raises Refused for a text, name or comment without an end."""
        tokens = tuple(
            Token(str(found.lastgroup), found.group(), found.start(), found.end())
            for found in _TOKEN.finditer(text)
            if found.lastgroup != "space"
        )
        whole = cls(file, text, tokens)
        depth = 0
        for token, behind in pairwise([*tokens, Token("other", "", len(text), len(text))]):
            depth += (token.upper in BRACKETS[0]) - (token.upper in BRACKETS[1])
            if depth > DEPTH_MAX:
                raise whole.refused(token, "it is nested too deeply: divide it over several views")
            if token.text in ("'", '"', "`"):
                raise whole.refused(
                    token, f"a text or name begins with {token.text} and does not end"
                )
            if token.kind == "string" and token.text.endswith('"'):
                # A name in most dialects and a text in Spark's: neither is taken.
                inner = token.text.lstrip("rR").strip('"')
                raise whole.refused(
                    token, f"double quotes are ambiguous: write `{inner}` for a name, or "
                    f"'{inner}' for a text"
                )  # fmt: skip
            if (token.text, behind.text, token.end) == ("/", "*", behind.start):
                raise whole.refused(
                    token, "a comment begins here and does not end: write */ behind it"
                )
        return whole

    def place(self, at: Token | int) -> str:
        """`FILE, line 3, column 7`: columns are counted in characters, from 1."""
        offset = at if isinstance(at, int) else at.start
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return f"{self.file}, line {line}, column {column}"

    def refused(self, at: Token | int, reason: str) -> Refused:
        """The error that names the place, to be raised."""
        return Refused(f"{self.place(at)}: {reason}")


def written(tokens: Tokens) -> str:
    """Tokens as text, with a space where there was one, or several, or a comment."""
    text = ""
    for token, before in zip(tokens, [None, *tokens][: len(tokens)], strict=True):
        text += (" " if before is not None and before.end < token.start else "") + token.text
    return text


def column_token(name: str, start: int, end: int) -> Token:
    """A column that is named in the place of what the file has from `start` to `end`."""
    if name.upper() in KEYWORDS:
        return Token("quoted", f"`{name}`", start, end)
    return Token("word", name, start, end)


def is_column_name(tokens: Tokens, index: int) -> bool:
    """Whether a token can be the name of a column: no function, keyword, type or literal."""
    token = tokens[index]
    if token.kind == "quoted":
        return True
    behind = tokens[index + 1] if index + 1 < len(tokens) else None
    is_marked = behind is not None and (behind.text in ("(", ".") or behind.kind == "string")
    is_type = index > 0 and tokens[index - 1].upper == "AS"
    return token.kind == "word" and token.upper not in KEYWORDS and not is_marked and not is_type


def key_of(tokens: Tokens) -> str:
    """What two expressions that are written alike, but for cases and spaces, have in common."""
    return " ".join(t.text.lower() if t.kind == "word" else t.text for t in tokens)


def end_of_brackets(tokens: Tokens, opening: int) -> int | None:
    """The index of the bracket that closes the one at `opening`; None if none does."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].upper in BRACKETS[0]:
            depth += 1
        elif tokens[index].upper in BRACKETS[1]:
            depth -= 1
            if depth == 0:
                return index
    return None


def divided(tokens: Tokens) -> list[Tokens]:
    """Tokens between the commas that are in no brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.upper in BRACKETS[0]) - (token.upper in BRACKETS[1])
        if token.upper == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return list(parts)
