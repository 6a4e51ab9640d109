"""Answers and documents of other programs: whatever is wrong with their form becomes one sentence.

A document that another program wrote may lack a field, hold text for a number, or nest a thousand
lists. Such a form shows as one of a few built-in errors, wherever in the reading it shows first.
The rule here is by kind: at an input each of them is Refused, and never a fault of Medusa's own.
A program that cannot be started is Unavailable, whatever the reason.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, NewType, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from medusa_core.errors import WRONG_FORM, Refused, Unavailable

NUMBER_MIN, NUMBER_MAX = -(2**63), 2**63 - 1
"""Between them is every number that a document holds; Postgres' `bigint` has the same bounds."""

Value = TypeVar("Value")


def parse_json(text: str | bytes, what: str, to_do: str) -> Any:
    """The value of a JSON text; Refused, in a sentence that says what it is of, if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "is nested too deeply" if isinstance(error, RecursionError) else "is no JSON"
        raise Refused(f"{what} {kind}: {to_do}") from error


@contextmanager
def foreign_form(what: str, to_do: str) -> Iterator[None]:
    """Raise Refused for a document whose form is wrong: `what` is wrong, and `to_do` about it."""
    try:
        yield
    except WRONG_FORM as error:
        kind = "nested too deeply" if isinstance(error, RecursionError) else type(error).__name__
        raise Refused(f"{what} in a form that is not Medusa's ({kind}): {to_do}") from error


@contextmanager
def starting(program: str) -> Iterator[None]:
    """Raise Unavailable for a program that cannot be started, or does not end in time."""
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        raise Unavailable(
            f"{program} cannot be started ({reason}): check that the program is installed and that "
            "the machine has memory and processes left"
        ) from error


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a JSON value is a number within the bounds: not NaN, infinity or a boolean."""
    return type(value) in (int, float) and NUMBER_MIN <= value <= NUMBER_MAX


def is_whole_number(value: Any) -> TypeGuard[int]:
    """Whether a JSON value is a whole number within the bounds."""
    return type(value) is int and NUMBER_MIN <= value <= NUMBER_MAX


def of_declared_types(value: Value) -> Value:
    """The same dataclass value; TypeError if a field holds something else than it declares.

    All that it holds is looked at: tuples, mappings and the dataclasses in them.
    """
    form: Any = type(value)
    _check_of(form)(value)
    return value


Check = Callable[[Any], None]


@cache
def _check_of(form: Any) -> Check:
    """What looks at values that are declared as `form`."""
    if isinstance(form, NewType):
        return _check_of(form.__supertype__)
    if get_origin(form) in (Union, UnionType):
        return _either(tuple(map(_check_of, get_args(form))))
    if get_origin(form) is tuple and get_args(form)[1:] == (...,):
        return _each(_check_of(get_args(form)[0]))
    if isinstance(get_origin(form), type) and issubclass(get_origin(form), Mapping):
        return _entries(*map(_check_of, get_args(form)))
    if isinstance(form, type) and is_dataclass(form):
        return _fields(form)
    return _of_type(NoneType if form is None else form)


def _of_type(kind: type) -> Check:
    def check(value: Any) -> None:
        # True is an int to Python, and no number to anybody else.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"a {type(value).__name__} in place of a {kind.__name__}")

    return check


def _either(checks: tuple[Check, ...]) -> Check:
    def check(value: Any) -> None:
        for one in checks[:-1]:
            try:
                one(value)
            except TypeError:
                continue
            return
        checks[-1](value)

    return check


def _each(item: Check) -> Check:
    def check(value: Any) -> None:
        _of_type(tuple)(value)
        for one in value:
            item(one)

    return check


def _entries(key: Check, item: Check) -> Check:
    def check(value: Any) -> None:
        _of_type(Mapping)(value)
        for one, its in value.items():
            key(one)
            item(its)

    return check


def _fields(form: type) -> Check:
    checks: list[tuple[str, Check]] = []

    def check(value: Any) -> None:
        _of_type(form)(value)
        if not checks:
            types = get_type_hints(form)
            checks.extend((one.name, _check_of(types[one.name])) for one in fields(form))
        for name, one in checks:
            one(getattr(value, name))

    return check
