"""The meaning of functions of Python as text: the part of a fingerprint that no expression holds.

Two functions of one source can differ in the values that they hold. So the text holds the source
and every value the function reads by name: defaults, closures, constants of its file, and, in
turn, the functions of its file that it calls. Libraries count by their versions, which a plan
names apart.

Limit: plain values only (numbers, texts, dates, tuples, lists, sets, mappings of them). A
function that holds any other value, or reads names in a form that Python decides at run time, has
no fingerprint, or an incomplete one; the check at deployment covers that.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta, timezone
from decimal import Decimal
from enum import Enum
from types import CodeType, FunctionType, ModuleType

from medusa_core.errors import Refused
from medusa_core.network import Aggregate, Function, Network, UserAggregate
from medusa_core.user_aggregates import FUNCTIONS


def function_sources(network: Network) -> dict[str, str]:
    """The texts of functions by box, of an aggregate function by `box.name`.

    Raises Refused naming the function and the value that cannot be in a plan.
    """
    found = {}
    for box in network.boxes:
        where = f"of network {network.name}"
        if isinstance(box, Function):
            found[box.name] = _text_of(f"function {box.name} {where}", box.function)
        elif isinstance(box, Aggregate):
            for aggregate in box.aggregates:
                found[f"{box.name}.{aggregate.name}"] = aggregate_source(aggregate, where)
    return found


def aggregate_source(aggregate: UserAggregate, where: str) -> str:
    """The text of the four functions of an aggregate function, as in `function_sources`."""
    owner = f"aggregate function {aggregate.name} {where}"
    texts = (_text_of(f"{name} of {owner}", getattr(aggregate, name)) for name in FUNCTIONS)
    return "\n".join(texts)


def _text_of(owner: str, function: object) -> str:
    if not isinstance(function, FunctionType):
        raise Refused(f"{owner} is no plain function: write it with def")
    found = _Found([], {})
    _collect(owner, function, found)
    return "\n".join(found.texts)


@dataclass(frozen=True, slots=True)
class _Found:
    """The texts of functions, and the functions of each place of a file.

    One place has several functions if a function makes them, each with values of its own.
    """

    texts: list[str]
    of_place: dict[str, list[FunctionType]]


def _collect(owner: str, function: FunctionType, found: _Found, name: str = "") -> None:
    """Add a function's source and what it reads by name, each once; `name` is its reader's."""
    place = f"{function.__module__}.{function.__qualname__}:{function.__code__.co_firstlineno}"
    known, texts = found.of_place.setdefault(place, []), found.texts
    is_known = function in known
    if not is_known:
        known.append(function)
    if len(known) > 1:
        texts.append(f"# {name} = {function.__qualname__}, number {known.index(function)}")
    if is_known:
        return
    try:
        texts.append(textwrap.dedent(_source(function)).rstrip())
    except (OSError, TypeError):
        raise Refused(f"{owner} has no source text: write it in the network's file") from None
    defaults = inspect.signature(function).parameters.values()
    named = {p.name: p.default for p in defaults if p.default is not inspect.Parameter.empty}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        named[name] = cell.cell_contents
    for name in sorted(set(_names(function.__code__))):
        if name in function.__globals__:
            named.setdefault(name, function.__globals__[name])
    for name, value in named.items():
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            _collect(owner, value, found, name)
        elif isinstance(value, type) and value.__module__ == function.__module__:
            raise Refused(f"{owner} uses class {name} of its file: functions only, or a library")
        elif isinstance(value, ModuleType | type) or callable(value):
            where = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            texts.append(f"# {name} = {where}.{getattr(value, '__qualname__', '')}")
        else:
            texts.append(f"# {name} = {_plain(owner, name, value)}")


def _source(function: FunctionType) -> str:
    """The lines of a function.

    `inspect` ends a lambda inside a call with the first line that could be one of its own, so what
    its code says about lines decides where that is.
    """
    lines, first = inspect.getsourcelines(function)
    last = max(_lines(function.__code__))
    if last < first + len(lines):
        return "".join(lines)
    of_file, _ = inspect.findsource(function)
    return "".join(of_file[first - 1 : last])


def _lines(code: CodeType) -> Iterator[int]:
    """The lines of a file of which a function and those inside it were made."""
    yield code.co_firstlineno
    for line, end, _, _ in code.co_positions():
        yield from (at for at in (line, end) if at is not None)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines(constant)


def _names(code: CodeType) -> Iterator[str]:
    """Names that a function and those inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _plain(owner: str, name: str, value: object) -> str:
    """A value as text that is the same in every process; raises Refused for other values."""
    match value:
        case None | bool() | int() | float() | str() | bytes() | Decimal():
            return repr(value)
        case date() | timedelta() | timezone():
            return repr(value)
        case Enum():
            return str(value)
        case list() | tuple():
            return f"[{', '.join(_plain(owner, name, item) for item in value)}]"
        case set() | frozenset():
            return f"{{{', '.join(sorted(_plain(owner, name, item) for item in value))}}}"
        case Mapping():
            items = (
                f"{_plain(owner, name, k)}: {_plain(owner, name, v)}" for k, v in value.items()
            )
            return f"{{{', '.join(sorted(items))}}}"
    raise Refused(
        f"{owner} remembers {name!r}, a {type(value).__name__}: a plan can only hold plain values, "
        "such as numbers and texts; make it inside the function"
    )
