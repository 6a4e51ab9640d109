"""Lookup: each record of a stream with the newest record of a table that has equal keys.

The rule for times. A record of `input` at t meets the records of `table` with equal keys in
[t - max_age, t], and takes the one with the greatest event time. Its row is at t. No later record
of the table can change it, so the row is certain at once, when the table is known through t.

The rule for ranges. The positions [a, b) need `input` in [a, b), and `table` in [a - max_age, b):
a record of the table at t is needed by the positions from t to t + max_age (`Reach`). Both ends
occur, so no smaller range would do.

The rule for ties. Of several records of the table at the greatest event time, the last in canonical
order is taken: by all columns as declared, as the aggregate function `last` does.

Worked example. `max_age="1m"`, and the output bucket [100 s, 110 s):

    input [100 s, 110 s)    table [40 s, 110 s)

The input record at 100 s may meet a table record at 40 s and none before it. The input record at
109.999999 s may meet one at the same time; a table record at 110 s is met in the next bucket alone.

A missing input makes rows missing. Without the table, or without one of the streams that a table is
made of, rows would be wrong: a record would take an older one, or none. So the table is waited for.

Source: temporal joins of SQL:2011 and Flink, as-of joins of kdb+; the rules are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import parse_duration_us
from medusa_core.joins import (
    INNER,
    LEFT,
    Reach,
    check_keys,
    check_references,
    keys_of,
    references_of,
)
from medusa_core.suggest import did_you_mean

KINDS = (LEFT, INNER)
_SIDES = ("input", "table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Records of `input`, each with the newest record of `table` that has equal keys.

    The table's record has the event time of the input's record, or an earlier one by at most
    `max_age`. `on` names the keys: `"currency"` where both have a column of that name, else
    `"currency = code"`, that of `input` first; NULL equals nothing. `how` says what becomes of a
    record of `input` without such a record: "left" gives a row with NULL in the columns of `table`,
    "inner" gives none.

    `columns` maps names to `input.NAME` or `table.NAME`; default: all columns of `input` and those
    of `table` that are no keys and whose names `input` does not have.

    No answer is made without the table: its rows would be wrong (`medusa_core.lookups`).
    """

    name: str
    input: str
    table: str
    on: tuple[str, ...]
    max_age: str
    how: str = LEFT
    columns: Mapping[str, str] = field(default_factory=dict)
    fragment: str = "main"

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def max_age_us(self) -> int:
        """How much earlier the table's record may be, at most, in microseconds."""
        return parse_duration_us(self.max_age)

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """The columns that are equal: of `input`, of `table`."""
        return keys_of(self.on)

    @property
    def references(self) -> Mapping[str, tuple[str, str]]:
        """The columns as given: name -> `input` or `table`, and the column there."""
        return references_of(self.columns, _SIDES)

    @property
    def reaches(self) -> tuple[Reach, Reach]:
        """Which output positions need a record of `input`, and of `table`."""
        return Reach(0, 0), Reach(0, self.max_age_us, makes_rows=False)


def check_lookup(box: Lookup) -> None:
    """Refuse a Lookup whose own parameters cannot be, naming it."""
    owner = f"lookup {box.name}"
    if box.how not in KINDS:
        near = did_you_mean(str(box.how), KINDS, f"write {' or '.join(KINDS)}")
        raise Refused(f"how of {owner} is {box.how!r}, which is not a kind of lookup: {near}")
    if box.max_age is None:
        raise Refused(
            f"{owner} has no max_age: write how old a record of the table may be, such as "
            "max_age='1h'; a lookup keeps no records without limit"
        )
    try:
        parse_duration_us(box.max_age)
    except Refused as error:
        raise Refused(f"max_age of {owner}: {error}") from None
    check_keys(owner, box.on)
    check_references(owner, box.columns, _SIDES)
