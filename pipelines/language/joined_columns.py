"""The columns of a Join or Lookup: keys checked, columns found in the two inputs, their types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medusa_core.columns import Column, declare_columns
from medusa_core.errors import Refused
from medusa_core.joins import Join
from medusa_core.lookups import Lookup
from medusa_core.network import Port
from pipelines.language.functions import suggestion
from pipelines.language.inexact_values import inexact_values


class JoinedColumn(NamedTuple):
    """A column of a Join or Lookup: its name, the side, and the name of the column there."""

    name: str
    side: str
    column: str


@dataclass(frozen=True, slots=True)
class JoinedSide:
    """An input of a Join or Lookup: the side's name, what it reads, and the columns there.

    The sides of a Join are `left` and `right`, those of a Lookup `input` and `table`. The columns
    in `inexact` are known only within a tolerance.
    """

    name: str
    port: Port
    columns: tuple[Column, ...]
    inexact: frozenset[str]

    def column(self, name: str) -> Column | None:
        """The column of that name, if there is one."""
        return next((column for column in self.columns if column.name == name), None)

    def hint(self, name: str) -> str:
        """What to write in the place of a name that no column has."""
        names = [column.name for column in self.columns]
        return suggestion(name, frozenset(names)) or f"; there are {', '.join(names)}"


def joined_columns(
    box: Join | Lookup, owner: str, left: JoinedSide, right: JoinedSide
) -> tuple[JoinedColumn, ...]:
    """The columns of a join or lookup: those that it names, else all of left and what right adds.

    Raises Refused for keys that are not there, not exact or of two types, and for columns that are
    not there.
    """
    for names in box.keys:
        a, b = (_key(owner, s, name) for s, name in zip((left, right), names, strict=True))
        if a.type != b.type:
            other = right.name if a.name == b.name else f"{right.name}.{b.name}"
            raise Refused(
                f"{owner} has the key {a.name!r}, which is {a.type} in {left.name} and {b.type} in "
                f"{other}: cast one of them in a map before it"
            )
    sides = {side.name: side for side in (left, right)}
    found = tuple(JoinedColumn(name, *reference) for name, reference in box.references.items())
    for name, side, column in found:
        if sides[side].column(column) is None:
            raise Refused(
                f"{owner}, column {name!r}: {side}.{column} is not a column of "
                f"{sides[side].port}{sides[side].hint(column)}"
            )
    return found or _default_columns(box, left, right)


def _default_columns(
    box: Join | Lookup, left: JoinedSide, right: JoinedSide
) -> tuple[JoinedColumn, ...]:
    taken = {column.name for column in left.columns} | {key for _, key in box.keys}
    has_right = isinstance(box, Lookup) or box.has_pairs
    more = [c.name for c in right.columns if c.name not in taken] if has_right else []
    return (
        *(JoinedColumn(c.name, left.name, c.name) for c in left.columns),
        *(JoinedColumn(name, right.name, name) for name in more),
    )


def _key(owner: str, side: JoinedSide, name: str) -> Column:
    column = side.column(name)
    if column is None:
        raise Refused(
            f"{owner} has the key {name!r}, which is not a column of {side.name}{side.hint(name)}; "
            "where the names differ, write 'this = that'"
        )
    if name in side.inexact:
        named, advice = inexact_values(side.columns, {name}, "in a map before it")
        raise Refused(f"{owner} has a key of {named}: {advice}")
    if column.type == "double":
        raise Refused(
            f"{owner} has the key {name!r} of type double in {side.name}, and doubles that look "
            "equal may differ: cast it to a decimal in a map before it"
        )
    return column


def types_of_joined(
    owner: str, joined: Sequence[JoinedColumn], left: JoinedSide, right: JoinedSide
) -> tuple[tuple[Column, ...], frozenset[str]]:
    """The columns of a join or lookup with types, and which are known only within a tolerance."""
    sides = {side.name: side for side in (left, right)}
    types: dict[str, str] = {}
    for name, side, column in joined:
        found = sides[side].column(column)
        assert found is not None
        types[name] = found.type
    inexact = frozenset(name for name, side, column in joined if column in sides[side].inexact)
    return declare_columns(owner, types), inexact
