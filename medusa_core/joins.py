"""Join: pairs of rows of two inputs with equal keys, whose event times are close to each other.

The rule for times. Let l and r be the event times of a left and a right row with equal keys. They
are a pair if `lo <= r - l <= hi`. With H = max(hi, 0), no right row that could match a left row
comes after l + H: from then on it is certain whether the left row has a match.

    a pair (inner, left)                      max(l, r)
    a left row without a match (left, anti)   l + H
    a left row with a match (semi)            l + H, once, however many matches it has

The rule for ranges. A row at t is needed by the output positions from t + first to t + last and by
no other (`Reach`), so that the positions [a, b) need the rows [a - last, b - first) of an input.

    pairs          left: the right row is in [l + lo, l + hi], so the pair is in
                   [l + max(lo, 0), l + max(hi, 0)]; both ends occur.
                   right: the left row is in [r - hi, r - lo], so the pair is in
                   [r + max(-hi, 0), r + max(-lo, 0)]; both ends occur.
    certain rows   left: first = last = H, since the certain row is at l + H.
                   right: a right row decides on the left rows in [r - hi, r - lo], which are
                   certain in [r - hi + H, r - lo + H].

An inner Join gives pairs, semi and anti Joins give certain rows, and a left Join gives both: its
reach is the hull of the two. Since H = hi or hi < 0, `H - hi` is `max(-hi, 0)` in each case, and
`H - lo >= max(-lo, 0)`. None of these is negative: a row is never before a row that it is made
of. Each end is reached by some row, so no smaller range would do.

Worked example. `within=("-5s", "10s")`, so H = 10 s, and the output bucket [100 s, 110 s):

    inner        left [90 s, 110 s)    right [95 s, 110 s)
    left         left [90 s, 110 s)    right [85 s, 110 s)
    semi, anti   left [90 s, 100 s)    right [85 s, 110 s)

Inner: the left row at 90 s and the right row at 100 s are a pair at 100 s. The right row at 95 s
and the left row at 100 s are a pair at 100 s. Anti: the left row at 90 s gives a row at 100 s if
no right row is in [85 s, 100 s]; the left row at 99.999999 s gives one at 109.999999 s and depends
on right rows before 110 s. The left row at 100 s gives one at 110 s, which is in the next bucket.

Source: Aurora (VLDB Journal 2003, section 2.2) and Flink's interval join; the rules are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import DURATION_US_MAX, Range, parse_offset_us
from medusa_core.names import check_name
from medusa_core.suggest import did_you_mean

INNER, LEFT, SEMI, ANTI = "inner", "left", "semi", "anti"
KINDS = (INNER, LEFT, SEMI, ANTI)
_SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class Reach:
    """The output positions that need a row of an input: `first_us` to `last_us` after its time.

    `makes_rows`: there may be an output row as late as that because of this row alone. A table that
    is looked up makes none: behind the last record of the stream beside it, nothing needs it.
    """

    first_us: int
    last_us: int
    makes_rows: bool = True

    def behind(self, part: Range) -> Range:
        """The range of the input that the output positions in `part` need."""
        return Range(part.from_us - self.last_us, part.to_us - self.first_us)

    def hull(self, other: Reach) -> Reach:
        """The positions that need the row by this reach, by the other, or in between."""
        return Reach(
            min(self.first_us, other.first_us),
            max(self.last_us, other.last_us),
            self.makes_rows or other.makes_rows,
        )

    def then(self, other: Reach) -> Reach:
        """The positions that need it by way of the positions that need it by the other."""
        return Reach(
            self.first_us + other.first_us,
            self.last_us + other.last_us,
            self.makes_rows and other.makes_rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Rows of `left` with the rows of `right` that have equal keys and a close event time.

    `on` names the keys: `"host"` where both inputs have a column of that name, else
    `"host = machine"`, the left one first; NULL equals nothing. `within` is the least and the
    greatest `right time - left time`, as in `("-5s", "10s")`. `how`:

    - inner: a row for each pair; its event time is the later of the two.
    - left: the same, and a row with NULL in the columns of `right` for each row of `left` without
      a match, at its time + max(hi, 0).
    - semi, anti: each row of `left` that has a match, or has none, once, at that same time.

    `columns` maps names to `left.NAME` or `right.NAME`; default: all columns of `left` and those of
    `right` that are no keys and whose names `left` does not have. Equal records all count: two
    equal rows on the left and three on the right make six pairs.

    A tentative answer of an inner Join is made without a missing input; the other kinds wait.
    """

    name: str
    left: str
    right: str
    on: tuple[str, ...]
    within: tuple[str, str]
    how: str = INNER
    columns: Mapping[str, str] = field(default_factory=dict)
    fragment: str = "main"

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def lo_us(self) -> int:
        """The least difference, right time - left time, in microseconds."""
        return parse_offset_us(self.within[0])

    @property
    def hi_us(self) -> int:
        """The greatest difference, right time - left time, in microseconds."""
        return parse_offset_us(self.within[1])

    @property
    def certain_us(self) -> int:
        """How long after a left row it is certain whether it has a match."""
        return max(self.hi_us, 0)

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """The columns that are equal in a pair: of `left`, of `right`."""
        return keys_of(self.on)

    @property
    def has_pairs(self) -> bool:
        """Whether columns of `right` are there; else its rows are those of `left`."""
        return self.how in (INNER, LEFT)

    @property
    def waits(self) -> bool:
        """Whether a missing input is waited for: without it, rows would be wrong, not missing."""
        return self.how != INNER

    @property
    def references(self) -> Mapping[str, tuple[str, str]]:
        """The columns as given: name -> `left` or `right`, and the column there."""
        return references_of(self.columns, _SIDES)

    @property
    def reaches(self) -> tuple[Reach, Reach]:
        """Which output positions need a row of `left`, and of `right`."""
        lo_us, hi_us, certain_us = self.lo_us, self.hi_us, self.certain_us
        of_pairs = (
            Reach(max(lo_us, 0), max(hi_us, 0)),
            Reach(max(-hi_us, 0), max(-lo_us, 0)),
        )
        certain = (Reach(certain_us, certain_us), Reach(certain_us - hi_us, certain_us - lo_us))
        match self.how:
            case "inner":
                return of_pairs
            case "left":
                return of_pairs[0].hull(certain[0]), of_pairs[1].hull(certain[1])
        return certain


def keys_of(on: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The columns that `on` says are equal: of the first input, of the second."""
    sides = (key.partition("=") for key in on)
    return tuple((a.strip(), (b if is_pair else a).strip()) for a, is_pair, b in sides)


def references_of(
    columns: Mapping[str, str], sides: tuple[str, str]
) -> Mapping[str, tuple[str, str]]:
    """The columns that are written as `side.NAME`: name -> the side, and the column there."""
    form = re.compile(rf"({'|'.join(sides)})\.(\w+)")
    found = {name: form.fullmatch(text.strip()) for name, text in columns.items()}
    return {name: (match[1], match[2]) for name, match in found.items() if match}


def check_join(box: Join) -> None:
    """Refuse a Join whose own parameters cannot be, naming it."""
    owner = f"join {box.name}"
    if box.how not in KINDS:
        near = did_you_mean(str(box.how), KINDS, f"write {', '.join(KINDS)}")
        raise Refused(f"how of {owner} is {box.how!r}, which is not a kind of join: {near}")
    _check_within(owner, box.within)
    check_keys(owner, box.on)
    check_references(owner, box.columns, _SIDES)
    for name, (side, _) in box.references.items():
        if side == "right" and not box.has_pairs:
            raise Refused(
                f"column {name!r} of {owner} is {box.columns[name]!r}: a join with how={box.how!r} "
                "has columns of left alone; write left.NAME, or how='inner' or 'left'"
            )


def _check_within(owner: str, within: object) -> None:
    """Refuse bounds that are not two offsets in order."""
    if not isinstance(within, tuple | list) or len(within) != 2:
        raise Refused(
            f"within of {owner} is {within!r}: write the least and the greatest right time - left "
            "time, as in within=('-5s', '10s')"
        )
    offsets: list[int] = []
    for offset in within:
        if offset is None:
            raise Refused(
                f"within of {owner} has no bound on one side: write two durations such as "
                "('-5s', '10s'); a join keeps no rows without limit"
            )
        try:
            offsets.append(parse_offset_us(offset))
        except Refused as error:
            raise Refused(f"within of {owner}: {error}") from None
    lo_us, hi_us = offsets
    if lo_us > hi_us:
        raise Refused(
            f"within of {owner} begins at {within[0]} and ends at {within[1]}, which is before it: "
            f"write ({within[1]!r}, {within[0]!r})"
        )
    if hi_us - lo_us > DURATION_US_MAX:
        raise Refused(
            f"within of {owner} is longer than 366 days, from {within[0]} to {within[1]}: write "
            "bounds that are closer to each other"
        )


def check_keys(owner: str, on: tuple[str, ...]) -> None:
    """Refuse keys that are missing, not written as a column or a pair of columns, or twice."""
    if not on:
        raise Refused(f"{owner} has no keys: write on=('column',), the columns that are equal")
    keys = keys_of(on)
    for text, (left, right) in zip(on, keys, strict=True):
        if text.count("=") > 1:
            raise Refused(f"{owner} has the key {text!r}: write 'column' or 'left = right'")
        for name in (left, right):
            check_name(f"key of {owner},", name)
    if len(set(keys)) < len(keys):
        raise Refused(f"{owner} has a key twice among {', '.join(on)}: name each once")


def check_references(owner: str, columns: Mapping[str, str], sides: tuple[str, str]) -> None:
    """Refuse columns that are not `side.NAME` of one of the two sides."""
    known = references_of(columns, sides)
    for name, text in columns.items():
        check_name(f"column of {owner},", name)
        if name not in known:
            first, second = sides
            raise Refused(
                f"column {name!r} of {owner} is {text!r}: write {first}.NAME or {second}.NAME, and "
                f"compute expressions in a map behind the {owner.partition(' ')[0]}"
            )
