"""The columns of a Resample: its key checked, its columns found in the input, and their types."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.columns import Column, declare_columns
from medusa_core.errors import Refused
from medusa_core.resamples import LINEAR, Resample
from pipelines.language.coercion import INTEGRAL, is_decimal
from pipelines.language.functions import suggestion

SAMPLE_TIME = "sample_time"


def resampled_columns(box: Resample, owner: str, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns behind `sample_time` and the key: those that it names, else all others.

    Raises Refused for columns that are not there, for a double in the key, and for a decimal that
    would be interpolated.
    """
    known = {column.name: column for column in columns}
    for name in (*box.by, *box.columns):
        if name not in known:
            near = suggestion(name, frozenset(known)) or f"; there are {', '.join(known)}"
            raise Refused(f"{owner} names {name!r}, which is not a column of its input{near}")
    for name in box.by:
        if known[name].type == "double":
            raise Refused(
                f"{owner} has the key {name!r} of type double, and doubles that look equal may "
                "differ: cast it to a decimal in a map before it"
            )
    names = box.columns or [name for name in known if name not in (*box.by, SAMPLE_TIME)]
    found = tuple(known[name] for name in names)
    for column in found if box.method == LINEAR else ():
        if is_decimal(column.type):
            raise Refused(
                f"{owner} would interpolate {column.name!r}, which is {column.type}: cast it to "
                "double in a map before it"
            )
    return found


def is_interpolated(box: Resample, column: Column) -> bool:
    """Whether values of a column lie between those of two records."""
    return box.method == LINEAR and column.type in (*INTEGRAL, "double")


def types_of_resampled(
    box: Resample, owner: str, given: Sequence[Column], columns: Sequence[Column]
) -> tuple[Column, ...]:
    """All columns with their types."""
    known = {column.name: column.type for column in given}
    types = {SAMPLE_TIME: "timestamp", **{name: known[name] for name in box.by}}
    types |= {c.name: "double" if is_interpolated(box, c) else c.type for c in columns}
    return declare_columns(owner, types)
