"""Running: each record with aggregates over the records of its key in its span up to itself.

Spans are fixed to the Unix epoch, [j * within, (j + 1) * within) (`medusa_core.spans`): each begins
without records, so that a total is one of the day, and nothing is kept beyond it. Within a span the
records of a key are in canonical order: by event time, then by all columns as they are declared,
ascending and NULL first. A row has the columns of its record, and the aggregates over the records
of its key and span that are not behind it in this order; the record itself is the last of them.

The rule for times: a row has the event time of its record. The rule for ranges: the row of a record
at t depends on the records of its span up to t and on no later one. So the output positions [a, b)
need the input [floor(a, within), b). No smaller range would do: the first record of the span counts
in every row of its key behind it.

Rows are determined although equal records have no order. Records that are equal in every column
come one after another, because the order is by every column: k of them behind a bag B of records
give k rows, with the aggregates over B and one of them, B and two of them, up to B and all k.
Whichever comes first, these are the same rows.

Worked example. `by=("user",), within="1h", columns={"total": "sum(fee)", "n": "count(*)"}`:

    time      user  fee      total  n
    10:59:59  ann     1          1  1
    11:00:00  ann     2          2  1   the bound of the span is before it
    11:20:00  ann     4          6  2
    11:20:00  ann     4         10  3   of two equal records, one comes first
    11:20:00  NULL    5          5  1   NULL is a key like any other
    11:21:00  ann  NULL         10  4

The output bucket [11:20, 11:21) needs the input [11:00, 11:21).

A record on which an expression fails is put into quarantine: it gives no row, and other rows are
computed without it. Where a value fails, as a sum that leaves 64 bits, the row of that record is
put into quarantine, and the record counts in the rows behind it.

Of a missing part of the input nothing is known. As for an Aggregate, whose sums could be others
too, a tentative answer is computed of the records that are there, and the correction replaces it;
there is one input, so a Running never waits.

Source: the frames ROWS UNBOUNDED PRECEDING of window functions in SQL, bounded by spans so that no
state is kept; the rules are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.frozen import freeze
from medusa_core.grid import parse_duration_us
from medusa_core.spans import check_columns, check_keys, check_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Each record, and aggregates over the records of its key `by` in its span up to itself.

    `columns` (name -> aggregate expression) come behind the columns of the input. A row has the
    event time of its record. Spans of length `within` begin at multiples of it since 1970, each
    without records. NULL is a key like any other; without `by`, the records of a span are one key.
    """

    name: str
    input: str
    by: tuple[str, ...] = ()
    within: str
    columns: Mapping[str, str]
    fragment: str = "main"

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def within_us(self) -> int:
        """Length of a span in microseconds."""
        return parse_duration_us(self.within)


def check_running(box: Running) -> None:
    """Refuse a Running whose own parameters cannot be, naming it."""
    owner = f"running {box.name}"
    check_keys(owner, box.by)
    check_within(owner, box.within)
    check_columns(owner, box.columns, "'n': 'count(*)'")
