"""Edits as an owner writes them, parsed strictly into columns and texts.

    contract NAME SET column = value, ...
    UPDATE medusa_api.contract SET column = value, ... WHERE contract = 'NAME'
    column = value, ...                    (where there is one movement contract)
    contract NAME                          (as the partner proposes it, else as it is now)

Columns are those of `medusa_api.contract`. A value is a number, a 'text' (quotes doubled), NULL;
of a column that is a list '{a, b}' or ARRAY['a', 'b']. No part of it ever is a statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from medusa_core.errors import Refused
from medusa_core.names import check_name
from medusa_core.suggest import did_you_mean

EDIT_CHARS_MAX = 10_000
GRAMMAR = "write contract NAME SET price_high = 1.30, load_max = 4"

Value = str | list[str] | None
"""A text that the database reads by the column's type; a list of texts; NULL."""


class Column(Enum):
    """What a column of medusa_api.contract holds."""

    AMOUNT = "a number, such as 1.30"
    WHOLE = "a whole number"
    TEXT = "a text in quotes, such as 'EUR'"
    NAMES = "a list, such as '{main}' or ARRAY['main']"
    VALIDITY = "a time, such as '[2026-01-01,2027-01-01)'"


COLUMNS: Mapping[str, Column] = {
    **dict.fromkeys(
        ("price_low", "price_high", "price_step", "load_max", "penalty", "price", "verify"),
        Column.AMOUNT,
    ),
    **dict.fromkeys(
        ("settlement_ms", "notice_ms", "hold_ms_max", "replicas", "bound_ms", "number"),
        Column.WHOLE,
    ),
    **dict.fromkeys(
        ("contract", "kind", "payer", "provider", "currency", "recovery", "method", "stream", "per",
         "instead", "state", "revision", "active_revision", "partner_proposes", "ends_at"),
        Column.TEXT,
    ),
    **dict.fromkeys(("fragments", "reads", "reference", "boxes"), Column.NAMES),
    "validity": Column.VALIDITY,
}  # fmt: skip

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?![\w.]))"
    r"|'(?P<text>(?:[^']|'')*)'|(?P<sign>[=,.;\[\]]))"
)
_AMOUNT = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_RANGE = re.compile(r"empty|[\[(][0-9TZ:+. -]*,[0-9TZ:+. -]*[\])]")
_LIST = re.compile(r"\{\s*(?:[\w./=-]+\s*(?:,\s*[\w./=-]+\s*)*)?\}")


@dataclass(frozen=True, slots=True)
class Edit:
    """What is changed of a contract (None: of the only one); nothing: it is taken as proposed."""

    contract: str | None
    changes: Mapping[str, Value]


def parse_edit(text: str) -> Edit:
    """Read an edit; Refused, naming the place, for anything that is not one."""
    if len(text) > EDIT_CHARS_MAX:
        raise Refused(f"an edit of {len(text):,} characters: none is longer than 10,000")
    return _Parser(text).edit()


class _Parser:
    """One edit, token by token."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def edit(self) -> Edit:
        if self._is_word("update"):
            return self._update()
        contract: str | None = None
        if self._is_word("contract") and not self._is_next("sign", "="):
            self._at += 1
            contract = check_name("contract", self._take("word", "the contract's name"))
            if self._is_end():
                return Edit(contract, {})
            self._keyword("set")
        changes = self._changes()
        self._end()
        return Edit(contract, changes)

    def _update(self) -> Edit:
        self._at += 1
        table = self._take("word", "medusa_api.contract").lower()
        if table == "medusa_api":
            self._sign(".")
            table = self._take("word", "medusa_api.contract").lower()
        if table != "contract":
            raise self._refused(f"{table} is not what is edited here")
        self._keyword("set")
        changes = self._changes()
        self._keyword("where")
        self._keyword("contract")
        self._sign("=")
        contract = check_name("contract", self._take("text", "the contract's name in quotes"))
        self._end()
        return Edit(contract, changes)

    def _changes(self) -> dict[str, Value]:
        changes: dict[str, Value] = {}
        while True:
            name = self._take("word", "a column").lower()
            if name == "expires_at":
                raise Refused("a what-if proposes nothing that could expire: leave expires_at out")
            if name not in COLUMNS:
                hint = did_you_mean(name, COLUMNS, "docs/bilateral.md lists the fields")
                raise Refused(f"medusa_api.contract has no column {name!r}: {hint}")
            if name in changes:
                raise Refused(f"the edit sets {name} twice: set it once")
            self._sign("=")
            changes[name] = self._value(name, COLUMNS[name])
            if not self._is_sign(","):
                return changes
            self._at += 1

    def _value(self, name: str, column: Column) -> Value:
        kind, text = self._next()
        self._at += 1
        if kind == "word" and text.lower() == "null":
            return None
        if kind == "word" and text.lower() == "array" and column is Column.NAMES:
            return self._array()
        is_given = {"number": text, "text": text}.get(kind)
        if is_given is not None:
            match column:
                case Column.AMOUNT if _AMOUNT.fullmatch(text):
                    return text
                case Column.WHOLE if _WHOLE.fullmatch(text):
                    return text
                case Column.TEXT if kind == "text" and len(text) <= 200 and text.isprintable():
                    return text
                case Column.NAMES if kind == "text" and _LIST.fullmatch(text):
                    return [word.strip() for word in text[1:-1].split(",") if word.strip()]
                case Column.VALIDITY if kind == "text" and _RANGE.fullmatch(text):
                    return text
        raise Refused(f"{name} = {text[:60] or 'nothing'} is not one: write {column.value}")

    def _array(self) -> list[str]:
        names: list[str] = []
        self._sign("[")
        while not self._is_sign("]"):
            names.append(self._take("text", "a name in quotes"))
            if not self._is_sign(","):
                break
            self._at += 1
        self._sign("]")
        return names

    # ------------------------------------------------------------ tokens

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _is_next(self, kind: str, text: str) -> bool:
        return self._at + 1 < len(self._tokens) and self._tokens[self._at + 1] == (kind, text)

    def _is_word(self, word: str) -> bool:
        kind, text = self._next()
        return kind == "word" and text.lower() == word

    def _is_sign(self, sign: str) -> bool:
        return self._next() == ("sign", sign)

    def _is_end(self) -> bool:
        return self._next()[0] == "end" or self._tokens[self._at :] == [("sign", ";")]

    def _take(self, kind: str, what: str) -> str:
        found, text = self._next()
        if found != kind:
            raise self._refused(f"{what} is missing")
        self._at += 1
        return text

    def _keyword(self, word: str) -> None:
        if not self._is_word(word):
            raise self._refused(f"{word.upper()} is missing")
        self._at += 1

    def _sign(self, sign: str) -> None:
        if not self._is_sign(sign):
            raise self._refused(f"{sign} is missing")
        self._at += 1

    def _end(self) -> None:
        if not self._is_end():
            raise self._refused("an edit ends here")

    def _refused(self, says: str) -> Refused:
        _, text = self._next()
        where = f"at {text[:40]!r}" if text else "at its end"
        return Refused(f"the edit cannot be read: {says} {where}; {GRAMMAR}")


def _tokens(text: str) -> Sequence[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise Refused(f"the edit cannot be read at {text[at:].strip()[:40]!r}: {GRAMMAR}")
        kind = match.lastgroup or ""
        found = match[kind]
        tokens.append((kind, found.replace("''", "'") if kind == "text" else found))
        at = match.end()
    return tokens
