"""The fields of a network's parts hold what they declare: texts, mappings and tuples of texts.

Python does not check the types of fields. A number in the place of a text would fail later, in the
words of the code that reads it.
"""

from __future__ import annotations

from dataclasses import fields

from medusa_core.errors import Refused

_NAMES = ("name", "fragment")
_CHECKED_APART = ("keys", "aggregates")
_DURATIONS = (
    "size", "advance", "disorder", "late_every", "within", "max_age", "step", "gap", "length_max",
)  # fmt: skip
"""These are checked by rules of their own, which name the value."""


def check_fields(part: object) -> None:
    """Raise Refused for the first field whose value is not of the declared form, naming it."""
    for field in fields(part):  # type: ignore[arg-type]
        if not field.init or field.name in _NAMES + _CHECKED_APART:
            continue
        value, declared = getattr(part, field.name), str(field.type)
        if field.name in _DURATIONS:
            _check_durations(part, field.name, value)
        elif declared.startswith("Mapping"):
            _check_texts(part, field.name, value.items())
        elif declared.startswith("tuple"):
            _check_tuple(part, field.name, value)
        elif declared.startswith("str") and not (value is None and "None" in declared):
            _check_text(part, field.name, value)


def check_unit(owner: str, field: str, value: object) -> None:
    """Raise Refused for a duration that is a number, and so has no unit; `owner` has the field.

    Contracts take a number as seconds. A network would then depend on who reads it.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        raise Refused(
            f"{field} of {owner} is {value}, a number without a unit: write a text such as "
            f'"{value}s" or "{value}m"'
        )


def _check_durations(part: object, field: str, value: object) -> None:
    for one in value if isinstance(value, tuple | list) else (value,):
        check_unit(_owner_of(part), field, one)


def _check_texts(part: object, field: str, items: object) -> None:
    for key, value in items:  # type: ignore[attr-defined]
        if not isinstance(key, str) or not isinstance(value, str):
            raise _refused(part, field, f"has {key!r}: {value!r}", "write both in quotes")


def _check_tuple(part: object, field: str, value: object) -> None:
    if isinstance(value, str):
        raise _refused(part, field, "is a text", "write a tuple, as in ('x',)")
    if not isinstance(value, tuple | list):
        raise _refused(part, field, f"is {value!r}", "write a tuple of texts, as in ('x',)")
    for one in value:
        if not isinstance(one, str):
            raise _refused(part, field, f"has {one!r}", "write each name in quotes")


def _check_text(part: object, field: str, value: object) -> None:
    name = getattr(value, "name", None)
    if isinstance(name, str):
        kind = type(value).__name__
        raise _refused(part, field, f"is a {kind}", f"write its name, {field}={name!r}")
    if not isinstance(value, str):
        raise _refused(part, field, f"is {value!r}", "write one text in quotes")


def _refused(part: object, field: str, wrong: str, advice: str) -> Refused:
    return Refused(f"{field} of {_owner_of(part)} {wrong}: {advice}")


def _owner_of(part: object) -> str:
    """A part of a network as errors name it."""
    kind = type(part).__name__
    is_box = kind not in ("Source", "Output")
    return f"{'box' if is_box else kind.lower()} {getattr(part, 'name', '')}"
