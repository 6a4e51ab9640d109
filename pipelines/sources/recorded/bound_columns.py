"""Which column of a file fills which declared one: one rule for all formats.

1. A column of the very name. 2. Else the one whose name ends in it behind a dot or an underscore:
`id.orig_h` fills `orig_h`, `conn_state` fills `state`; a name that could fill several fills the
longest. 3. Else, for event time declared with its unit (`ts_us`), the column without it (`ts`), and
so for any column that its format calls a time or an interval (`duration` fills `duration_us`): its
values are converted to the declared unit. Names are compared as they are spelt.

A declared column that nothing fills, or that two columns could fill, refuses the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.names import NAME_LENGTH_MAX
from medusa_core.suggest import did_you_mean
from pipelines.sources.recorded.event_times import declared_unit, named_unit
from pipelines.sources.recorded.recorded_rows import Target

_SHOWN_NAMES_MAX = 40
_SHOWN_NAME_CHARACTERS = 80
_PARTS = re.compile(r"[._]")
_COUNTED = ("int", "bigint", "double")


class Kind(Enum):
    """What a format says of a column's values beyond their text."""

    TIME = "instants, in seconds where they are numbers"
    INTERVAL = "lengths of time in seconds"
    INSTANT = "instants, in a unit that their size tells where they are numbers"
    SECONDS = "seconds, if it is a time or a length at all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """From which unit to which: s, ms, us, ns; `from_unit` None is inferred from the values.

    `is_length`: numbers are rounded to the nearest microsecond; of instants what is finer is cut.
    """

    from_unit: str | None
    to_unit: str
    is_length: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A declared column, the file's column that fills it, and how its values are converted.

    `zone` is that of times without one.
    """

    column: Column
    name: str
    conversion: Conversion | None = None
    kind: Kind | None = None
    zone: str | None = None


def bind_columns(
    target: Target, names: Sequence[str], kinds: Mapping[str, Kind] | None = None
) -> tuple[Bound, ...]:
    """The columns of a file that fill the declared ones, in declared order.

    Raises Refused, naming the file and the column, for the first that nothing fills, that stands
    there twice, or that several could fill.
    """
    kinds = kinds or {}
    found = find_columns(target, names, kinds)
    bound = []
    for column in target.columns:
        filling = found[column.name]
        if not filling:
            raise _no_column(target.file, column.name, names)
        if len(filling) > 1:
            raise _ambiguous(target.file, column.name, filling)
        bound.append(bind(target, column, filling[0], kinds.get(filling[0])))
    return tuple(bound)


def find_columns(
    target: Target, names: Iterable[str], kinds: Mapping[str, Kind]
) -> Mapping[str, Sequence[str]]:
    """Declared column -> the file's columns that may fill it; of its own name, all there are."""
    declared = {column.name: column for column in target.columns}
    exact: dict[str, list[str]] = {name: [] for name in declared}
    ending: dict[str, list[str]] = {name: [] for name in declared}
    others: list[str] = []
    for name in names:
        if name in declared:
            exact[name].append(name)
        elif filled := longest_ending(name, declared):
            ending[filled].append(name)
        else:
            others.append(name)
    found = {name: exact[name] or ending[name] for name in declared}
    bases = {
        name.rpartition("_")[0]: name
        for name, column in declared.items()
        if not found[name] and counts_time(column)
    }
    if bases:
        whole: dict[str, list[str]] = {name: [] for name in bases.values()}
        part: dict[str, list[str]] = {name: [] for name in bases.values()}
        for name in others:
            base = name if name in bases else longest_ending(name, bases)
            if base and (bases[base] == target.source.time or name in kinds):
                (whole if name == base else part)[bases[base]].append(name)
        found |= {name: whole[name] or part[name] for name in whole}
    return found


def longest_ending(name: str, declared: Collection[str]) -> str | None:
    """The longest declared name that `name` ends in behind a dot or an underscore."""
    for part in _PARTS.finditer(name, max(len(name) - NAME_LENGTH_MAX - 1, 0)):
        if name[part.end() :] in declared:
            return name[part.end() :]
    return None


def bind(target: Target, column: Column, name: str, kind: Kind | None) -> Bound:
    """The column that a file's column of this name and kind fills, with what converts it."""
    is_event_time = column.name == target.source.time
    unit = declared_unit(target.source) if is_event_time else named_unit(column.name)
    is_own = name == column.name or longest_ending(name, (column.name,)) is not None
    conversion: Conversion | None = None
    from_unit = None if kind in (None, Kind.INSTANT) else "s"
    if not is_own:
        assert unit is not None
        is_length = kind in (Kind.INTERVAL, Kind.SECONDS) and not is_event_time
        conversion = Conversion(from_unit=from_unit, to_unit=unit, is_length=is_length)
    elif column.type == "timestamp":
        if kind is not None and kind is not Kind.INTERVAL:
            conversion = Conversion(from_unit=from_unit, to_unit="us")
    elif _is_number(column):
        if kind in (Kind.TIME, Kind.INTERVAL) and unit not in (None, "s"):
            assert unit is not None
            is_length = kind is Kind.INTERVAL
            conversion = Conversion(from_unit="s", to_unit=unit, is_length=is_length)
        elif kind is Kind.INSTANT and (unit or column.type not in ("int", "bigint")):
            conversion = Conversion(from_unit=None, to_unit=unit or "s")
    return Bound(
        column=column, name=name, conversion=conversion, kind=kind, zone=target.source.time_zone
    )


def _is_number(column: Column) -> bool:
    return column.type in _COUNTED or column.type.startswith("decimal")


def counts_time(column: Column) -> bool:
    """Whether a column is a number whose name tells a unit of time."""
    return named_unit(column.name) is not None and _is_number(column)


def _no_column(file: Path, name: str, names: Sequence[str]) -> Refused:
    near = did_you_mean(name, names)
    hint = f"{near} " if near else ""
    return Refused(
        f"{file} has no column {name!r}; {hint}It has {listed(names)}: rename one, or declare the "
        "source's columns as the file names them"
    )


def listed(names: Sequence[str]) -> str:
    """The first names of a file, and how many more there are."""
    more = len(names) - _SHOWN_NAMES_MAX
    shown = ", ".join(name[:_SHOWN_NAME_CHARACTERS] for name in names[:_SHOWN_NAMES_MAX])
    return shown + (f" and {more} more" if more > 0 else "")


def _ambiguous(file: Path, name: str, filling: Sequence[str]) -> Refused:
    if filling[0] == name:
        return Refused(f"{file} has {len(filling)} columns {name!r}: rename all but one")
    return Refused(
        f"{file} has several columns that may be {name!r} ({listed(filling)}): name one of them "
        "just so, or declare the column as the file names it"
    )
