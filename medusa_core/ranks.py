"""Rank: the records of each window and group in an order that the box declares, or the first k.

Without `k` it is the Sort of Aurora (Abadi et al., The VLDB Journal 2003, section 2.2: BSort)
over a window: a stream has no order, so the place of a record is a column.

The rule for times is that of an Aggregate. A record at t is ranked in every window
[i * advance, i * advance + size) that holds t. A row of the window is at its end - 1 us, so that
the output positions [a, b) need the input records of the windows that end in [a + 1 us, b]: from
the start of the first of them to the end of the last (`medusa_core.fragments.windows_within`), and
none if no window ends there. A row of the output depends on every record of its window and
group, since a single record more can move each of them by one rank or out of the first k.

The order is total. Columns of `order` come first, each ascending unless it says `desc`; NULL comes
last in both directions, so that `price desc` never begins with records without a price. Ties are
decided by the canonical order, as in the aggregates `first` and `last`: by event time, then by all
columns of the input as they are declared, ascending and NULL first. Records that are still equal
are equal in every column: each has a rank of its own, and whichever gets which gives the same rows.

Worked example. `size="60s", group_by=("symbol",), order=("price desc",), k=2` over

    time    symbol  price
    10 s    a           5
    20 s    a           7
    30 s    a           7
    40 s    a        NULL
    61 s    b           1

The window [0 s, 60 s) gives (20 s's record, rank 1) and (30 s's record, rank 2), both at
59.999999 s; [60 s, 120 s) gives b's record with rank 1 at 119.999999 s. The output bucket
[50 s, 60 s) needs the input [0 s, 60 s), and [60 s, 70 s) needs nothing.

Of a missing part of the input nothing is known, and the rows of a window could all be others. As
for an Aggregate, whose sums could be others too, a tentative answer ranks the records that are
there, and the correction replaces it. A Rank has one input, so it never waits: without the input
there is no answer, and behind a Union that lacks a member there is one of the other members.

Source: Flink's Window Top-N; the canonical order of ties and the rules above are ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.names import check_name
from medusa_core.suggest import did_you_mean

K_MAX = 10_000
WINDOW_START = "window_start"
_ORDER = re.compile(r"\s*(\w+)(?:\s+(\w+))?\s*")
_DIRECTIONS = ("asc", "desc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Windows [i * advance, i * advance + size) of event time, per group: the first `k` records,
    or all.

    `order` names the columns to order by, the first one first: `"price desc"`, or `"at"` for
    ascending. NULL comes last in both directions, and ties are decided by the canonical order,
    which is all there is without `order`: the first records by event time.

    The output has `window_start` (unless the input has a column of that name, which stays), the
    columns of the input, and the rank as a bigint from 1 under the name `column`; its event time is
    the window's end - 1 us. A record in several windows is ranked in each.
    """

    name: str
    input: str
    size: str
    advance: str | None = None
    group_by: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    k: int | None = None
    column: str = "rank"
    fragment: str = "main"

    @property
    def size_us(self) -> int:
        """Length of a window in microseconds."""
        return parse_duration_us(self.size)

    @property
    def advance_us(self) -> int:
        """Distance between the starts of two windows in microseconds."""
        return self.size_us if self.advance is None else parse_duration_us(self.advance)

    @property
    def number_shown(self) -> str:
        """How many records of a window and group are ranked, for people."""
        return "all" if self.k is None else f"first {self.k}"

    @property
    def windows_shown(self) -> str:
        """The windows for people, as those of an Aggregate."""
        return self.size if self.advance is None else f"{self.size} by {self.advance}"

    @property
    def keys(self) -> tuple[tuple[str, bool], ...]:
        """The columns to order by, and whether each is descending."""
        found = (_ORDER.fullmatch(text) for text in self.order)
        return tuple((m[1], (m[2] or "").lower() == "desc") for m in found if m)


def check_rank(box: Rank) -> None:
    """Refuse a Rank whose own parameters cannot be, naming it; its windows are checked apart."""
    owner = f"rank {box.name}"
    is_count = isinstance(box.k, int) and not isinstance(box.k, bool) and 1 <= box.k <= K_MAX
    if box.k is not None and not is_count:
        raise Refused(
            f"k of {owner} is {box.k!r}: write how many records of a window and group are ranked, "
            f"a whole number from 1 to {K_MAX:,}, or leave it out for all"
        )
    check_name(f"column of {owner},", box.column)
    for name in box.group_by:
        check_name(f"column of {owner},", name)
    if WINDOW_START in (*box.group_by, box.column):
        where = "as its column" if box.column == WINDOW_START else "in group_by"
        raise Refused(
            f"{owner} has {WINDOW_START} {where}: every record is ranked within its window, "
            "whose start is a column of the output; leave it out"
        )
    for text in box.order:
        _check_key(owner, text)
    for field, names in (("group_by", box.group_by), ("order", [name for name, _ in box.keys])):
        if len(set(names)) < len(names):
            raise Refused(
                f"{field} of {owner} has a column twice among {', '.join(names)}: name each once"
            )


def _check_key(owner: str, text: str) -> None:
    """Refuse a part of an order that is not a column and perhaps a direction."""
    found = _ORDER.fullmatch(text)
    if found is None:
        advice = "write a column and perhaps asc or desc, as in 'price desc'"
        if "null" in text.lower():
            advice = "NULL comes last in both directions; write a column and perhaps asc or desc"
        elif "," in text:
            advice = "write each column as a text of its own, as in ('price desc', 'at')"
        elif re.search(r"\W", text.strip()):
            advice += ", and compute expressions in a map before it"
        raise Refused(f"order of {owner} has {text!r}: {advice}")
    check_name(f"column of {owner},", found[1])
    direction = found[2]
    if direction and direction.lower() not in _DIRECTIONS:
        near = did_you_mean(direction, _DIRECTIONS, "write asc or desc")
        raise Refused(f"order of {owner} has {text!r}, and {direction} is not a direction: {near}")
