"""Every: count windows, one row for every n records of a key in a span of event time.

Spans are fixed to the Unix epoch, [j * within, (j + 1) * within) (`medusa_core.spans`). The records
of a key in a span are in canonical order: by event time, then by all columns as they are declared,
ascending and NULL first. The first n of them are a group, the next n another one, and so on. A full
group gives one row: the key, and the aggregates over its records. A group that is not full when the
span ends gives none, and the next span begins with a new one.

The rule for times: a row has the event time of the last record of its group. The rule for ranges:
the row at t depends on the records of its span up to t and on no later one; of the records at t,
those behind the last one of the group are in another group. So the output positions [a, b) need the
input [floor(a, within), b). No smaller range would do: with one record more at the beginning of the
span, all groups behind it begin one record earlier.

Rows are determined although equal records have no order. Records that are equal in every column
come one after another, because the order is by every column. Exchanging two of them leaves at each
place of the order an equal record, so each group is the same bag of records, and has the same
aggregates, key and event time.

Worked example. `by=("user",), n=2, within="1h", columns={"total": "sum(fee)"}`:

    time      user  fee
    10:59:58  ann     1     the first of its group, which is not full when the span ends
    11:00:00  ann     2     the first of a group
    11:20:00  ann     4     the second: gives (ann, 6) at 11:20:00
    11:20:00  ann     4     of two equal records, one is the second and one the third
    11:30:00  NULL    5     the first of a group of its own: NULL is a key like any other
    11:40:00  ann  NULL     the fourth: gives (ann, 4) at 11:40:00

The output bucket [11:40, 11:41) needs the input [11:00, 11:41).

A record on which an expression fails is put into quarantine, and is in no group. Where a value
fails, as a sum that leaves 64 bits, the row of the group is put into quarantine; its records stay
in it, so that the groups behind it are the same.

Of a missing part of the input nothing is known. As for an Aggregate, a tentative answer is computed
of the records that are there, and the correction replaces it, with other groups behind the first
record that came later; there is one input, so an Every never waits.

Source: the count windows of Flink, bounded by spans so that no state is kept; the rules are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import parse_duration_us
from medusa_core.spans import check_columns, check_keys, check_within

N_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """One row for every `n` records of each key `by` in each span of length `within`.

    A row has the columns of `by`, then `columns` (name -> aggregate expression) over the records of
    its group, and the event time of the last of them. Records are counted in canonical order, from
    the beginning of the span on. Spans begin at multiples of `within` since 1970; a group that is
    not full when a span ends gives no row. NULL is a key like any other; without `by`, the records
    of a span are one key.
    """

    name: str
    input: str
    by: tuple[str, ...] = ()
    n: int
    within: str
    columns: Mapping[str, str]
    fragment: str = "main"

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def within_us(self) -> int:
        """Length of a span in microseconds."""
        return parse_duration_us(self.within)


def check_every(box: Every) -> None:
    """Refuse an Every whose own parameters cannot be, naming it."""
    owner = f"every {box.name}"
    if isinstance(box.n, bool) or not isinstance(box.n, int) or not 1 <= box.n <= N_MAX:
        raise Refused(
            f"n of {owner} is {box.n!r}: write how many records give one row, a whole number from "
            f"1 to {N_MAX:,}"
        )
    check_keys(owner, box.by)
    check_within(owner, box.within)
    check_columns(owner, box.columns, "'total': 'sum(x)'")
    twice = [name for name in box.columns if name in box.by]
    if twice:
        raise Refused(
            f"{owner} has two columns named {twice[0]!r}, a key and an aggregate: give the "
            "aggregate another name"
        )
