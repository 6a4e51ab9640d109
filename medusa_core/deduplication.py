"""Deduplicate: of the records with equal keys, the first one in each span of event time.

Spans are fixed to the Unix epoch, [j * within, (j + 1) * within), whatever the first record is
(`medusa_core.spans`). Of each key, the first record of a span in canonical order stays: by event
time, then by all columns as they are declared, ascending and NULL first. Records that are equal in
every column are one and the same for a reader, so it does not matter which of them stays.

The rule for times: a record that stays has its own event time. The rule for ranges: whether the
record at t stays depends on the records of its span up to t and on no later one. So the output
positions [a, b) need the input [floor(a, within), b), where floor gives the beginning of the span.
No smaller range would do: the record at `a` is dropped if an equal one is first in its span.

Worked example. `by=("id",), within="1h"`:

    time      id
    10:59:59  x     stays, the first of 10:00 to 11:00
    11:00:00  x     stays, the first of 11:00 to 12:00: the bound is between the two
    11:20:00  x     dropped
    11:20:00  NULL  stays: NULL is a key like any other

The output bucket [11:20, 11:21) needs the input [11:00, 11:21).

Of a missing part of the input nothing is known: a record that stays could be the second of its key.
As for a Rank, a tentative answer is computed of the records that are there, and the correction
replaces it; there is one input, so a Deduplicate never waits.

Source: Flink's deduplication, bounded by a span so that no state is kept; the rules are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.spans import check_keys, check_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """The first record of each key, the columns `by`, in each span of length `within`.

    It keeps its columns and its event time. First means in canonical order: by event time, then by
    all columns. NULL is a key like any other. Spans begin at multiples of `within` since 1970, so
    that two records of one key stay if a bound of spans lies between them.
    """

    name: str
    input: str
    by: tuple[str, ...]
    within: str
    fragment: str = "main"

    @property
    def within_us(self) -> int:
        """Length of a span in microseconds."""
        return parse_duration_us(self.within)


def check_deduplicate(box: Deduplicate) -> None:
    """Refuse a Deduplicate whose own parameters cannot be, naming it."""
    owner = f"deduplicate {box.name}"
    if not box.by:
        raise Refused(f"{owner} has no keys: write by=('column',), the columns that are equal")
    check_keys(owner, box.by)
    check_within(owner, box.within)
