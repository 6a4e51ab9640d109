"""What a network costs before it has run: CPU per record, by the kinds of its boxes.

The coefficients were measured by `python -m bench boxes`, in steps of 250,000 records of three
columns, to about 0.1 us; that of a Filter is below what can be seen. Those of a Session, an Every,
a Running and a Deduplicate were measured on a busy machine, in one run with the others: a Map, an
Aggregate, a Lookup and a Join took 1.0 to 1.1 of their coefficients there, a Rank 1.3 and sliding
windows 3.1. So they are known to about a fifth, that of a Session less well. They say which box is
dear and what the order of magnitude is, not what a machine takes: expressions, keys, columns and
the size of steps all count. What a fragment costs once it runs is metered (`medusa status`).
"""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.network import (
    Aggregate,
    Box,
    Every,
    Join,
    Lookup,
    Session,
    has_functions,
)

READ_US = 0.35
"""To read a record of an input, check it against its hash, and bring it to the boxes."""

COEFFICIENTS_US: Mapping[str, float] = {
    "read": READ_US,
    "filter": 0.05,
    "map": 0.3,
    "union": 0.2,
    "aggregate": 0.3,
    "distinct": 0.85,
    "sliding": 1.2,
    "session": 15.0,
    "join": 3.9,
    "lookup": 0.45,
    "resample": 5.8,
    "rank": 2.7,
    "deduplicate": 0.3,
    "running": 2.2,
    "every": 3.2,
}
"""Kind of box -> microseconds of CPU for each record that it reads."""

AGGREGATED_ROWS = 0.25
"""Rows of an Aggregate for each record that it reads: it has few, where it is of any use."""


def cost_kind(box: Box) -> str | None:
    """The kind of box by what it costs; None if nobody can say, as of functions of Python."""
    if has_functions(box):
        return None
    match box:
        case Aggregate():
            if any("distinct" in text.lower() for text in box.columns.values()):
                return "distinct"
            return "sliding" if box.advance_us < box.size_us else "aggregate"
    return type(box).__name__.lower()


def rows_out(box: Box, records: float) -> float:
    """How many rows a box gives, at most, as far as its kind tells.

    A Join and a Lookup give one for each record of one of their two inputs: guessed of a Join.
    """
    match box:
        case Aggregate() | Session():
            return records * AGGREGATED_ROWS
        case Join() | Lookup():
            return records / 2
        case Every():
            return records / box.n
    return records
