"""Reading a contract's fields: the right kind of value, or one sentence with its place.

Unknown fields are refused by name, with the nearest one that there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.names import check_name
from medusa_core.suggest import did_you_mean, shown
from pipelines.contracts.yaml_values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A word of a contract and the place where it was written."""

    name: str
    at: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many, and the place where it was written."""

    count: int
    at: Value


def fields_of(
    value: Value, *, required: Collection[str] = (), optional: Collection[str] = ()
) -> Mapping[str, Value]:
    """The fields of a mapping; Refused if one is missing or unknown."""
    known = (*required, *optional)
    match value.content:
        case dict() as fields:
            for name, inside in fields.items():
                if name not in known:
                    hint = did_you_mean(name, known, f"write {_one_of(known)}")
                    raise inside.refused(f"is not known here: {hint}")
            for name in required:
                if name not in fields:
                    raise value.refused(f"lacks the field {name}: add it")
            return fields
        case _:
            raise value.refused(f"must be a mapping with {_one_of(known)}")


def text_of(value: Value) -> str:
    """A text that is not empty."""
    match value.content:
        case str() as text if text.strip():
            return text
        case _:
            raise value.refused(f"is {kind_of(value)}: write a text")


def name_of(kind: str, value: Value) -> Named:
    """A name as `medusa_core.names` has it."""
    match value.content:
        case str() as text:
            try:
                return Named(name=check_name(kind, text), at=value)
            except Refused as error:
                raise value.refused(f"is no name: {error}") from None
        case _:
            raise value.refused(f"is {kind_of(value)}: write the name of a {kind}")


def names_of(kind: str, value: Value) -> tuple[Named, ...]:
    """A list of names, each once."""
    match value.content:
        case tuple() as items:
            names = [name_of(kind, item) for item in items]
        case _:
            raise value.refused(f"is {kind_of(value)}: write a list, such as [a, b]")
    seen: set[str] = set()
    for named in names:
        if named.name in seen:
            raise named.at.refused(f"names {named.name} again: keep one")
        seen.add(named.name)
    return tuple(names)


def duration_us_of(value: Value) -> int:
    """Microseconds of a duration such as 10s; a whole number is seconds."""
    match value.content:
        case bool() | float() | None | tuple() | dict():
            raise value.refused(f"is {kind_of(value)}: write a duration, such as 10s or 7d")
        case given:
            try:
                return parse_duration_us(given)
            except Refused as error:
                raise value.refused(f"is no duration: {error}") from None


def count_of(value: Value) -> Counted:
    """A whole number from 1 on."""
    match value.content:
        case bool():
            pass
        case int() as count if count > 0:
            return Counted(count=count, at=value)
    raise value.refused(f"is {kind_of(value)}: write a whole number from 1 on, such as 2")


def truth_of(value: Value) -> bool:
    """`true` or `false`."""
    if not isinstance(value.content, bool):
        raise value.refused(f"is {kind_of(value)}: write true or false")
    return value.content


def items_of(value: Value) -> tuple[Value, ...]:
    """The items of a list."""
    match value.content:
        case tuple() as items:
            return items
        case _:
            raise value.refused(f"is {kind_of(value)}: write a list, each item after a dash")


def listing(names: Collection[str]) -> str:
    """Names for a sentence: a, b and c."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def kind_of(value: Value) -> str:
    """What a value is, for a sentence: `empty`, `a list`, or the text or number as written."""
    is_number = isinstance(value.content, int | float) and not isinstance(value.content, bool)
    return value.written if is_number and value.written else shown(value.content)


def _one_of(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
