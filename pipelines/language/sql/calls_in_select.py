"""The calls of aggregate functions in an expression, and the expression without them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from pipelines.language.functions import AGGREGATES, SCALARS
from pipelines.language.sql.sql_text import Token, Tokens, end_of_brackets

LISTS = ("collect_list", "collect_set", "array_agg")
"""The aggregate functions whose value is an array, which no column can be."""

OVER_ARRAYS = frozenset(name for name, function in SCALARS.items() if "array" in function.takes)
"""The functions that take an array, such as array_join: a list in their brackets is an array, so
that the Aggregate computes them with it."""


def aggregate_calls(tokens: Tokens) -> list[Tokens]:
    """The calls in an expression, each with its FILTER; those inside of another are part of it."""
    return [tokens[begin:end] for begin, end in _ranges(tokens, AGGREGATES)]


def with_columns(tokens: Tokens, column_of: Callable[[Tokens], str]) -> Tokens:
    """The expression with a column in the place of each call, and of what makes a value of the
    array that a call gives."""
    found: list[Token] = []
    behind = 0
    for begin, end in _ranges(tokens, AGGREGATES | OVER_ARRAYS):
        call = tokens[begin:end]
        found += tokens[behind:begin]
        found.append(Token("column", column_of(call), call[0].start, call[-1].end))
        behind = end
    return [*found, *tokens[behind:]]


def _ranges(tokens: Tokens, names: frozenset[str]) -> list[tuple[int, int]]:
    found = []
    index = 0
    while index < len(tokens):
        end = _end_of_call(tokens, index, names)
        if end is not None:
            found.append((index, end))
        index = index + 1 if end is None else end
    return found


def _end_of_call(tokens: Tokens, index: int, names: frozenset[str]) -> int | None:
    """The index behind the call of one of the names that begins here; None if none does."""
    name = tokens[index].text.lower() if tokens[index].kind == "word" else ""
    if name not in names or index + 1 == len(tokens) or tokens[index + 1].text != "(":
        return None
    last = end_of_brackets(tokens, index + 1)
    if last is None or (name in OVER_ARRAYS and not _has_list(tokens[index + 2 : last])):
        return None
    if [token.upper for token in tokens[last + 1 : last + 3]] == ["FILTER", "("]:
        last = end_of_brackets(tokens, last + 2) or last
    return last + 1


def _has_list(tokens: Tokens) -> bool:
    """Whether a list of the rows of a group is called in them."""
    return any(
        token.kind == "word" and token.text.lower() in LISTS and behind.text == "("
        for token, behind in pairwise(tokens)
    )
