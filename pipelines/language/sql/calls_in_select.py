"""The calls of aggregate functions in an expression, and the expression without them."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.language.functions import AGGREGATES
from pipelines.language.sql.sql_text import Token, Tokens, end_of_brackets


def aggregate_calls(tokens: Tokens) -> list[Tokens]:
    """The calls in an expression, each with its FILTER; those inside of another are part of it."""
    return [tokens[begin:end] for begin, end in _ranges(tokens)]


def with_columns(tokens: Tokens, column_of: Callable[[Tokens], str]) -> Tokens:
    """The expression with a column in the place of each call."""
    found: list[Token] = []
    behind = 0
    for begin, end in _ranges(tokens):
        call = tokens[begin:end]
        found += tokens[behind:begin]
        found.append(Token("column", column_of(call), call[0].start, call[-1].end))
        behind = end
    return [*found, *tokens[behind:]]


def _ranges(tokens: Tokens) -> list[tuple[int, int]]:
    found = []
    index = 0
    while index < len(tokens):
        end = _end_of_call(tokens, index)
        if end is not None:
            found.append((index, end))
        index = index + 1 if end is None else end
    return found


def _end_of_call(tokens: Tokens, index: int) -> int | None:
    """The index behind the call that begins here; None if none does."""
    is_named = tokens[index].kind == "word" and tokens[index].text.lower() in AGGREGATES
    if not is_named or index + 1 == len(tokens) or tokens[index + 1].text != "(":
        return None
    last = end_of_brackets(tokens, index + 1)
    if last is None:
        return None
    if [token.upper for token in tokens[last + 1 : last + 3]] == ["FILTER", "("]:
        last = end_of_brackets(tokens, last + 2) or last
    return last + 1
