"""Lines of JSON as records: one object a line, its keys the columns, its values as their text.

A value is the text that a CSV of it would hold: a string itself, a number as it is spelt, `true`
and `false`; an array or object is its JSON. `null` and an absent key are NULL. So all formats are
converted by one grammar, and a number is never rounded on the way. A line that is no object, that
gives a declared column twice or is nested deeper than 64 is no record.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.sources.recorded.recorded_rows import Problem

DEPTH_MAX = 64
NO_OBJECT = "is no JSON object"
TOO_DEEP = f"JSON is nested deeper than {DEPTH_MAX}"
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


class _Number(str):
    """A number as it is spelt."""

    __slots__ = ()


class Repeating(dict[str, Any]):
    """An object that gives keys twice: `repeated`."""

    repeated: frozenset[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    counts = Counter(name for name, _ in pairs)
    repeating = Repeating(found)
    repeating.repeated = frozenset(name for name, count in counts.items() if count > 1)
    return repeating


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_Number, parse_int=_Number, parse_constant=_Number
)


@dataclass(frozen=True, slots=True)
class Bad:
    """Why a line is no record."""

    problem: Problem


def parse_line(line: bytes) -> dict[str, Any] | Bad:
    """The object in a line."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        # What is no text is found where it stands, if that is declared.
        text = line.decode(errors="surrogateescape")
    if text.count("[") + text.count("{") > DEPTH_MAX and _is_too_deep(text):
        return Bad(Problem("", TOO_DEEP))
    try:
        found = _DECODER.decode(text)
    except ValueError:
        return Bad(Problem("", NO_OBJECT))
    return found if isinstance(found, dict) else Bad(Problem("", NO_OBJECT))


def _is_too_deep(text: str) -> bool:
    depth = 0
    for match in _BRACKETS.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                return True
        elif first != '"':
            depth -= 1
    return False


def text_of(value: Any) -> str | None:
    """A value as the text that a CSV would hold."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, _Number):
        return str(value)
    return _json(value)


def _json(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _Number():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{" + ",".join(f"{_json(k)}:{_json(v)}" for k, v in value.items()) + "}"
        case Sequence():
            return "[" + ",".join(map(_json, value)) + "]"
        case _:
            raise AssertionError(f"JSON has no {type(value)}")
