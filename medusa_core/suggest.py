"""What a refusal says of a value: what it is, and the nearest existing name.

Names are compared without case, and `-` equals `_`. The cost is bounded whatever the input: a
word longer than any name has no neighbour, and of very many names only the first ones are
compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice

from medusa_core.names import NAME_LENGTH_MAX

LENGTH_MAX = NAME_LENGTH_MAX + 1
"""One character too many is a common slip; beyond that a word is no misspelt name."""

LOOKED_AT_MAX = 2_000
SHOWN_MAX = 150
"""Characters of a value that a sentence repeats."""

NEAR_ENOUGH = 0.6
"""Of `difflib`'s ratio, twice the common characters by all characters: 1 is the same name."""


def nearest(word: object, known: Iterable[object]) -> str | None:
    """The known name nearest to the word, as it is spelt; None if none is near enough."""
    if not isinstance(word, str) or not 0 < len(word) <= LENGTH_MAX:
        return None
    expected = _plain(word)
    names: dict[str, str] = {}
    for name in map(str, islice(known, LOOKED_AT_MAX)):
        if len(name) <= LENGTH_MAX:
            names.setdefault(_plain(name), name)
    found = get_close_matches(expected, names, n=1, cutoff=NEAR_ENOUGH)
    return names[found[0]] if found else None


def did_you_mean(word: object, known: Iterable[object], otherwise: str = "") -> str:
    """`did you mean 'count'?`; if no known name is near enough, `otherwise`."""
    near = nearest(word, known)
    return otherwise if near is None else f"did you mean {near!r}?"


def shown(value: object) -> str:
    """What a value is, for a sentence: `empty`, `a list`, a number, or a text in quotes, cut."""
    match value:
        case None | "":
            return "empty"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list() | tuple() | frozenset():
            return "a list"
        case str():
            return repr(value[:SHOWN_MAX])
        case Decimal():
            return f"{value:f}"[:SHOWN_MAX]
        case _:
            return str(value)[:SHOWN_MAX]


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
